"""Decides which segments retention deletes. Nothing is deleted here."""

from collections.abc import Sequence

from millpond.base.ids import Offset, TimestampMs
from millpond.log.config import LogConfig
from millpond.log.segment import Segment


def expired_segments(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    start_offset: Offset,
    end_offset: Offset,
    upto: Offset,
    now_ms: TimestampMs,
) -> int:
    """Return how many of the first segments may be deleted. All of them means: after a roll.

    A segment is deleted when its newest record is older than ``retention.ms``, when the log without it still
    has ``retention.bytes``, or when it is below the log's start; never when it reaches above ``upto``, and an
    empty one only with others after it. Topics that are only compacted keep theirs unless the start passed
    them.
    """
    sizes = [segment.size for segment in segments]
    spare = sum(sizes) - config.retention_bytes
    by_size = config.deletes and config.retention_bytes >= 0
    by_time = config.deletes and config.retention_ms >= 0
    count = 0
    for slot, segment in enumerate(segments):
        last = slot + 1 == len(segments)
        next_base = end_offset if last else segments[slot + 1].base_offset
        if next_base > upto or (last and sizes[slot] == 0):
            break
        below_start = not last and next_base <= start_offset
        too_old = by_time and now_ms - _newest_ms(segment) > config.retention_ms
        too_much = by_size and spare >= sizes[slot]
        if not (below_start or too_old or too_much):
            break
        spare -= sizes[slot]
        count += 1
    return count


def _newest_ms(segment: Segment) -> TimestampMs:
    """Return the time of the newest record, or of the last write if records have none."""
    newest = segment.largest_timestamp()
    return newest if newest >= 0 else segment.modified_ms()
