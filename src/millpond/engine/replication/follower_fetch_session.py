"""What a follower has told its leader, and what it has to tell it next: positions that have changed.

A fetch session (KIP-227) seen from the follower. Whoever changes a position says so. After a failure nobody
knows what the leader has heard, so the next fetch begins a new session and says everything.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from uuid import UUID

from millpond.engine.peers import NO_SESSION, SESSION_BEGINS, ReplicaPosition
from millpond.replication.partition import Partition

_EPOCH_MAX = 2**31 - 1

_Key = tuple[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one fetch tells the leader."""

    positions: tuple[ReplicaPosition, ...]
    forgotten: tuple[_Key, ...]
    session_id: int
    session_epoch: int


class Conversation:
    """With one leader."""

    def __init__(self) -> None:
        # What the leader knows, or will with the fetch that is under way.
        self.said: dict[_Key, tuple[Partition, ReplicaPosition]] = {}
        self._changed: dict[Partition, None] = {}
        self._forgotten: dict[_Key, None] = {}
        self._session_id = NO_SESSION
        self._session_epoch = SESSION_BEGINS
        self._bytes_max = -1

    def on_change(self, partition: Partition) -> None:
        """Its position may be another one now."""
        self._changed[partition] = None

    def leave(self, partition: Partition) -> None:
        """It is not asked for any more."""
        key = partition.topic_id, partition.index
        self._changed.pop(partition, None)
        if self.said.pop(key, None) is not None:
            self._forgotten[key] = None

    def unflushed(self, followed: Container[Partition]) -> list[Partition]:
        """What has to be made durable before the leader may hear of it."""
        return [
            one for one in self._changed if one in followed and one.own_end < one.log.end_offset
        ]

    def say(self, followed: Iterable[Partition], *, bytes_max: int) -> Said:
        """The next fetch. Nothing that has changed may be unflushed."""
        if bytes_max != self._bytes_max:
            self._bytes_max = bytes_max
            self.begin_anew()
        if self._session_epoch == SESSION_BEGINS:
            self._changed = dict.fromkeys(followed)
            self.said.clear()
            self._forgotten.clear()
        positions = []
        for partition in tuple(self._changed):
            if partition.own_end < partition.log.end_offset:
                continue  # told when it is durable
            del self._changed[partition]
            key = partition.topic_id, partition.index
            position = _position(partition, bytes_max)
            known = self.said.get(key)
            if known is None or known[1] != position:
                self.said[key] = partition, position
                self._forgotten.pop(key, None)
                positions.append(position)
        forgotten, self._forgotten = tuple(self._forgotten), {}
        return Said(
            positions=tuple(positions),
            forgotten=forgotten,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
        )

    def on_answer(self, session_id: int) -> None:
        """The leader has heard it, and remembers it if it says so."""
        if session_id == NO_SESSION:
            self.begin_anew()
        else:
            self._session_id = session_id
            epoch = self._session_epoch
            self._session_epoch = epoch + 1 if epoch < _EPOCH_MAX else SESSION_BEGINS + 1

    def begin_anew(self) -> None:
        """Nobody knows what the leader has heard."""
        self._session_id = NO_SESSION
        self._session_epoch = SESSION_BEGINS
        self._changed |= dict.fromkeys(partition for partition, _position in self.said.values())


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
