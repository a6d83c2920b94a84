"""How far each group has read: group, topic, partition → the committed position.

Changed only by facts. Decisions about what may be committed or dropped are the coordinator's; this
module says what has expired. ``partition_for`` is where a group lives in ``__consumer_offsets``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from millpond.group.records import CommittedOffset, OffsetCommitted, OffsetForgotten

TopicOffsets: TypeAlias = Mapping[int, CommittedOffset]

_NOTHING: Mapping[str, TopicOffsets] = {}


class OffsetTable:
    """Every committed position of every group."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._groups.get(group_id, _NOTHING).get(topic, {}).get(partition)

    def of_group(self, group_id: str) -> Mapping[str, TopicOffsets]:
        """The positions of one group, by topic. Empty if it has none."""
        return self._groups.get(group_id, _NOTHING)

    def groups_reading(self, topic: str) -> list[str]:
        return [group_id for group_id, topics in self._groups.items() if topic in topics]

    def apply(self, record: OffsetCommitted | OffsetForgotten) -> None:
        if isinstance(record, OffsetCommitted):
            topics = self._groups.setdefault(record.group_id, {})
            topics.setdefault(record.topic, {})[record.partition] = record.value
            return
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
        """Positions of a group that nobody has needed for the retention time."""
        for topic, partitions in self.of_group(group_id).items():
            for partition, committed in partitions.items():
                if committed.expires_at_ms is not None:
                    # The commit itself said how long (requests before version 5).
                    due_ms = committed.expires_at_ms
                else:
                    due_ms = since_ms(committed) + retention_ms
                if due_ms <= now_ms:
                    yield topic, partition


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition of ``__consumer_offsets`` that keeps a group, as every Kafka broker computes it."""
    code = 0
    data = group_id.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        code = (code * 31 + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    # The absolute value of a Java int; the one number that has none counts as zero.
    if code == 0x80000000:
        return 0
    absolute = 0x1_0000_0000 - code if code > 0x7FFFFFFF else code
    return absolute % partition_count
