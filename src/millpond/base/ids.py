"""Names for the integers that travel everywhere.

They are aliases, not ``NewType``s: the hot path makes millions of them, and a ``NewType`` call costs
more than the addition that follows it. The name says the unit.
"""

from typing import NamedTuple, TypeAlias

Offset: TypeAlias = int
LeaderEpoch: TypeAlias = int
NodeId: TypeAlias = int
ProducerId: TypeAlias = int
TimestampMs: TypeAlias = int

NO_OFFSET: Offset = -1
NO_EPOCH: LeaderEpoch = -1
NO_PRODUCER_ID: ProducerId = -1
NO_TIMESTAMP: TimestampMs = -1


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
