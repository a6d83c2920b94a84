"""What producers take and give back, what consumers hand out."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from millpond.base.ids import TopicPartition
from millpond.record.records import Headers


@dataclass(slots=True)
class ProducerRecord:
    """A record on its way in, before it is serialized. Interceptors may change any of it."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Iterable[tuple[str, bytes | None]] = ()


class RecordMetadata(NamedTuple):
    """Where a record went. ``offset`` is -1 with acks=0: nobody said."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1


@dataclass(slots=True)
class ConsumerRecord:
    """A record as a consumer hands it out."""

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
        """The partition that it was read from."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed position: the next offset to read, and a note of the committer's."""

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
    """Who a consumer is to its group, for offsets that are committed in a transaction."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
