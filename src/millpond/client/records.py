"""The records and results of producers and consumers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from millpond.base.ids import TopicPartition
from millpond.record.records import Headers


@dataclass(slots=True)
class ProducerRecord:
    """A record before it is serialized. Interceptors may change any of it."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Iterable[tuple[str, bytes | None]] = ()


class RecordMetadata(NamedTuple):
    """Where a record was appended. ``offset`` is -1 with acks=0, which has no response."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1


@dataclass(slots=True)
class ConsumerRecord:
    """A record that a consumer returns."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int  # 0: the producer's time, 1: the broker's
    key: Any
    value: Any
    headers: Headers
    leader_epoch: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record was read from."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: the next one to read, and the committer's metadata."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """An offset found by time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """A consumer's identity in its group, for offsets that are committed in a transaction."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
