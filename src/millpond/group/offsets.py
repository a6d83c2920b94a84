"""Committed offsets by group, topic and partition.

Beside it, per open transaction, the positions that will count if it commits (``pending``). Where a plain
commit came after such a position, the plain one stays.

Changed only by facts. Decisions about what may be committed or dropped are the coordinator's; this
module says what has expired. ``partition_for`` is where a group lives in ``__consumer_offsets``.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from millpond.base import limits
from millpond.group.records import (
    CommittedOffset,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    PendingEnded,
)

TopicOffsets: TypeAlias = Mapping[int, CommittedOffset]

_NOTHING: Mapping[str, TopicOffsets] = {}


class OffsetTable:
    """Every committed offset of every group."""

    __slots__ = ("_groups", "_pending")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        # group → producer → (topic, partition) → position; None where a later plain commit outdid it.
        self._pending: dict[str, dict[int, dict[tuple[str, int], CommittedOffset | None]]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._groups.get(group_id, _NOTHING).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> Mapping[str, TopicOffsets]:
        """Return the offsets of one group, by topic. Empty if it has none."""
        return self._groups.get(group_id, _NOTHING)

    def groups_reading(self, topic: str) -> list[str]:
        return [group_id for group_id, topics in self._groups.items() if topic in topics]

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed an offset here."""
        producers = self._pending.get(group_id)
        if not producers:
            return False
        return any((topic, partition) in places for places in producers.values())

    def pending_groups(self, producer_id: int) -> list[str]:
        """Return the groups in which this producer has pending offsets."""
        return [group_id for group_id, one in self._pending.items() if producer_id in one]

    def pending_places(self, group_id: str) -> set[tuple[str, int]]:
        """Return the partitions in which a group has pending offsets."""
        return {place for places in self._pending.get(group_id, {}).values() for place in places}

    def apply(
        self, record: OffsetCommitted | OffsetPended | PendingEnded | OffsetForgotten
    ) -> None:
        match record:
            case OffsetCommitted():
                topics = self._groups.setdefault(record.group_id, {})
                topics.setdefault(record.topic, {})[record.partition] = record.value
                if record.group_id in self._pending:
                    place = record.topic, record.partition
                    for places in self._pending[record.group_id].values():
                        if place in places:
                            places[place] = None
            case OffsetPended():
                producers = self._pending.setdefault(record.group_id, {})
                places = producers.setdefault(record.producer_id, {})
                places[record.topic, record.partition] = record.value
            case PendingEnded():
                self._end_pending(record)
            case OffsetForgotten():
                self._forget(record)

    def _end_pending(self, record: PendingEnded) -> None:
        producers = self._pending.get(record.group_id)
        if producers is None:
            return
        places = producers.pop(record.producer_id, {})
        if not producers:
            del self._pending[record.group_id]
        if not record.committed:
            return
        for (topic, partition), value in places.items():
            if value is not None:
                topics = self._groups.setdefault(record.group_id, {})
                topics.setdefault(topic, {})[partition] = value

    def _forget(self, record: OffsetForgotten) -> None:
        producers = self._pending.get(record.group_id, {})
        for producer_id, places in tuple(producers.items()):
            places.pop((record.topic, record.partition), None)
            if not places:
                del producers[producer_id]
        if not producers:
            self._pending.pop(record.group_id, None)
        group = self._groups.get(record.group_id)
        if group is None or record.topic not in group:
            return
        group[record.topic].pop(record.partition, None)
        if not group[record.topic]:
            del group[record.topic]
        if not group:
            del self._groups[record.group_id]

    def expired(
        self,
        group_id: str,
        *,
        now_ms: int,
        retention_ms: int,
        since_ms: Callable[[CommittedOffset], int],
    ) -> Iterator[tuple[str, int]]:
        """Return the offsets of a group whose retention time is over."""
        for topic, partitions in self.of_group(group_id).items():
            for partition, committed in partitions.items():
                if committed.expires_at_ms is not None:
                    # The commit itself said how long (requests before version 5).
                    due_ms = committed.expires_at_ms
                else:
                    due_ms = since_ms(committed) + retention_ms
                if due_ms <= now_ms:
                    yield topic, partition


@lru_cache(maxsize=limits.COORDINATED_KEYS_CACHED_MAX)
def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition of ``__consumer_offsets`` that keeps a group, as Kafka brokers compute it."""
    code = 0
    data = group_id.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        code = (code * 31 + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    # The absolute value of a Java int; the one number that has none counts as zero.
    if code == 0x80000000:
        return 0
    absolute = 0x1_0000_0000 - code if code > 0x7FFFFFFF else code
    return absolute % partition_count
