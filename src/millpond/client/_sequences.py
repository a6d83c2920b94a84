"""Sequence numbers of an idempotent producer: numbering batches, when to send them, what errors mean.

A leader accepts a batch only if its first sequence number follows the last that it has from this producer id
and epoch, and it recognises duplicates of the last five batches. From that follow these rules:

- Batches are numbered when they are first sent, and keep their numbers when they are sent again.
- A leader that does not know a producer yet accepts any number. So the first batch is sent alone: if it
  failed and a second one were accepted, the first could never be (KAFKA-14359, KAFKA-15591).
- Retried batches are sent alone and oldest first: nothing overtakes them, so nothing is reordered.
- A failed batch may or may not be in the log (a *gap*). Later batches tell: if the leader accepts one, there
  was no gap. If it refuses the oldest open one, neither that one nor any after it is in the log: a new epoch
  begins, and they are numbered from 0. A batch whose result is unknown is never renumbered.
- With transactions only the coordinator changes the epoch: a refusal ends the transaction instead.
"""

from enum import Enum
from typing import NamedTuple

from millpond.base.ids import TopicPartition
from millpond.client._accumulator import NO_SEQUENCE, Batch

SEQUENCE_MASK = 0x7FFFFFFF
EPOCH_MAX = 2**15 - 2  # the last one is for the broker, to fence with


class Identity(NamedTuple):
    """A producer id and epoch."""

    producer_id: int
    epoch: int


class Verdict(Enum):
    """What to do with a batch that the leader refused."""

    SEND_AGAIN = "send again"
    GIVE_UP = "give up"


class _Track:
    """The sequence numbers of one partition."""

    __slots__ = ("gap", "identity", "is_known", "next", "open", "refused")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.next = 0
        self.open: list[Batch] = []  # numbered and without a result, in order
        self.is_known = False  # the leader has a batch of this epoch
        self.gap = False
        self.refused = False


class Sequences:
    """The sequence numbers of all partitions."""

    def __init__(self, *, transactional: bool = False) -> None:
        self._transactional = transactional
        self._tracks: dict[TopicPartition, _Track] = {}
        self.identity: Identity | None = None

    @property
    def has_gap(self) -> bool:
        """Whether the brokers' state of this epoch may differ from ours in some partition."""
        return any(track.gap or track.refused for track in self._tracks.values())

    def adopt(self, identity: Identity) -> None:
        """Adopt a new id or epoch from the brokers; every partition starts from 0 when it has no open
        batches.
        """
        self.identity = identity

    def may_send(self, batch: Batch) -> bool:
        """Return whether this batch, the first of its queue, may be sent now."""
        if self.identity is None:
            return False
        track = self._tracks.get(batch.partition)
        if track is None:
            return True
        if track.refused:
            if any(item.on_wire for item in track.open):
                return False
            self._begin_again(track)
            if self.identity is None:
                return False
        if batch.sequence != NO_SEQUENCE:
            return track.open[0] is batch
        if track.open:
            return track.is_known and not track.gap and track.identity == self.identity
        if track.gap:
            if self._transactional:
                return False
            self._begin_again(track)
        return self.identity is not None

    def number(self, batch: Batch) -> None:
        """Number a batch, unless it is numbered already."""
        assert self.identity is not None
        if batch.sequence != NO_SEQUENCE:
            return
        track = self._tracks.get(batch.partition)
        if track is None or track.identity != self.identity:
            assert track is None or not track.open
            track = self._tracks[batch.partition] = _Track(self.identity)
        self._number_next(track, batch)
        track.open.append(batch)

    def taken(self, batch: Batch) -> None:
        """Note that the leader has appended the batch."""
        track = self._remove(batch)
        if track is not None and track.identity == batch.identity:
            track.is_known = True
        if track is not None and track.gap and not track.open:
            # The last number is in the log, so all before it are.
            end = (batch.sequence + len(batch.records)) & SEQUENCE_MASK
            track.gap = track.identity != batch.identity or end != track.next

    def refused(self, batch: Batch) -> Verdict:
        """Handle a leader's refusal of the sequence number or the epoch."""
        track = self._tracks.get(batch.partition)
        if track is None or batch not in track.open:
            return Verdict.GIVE_UP
        if track.open[0] is not batch:
            return Verdict.SEND_AGAIN  # the batch before it has not arrived; it will
        if self._transactional:
            return Verdict.GIVE_UP
        track.refused = True
        return Verdict.SEND_AGAIN

    def given_up(self, batch: Batch) -> None:
        """Note a failed batch; it may be in the log, or not."""
        track = self._remove(batch)
        if track is not None:
            track.gap = True

    def split(self, batch: Batch) -> None:
        """Note that two halves carry the numbers of a batch now."""
        track = self._tracks.get(batch.partition)
        if track is not None and batch in track.open and batch.parts is not None:
            at = track.open.index(batch)
            track.open[at : at + 1] = [part for _, part in batch.parts]

    def forget(self) -> None:
        """Drop all state of an aborted transaction: its epoch is over."""
        self._tracks.clear()

    def _begin_again(self, track: _Track) -> None:
        """Begin a new epoch; open batches are numbered from 0. Without an epoch left, a new id is needed
        first.
        """
        assert self.identity is not None
        if track.identity == self.identity:
            if self.identity.epoch >= EPOCH_MAX:
                self.identity = None
                return
            self.identity = Identity(self.identity.producer_id, self.identity.epoch + 1)
        track.identity = self.identity
        track.next = 0
        track.gap = track.refused = track.is_known = False
        for batch in track.open:
            batch.data = None
            self._number_next(track, batch)

    @staticmethod
    def _number_next(track: _Track, batch: Batch) -> None:
        batch.identity = track.identity
        batch.sequence = track.next
        track.next = (track.next + len(batch.records)) & SEQUENCE_MASK

    def _remove(self, batch: Batch) -> _Track | None:
        track = self._tracks.get(batch.partition)
        if track is None or batch not in track.open:
            return None
        track.open.remove(batch)
        return track
