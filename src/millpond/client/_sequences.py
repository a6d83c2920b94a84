"""Sequence numbers of an idempotent producer: what a batch is numbered, when it may go, what an answer means.

A leader takes a batch only if its first sequence is the one after the last that it has from this producer id
and epoch, and it recognises the last five batches when they come again. From that follow the rules here:

- Batches are numbered when they are first sent, and keep their numbers when they are sent again.
- A leader that does not know a producer yet takes any sequence. So the first batch goes alone: if it failed
  and a second one were taken, the first could never be (KAFKA-14359, KAFKA-15591).
- What comes back is sent again alone and oldest first: nothing overtakes it, so nothing is reordered.
- A batch that was given up may or may not be in the log (a *gap*). Those after it tell: if the leader takes
  one, there was no hole. If it refuses the oldest one still open, neither that one nor any after it is in the
  log: a new epoch begins, and they are numbered from 0. Nothing is renumbered whose fate is unknown.
- With transactions the epoch is the coordinator's to change: a refusal ends the transaction instead.
"""

from enum import Enum
from typing import NamedTuple

from millpond.base.ids import TopicPartition
from millpond.client._accumulator import NO_SEQUENCE, Batch

SEQUENCE_MASK = 0x7FFFFFFF
EPOCH_MAX = 2**15 - 2  # the last one is the broker's, to fence with


class Identity(NamedTuple):
    """Who a producer is to the brokers."""

    producer_id: int
    epoch: int


class Verdict(Enum):
    """What to do with a batch that the leader refused."""

    SEND_AGAIN = "send again"
    GIVE_UP = "give up"


class _Track:
    """One partition's numbers."""

    __slots__ = ("gap", "identity", "is_known", "next", "open", "refused")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.next = 0
        self.open: list[Batch] = []  # numbered and not settled, in order
        self.is_known = False  # the leader has something of this epoch
        self.gap = False
        self.refused = False


class Sequences:
    """The numbers of all partitions."""

    def __init__(self, *, transactional: bool = False) -> None:
        self._transactional = transactional
        self._tracks: dict[TopicPartition, _Track] = {}
        self.identity: Identity | None = None

    @property
    def has_gap(self) -> bool:
        """Whether the brokers' view of this epoch may differ from ours somewhere."""
        return any(track.gap or track.refused for track in self._tracks.values())

    def adopt(self, identity: Identity) -> None:
        """The brokers gave us a new id or epoch; every partition starts from 0 when it is free to."""
        self.identity = identity

    def may_send(self, batch: Batch) -> bool:
        """Whether this batch, the first of its queue, may go now."""
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
        """Give a batch its numbers, unless it has them from before."""
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
        """The leader has it."""
        track = self._remove(batch)
        if track is not None and track.identity == batch.identity:
            track.is_known = True
        if track is not None and track.gap and not track.open:
            # The last number that we gave is in the log, so all before it are.
            end = (batch.sequence + len(batch.records)) & SEQUENCE_MASK
            track.gap = track.identity != batch.identity or end != track.next

    def refused(self, batch: Batch) -> Verdict:
        """The leader says that the sequence (or the epoch) is not the one that it expects."""
        track = self._tracks.get(batch.partition)
        if track is None or batch not in track.open:
            return Verdict.GIVE_UP
        if track.open[0] is not batch:
            return Verdict.SEND_AGAIN  # the one before it has not arrived; it will
        if self._transactional:
            return Verdict.GIVE_UP
        track.refused = True
        return Verdict.SEND_AGAIN

    def given_up(self, batch: Batch) -> None:
        """Nobody will send it again; it may be in the log, or not."""
        track = self._remove(batch)
        if track is not None:
            track.gap = True

    def split(self, batch: Batch) -> None:
        """Two halves carry the numbers of a batch now."""
        track = self._tracks.get(batch.partition)
        if track is not None and batch in track.open and batch.parts is not None:
            at = track.open.index(batch)
            track.open[at : at + 1] = [part for _, part in batch.parts]

    def forget(self) -> None:
        """A transaction was aborted: nothing of it is open, and its epoch is over."""
        self._tracks.clear()

    def _begin_again(self, track: _Track) -> None:
        """A new epoch; what is open is numbered from 0. Without an epoch left, a new id is needed first."""
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
