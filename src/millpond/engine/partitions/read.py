"""Reading: records, positions by time, ends of leader epochs, and moving the start of a log.

Synchronous. A read is bounded by the high watermark, or by the last stable offset for readers of
committed transactions; what lies beyond is not there yet, which is an empty answer and no error.
"""

from collections.abc import Sequence
from typing import NamedTuple

from millpond.base.errors import (
    CorruptLog,
    OffsetNotAvailable,
    OffsetOutOfRange,
    PolicyViolation,
    RecordsLost,
)
from millpond.base.ids import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs
from millpond.replication.partition import Partition

# Instead of a time, ListOffsets may name a place. The protocol's numbers.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


class AbortedTransaction(NamedTuple):
    """Records of this producer from this offset on are to be skipped until its abort marker."""

    producer_id: int
    first_offset: Offset


class PartitionRead(NamedTuple):
    """What a reader gets from one partition. ``records`` are whole batches, the last perhaps cut off."""

    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    records: bytes | memoryview
    aborted: Sequence[AbortedTransaction]


class FoundOffset(NamedTuple):
    """A position; -1 where there is none."""

    timestamp_ms: TimestampMs
    offset: Offset
    leader_epoch: LeaderEpoch


# Ranges of lost records that one read passes over; the next read passes over more.
_RANGES_SKIPPED_MAX = 16

_NOTHING_FOUND = FoundOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)
_NONE_ABORTED: tuple[AbortedTransaction, ...] = ()


def read(
    partition: Partition,
    offset: Offset,
    *,
    bytes_max: int,
    committed: bool,
    at_least_one: bool,
    leader_epoch: LeaderEpoch = NO_EPOCH,
) -> PartitionRead:
    """Up to ``bytes_max`` of records from ``offset`` on; one batch even if larger, when asked for.

    Raises ``OffsetOutOfRange``, ``FencedLeaderEpoch``, ``UnknownLeaderEpoch``, ``StorageFailure``.
    """
    if leader_epoch != partition.leader_epoch:
        partition.check_epoch(leader_epoch)
    log = partition.log
    high_watermark = partition.high_watermark
    stable = log.stable_below(high_watermark)
    upto = stable if committed else high_watermark
    start = log.start_offset
    if upto <= offset <= log.end_offset and offset >= start:
        return PartitionRead(high_watermark, stable, start, b"", _NONE_ABORTED)
    data = log.read(offset, bytes_max, upto=upto, at_least_one=at_least_one).data
    aborted: Sequence[AbortedTransaction] = _NONE_ABORTED
    if committed and data:
        aborted = [
            AbortedTransaction(one.producer_id, one.first_offset)
            for one in log.aborted_transactions(offset, upto)
        ]
    return PartitionRead(high_watermark, stable, start, data, aborted)


def read_behind(
    partition: Partition,
    offset: Offset,
    error: CorruptLog,
    *,
    bytes_max: int,
    committed: bool,
    at_least_one: bool,
) -> PartitionRead:
    """Return what a reader gets instead of lost records, by the topic's settings.

    Raises ``RecordsLost`` if that is an error, or if it is not known where sound records begin again.
    """
    skips = partition.log.config.unreadable_records == "skip"
    for _ in range(_RANGES_SKIPPED_MAX if skips else 0):
        if error.next_offset <= offset:
            break
        offset = error.next_offset
        try:
            return read(
                partition,
                offset,
                bytes_max=bytes_max,
                committed=committed,
                at_least_one=at_least_one,
            )
        except CorruptLog as another:
            error = another
    raise RecordsLost(str(error), next_offset=error.next_offset) from error


def find_offset(partition: Partition, time_or_place: int, *, committed: bool) -> FoundOffset:
    """The position for a time (the first record at or after it) or for a named place."""
    log = partition.log
    bound = partition.last_stable_offset if committed else partition.high_watermark
    if time_or_place == LATEST:
        _check_known(partition)
        return FoundOffset(NO_TIMESTAMP, bound, partition.leader_epoch)
    if time_or_place in {EARLIEST, EARLIEST_LOCAL}:
        return FoundOffset(NO_TIMESTAMP, log.start_offset, partition.epoch_at_start())
    if time_or_place in {LATEST_TIERED, EARLIEST_PENDING_UPLOAD}:
        return _NOTHING_FOUND  # nothing is kept elsewhere
    found = (
        log.max_timestamp()
        if time_or_place == MAX_TIMESTAMP
        else log.offset_for_time(time_or_place)
    )
    if found is None or found[1] >= bound:
        _check_known(partition)
        return _NOTHING_FOUND
    return FoundOffset(*found)


def _check_known(partition: Partition) -> None:
    """A new leader may not know yet what its predecessor acknowledged: then it must not name an end."""
    leadership = partition.leadership
    if leadership is not None and partition.high_watermark < leadership.epoch_start:
        raise OffsetNotAvailable(
            f"partition {partition.topic}-{partition.index}: the new leader's high watermark "
            f"{partition.high_watermark} has not reached {leadership.epoch_start}, where its epoch begins"
        )


def delete_records(partition: Partition, before: Offset) -> Offset:
    """Move the log's start up to ``before`` (-1: the high watermark); the new start."""
    if not partition.log.config.deletes:
        raise PolicyViolation(
            f"partition {partition.topic}-{partition.index} only compacts (cleanup.policy): its "
            "records cannot be deleted by offset"
        )
    if before == -1:
        before = partition.high_watermark
    if not 0 <= before <= partition.high_watermark:
        raise OffsetOutOfRange(
            f"The specified offset {before} is higher than the high watermark "
            f"{partition.high_watermark} of {partition.topic}-{partition.index}",
            start_offset=partition.log.start_offset,
            end_offset=partition.high_watermark,
        )
    return partition.log.delete_records(before)
