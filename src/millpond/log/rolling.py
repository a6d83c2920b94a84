"""Decides when the active segment is closed and the next one begun. Nothing is closed here."""

from crc32c import crc32c

from millpond.base.ids import Offset, TimestampMs, TopicPartition
from millpond.base.limits import SEGMENT_OFFSET_SPAN_MAX
from millpond.log.config import LogConfig
from millpond.log.segment import Segment


class RollRule:
    """The settings for the age and the size of one active segment."""

    __slots__ = ("_age_ms_max", "_index_bytes")

    def __init__(
        self, config: LogConfig, topic_partition: TopicPartition, base_offset: Offset
    ) -> None:
        self._index_bytes = config.segment_index_bytes
        age_ms = config.segment_ms
        if config.compacts and config.max_compaction_lag_ms > 0:
            age_ms = min(age_ms, config.max_compaction_lag_ms)
        self._age_ms_max = age_ms - _jitter_ms(config, topic_partition, base_offset)

    def is_due_for(
        self, segment: Segment, last_offset: Offset, timestamp: TimestampMs, now_ms: TimestampMs
    ) -> bool:
        """Return whether batches up to this offset and time need a new segment, whatever their size."""
        if last_offset - segment.base_offset > SEGMENT_OFFSET_SPAN_MAX:
            return True
        if segment.log.size == 0:
            return False
        first = segment.first_timestamp()
        waited = timestamp - first if first >= 0 else now_ms - segment.created_ms
        return waited > self._age_ms_max or segment.index_full(self._index_bytes)

    def is_due(self, segment: Segment, now_ms: TimestampMs) -> bool:
        """Return whether the segment is too old, without an append.

        A segment's age counts at most from its creation: old records must not close one segment after the
        other.
        """
        if not segment.size:
            return False
        made_ms = max(segment.created_ms, segment.first_timestamp())
        return now_ms - made_ms > self._age_ms_max


def _jitter_ms(config: LogConfig, topic_partition: TopicPartition, base_offset: Offset) -> int:
    """Return a jitter that spreads the rolls of partitions that began together; derived from their names."""
    if config.segment_jitter_ms <= 0:
        return 0
    return crc32c(f"{topic_partition} {base_offset}".encode()) % config.segment_jitter_ms
