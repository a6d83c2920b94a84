"""The fetch session of a follower (KIP-227): which positions the leader knows, and which have changed.

The host reports every change of a position. After a failure it is not known what the leader has received, so
the next fetch begins a new session with all positions.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from uuid import UUID

from millpond.base.ids import LeaderEpoch, Offset
from millpond.replication.partition import Partition

# Of a fetch: the one that begins a session, and one that belongs to none. Sessions have numbers from 1 on.
SESSION_BEGINS = 0
NO_SESSION = 0
OUT_OF_SESSION = -1
_EPOCH_MAX = 2**31 - 1

_Key = tuple[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPosition:
    """How far a follower has come in one partition, and in which epoch its last record was written."""

    topic_id: UUID
    partition: int
    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_epoch: LeaderEpoch
    log_start: Offset
    bytes_max: int
    # The follower's high watermark, -1 if it does not say.
    high_watermark: Offset = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFetch:
    """The part of a fetch that depends on the session."""

    positions: tuple[ReplicaPosition, ...]
    forgotten: tuple[_Key, ...]
    session_id: int
    session_epoch: int


class FollowerFetchSession:
    """The session with one leader."""

    def __init__(self) -> None:
        # The positions that the leader knows, or will know with the fetch that is under way.
        self.sent: dict[_Key, tuple[Partition, ReplicaPosition]] = {}
        self._changed: dict[Partition, None] = {}
        self._forgotten: dict[_Key, None] = {}
        self._session_id = NO_SESSION
        self._session_epoch = SESSION_BEGINS
        self._bytes_max = -1

    def on_change(self, partition: Partition) -> None:
        """Note that the position of a partition may have changed."""
        self._changed[partition] = None

    def leave(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        key = partition.topic_id, partition.index
        self._changed.pop(partition, None)
        if self.sent.pop(key, None) is not None:
            self._forgotten[key] = None

    def unflushed(self, followed: Container[Partition]) -> list[Partition]:
        """Return the partitions to flush before their positions may be sent."""
        return [
            one for one in self._changed if one in followed and one.own_end < one.log.end_offset
        ]

    def next_fetch(self, followed: Iterable[Partition], *, bytes_max: int) -> SessionFetch:
        """Return the next fetch. Partitions with unflushed records are left out."""
        if bytes_max != self._bytes_max:
            self._bytes_max = bytes_max
            self.begin_anew()
        if self._session_epoch == SESSION_BEGINS:
            self._changed = dict.fromkeys(followed)
            self.sent.clear()
            self._forgotten.clear()
        positions = []
        for partition in tuple(self._changed):
            if partition.own_end < partition.log.end_offset:
                continue  # sent when it is flushed
            del self._changed[partition]
            key = partition.topic_id, partition.index
            position = _position(partition, bytes_max)
            known = self.sent.get(key)
            if known is None or known[1] != position:
                self.sent[key] = partition, position
                self._forgotten.pop(key, None)
                positions.append(position)
        forgotten, self._forgotten = tuple(self._forgotten), {}
        return SessionFetch(
            positions=tuple(positions),
            forgotten=forgotten,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
        )

    def on_answer(self, session_id: int) -> None:
        """Note that the leader has received the fetch, and whether it keeps the session."""
        if session_id == NO_SESSION:
            self.begin_anew()
        else:
            self._session_id = session_id
            epoch = self._session_epoch
            self._session_epoch = epoch + 1 if epoch < _EPOCH_MAX else SESSION_BEGINS + 1

    def begin_anew(self) -> None:
        """Begin a new session: it is not known what the leader has received."""
        self._session_id = NO_SESSION
        self._session_epoch = SESSION_BEGINS
        self._changed |= dict.fromkeys(partition for partition, _position in self.sent.values())


def _position(partition: Partition, bytes_max: int) -> ReplicaPosition:
    log_ = partition.log
    return ReplicaPosition(
        topic_id=partition.topic_id,
        partition=partition.index,
        leader_epoch=partition.leader_epoch,
        fetch_offset=log_.end_offset,
        last_epoch=log_.latest_epoch,
        log_start=log_.start_offset,
        bytes_max=bytes_max,
        high_watermark=partition.high_watermark,
    )
