"""How far a group is behind: in messages, in bytes, and in time.

Messages are counted: end minus committed. Time is the age of the first record that is not read yet, which is
fetched. Bytes are counted when that one fetch reaches the end of the partition; else they are estimated, as
the share of the partition's size on disk that its unread offsets are, because counting would mean to read
everything that the group has not. An estimate says that it is one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millpond.client import (
    EARLIEST,
    LATEST,
    Admin,
    BrokerRefused,
    Cluster,
    OffsetAt,
    RawFetch,
    TopicPartition,
    fetch_raw,
)
from millpond.record.batch import BatchHeader, iter_batches
from millpond.record.records import UNREADABLE, decode_batch

# Enough for the first batch of most producers, little enough for a thousand partitions.
GLANCE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """What a group has not read of one partition; None where it is not known."""

    end: int | None
    messages: int | None = None
    size_bytes: int | None = None
    is_counted: bool = True
    seconds: float | None = None
    # The committed offset lies beyond the end: the log was lost or made anew, or the offset was set by hand.
    is_beyond: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A partition: its first offset, its end, its size on disk if that is told."""

    start: int
    end: int
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What the first fetch of unread records shows."""

    timestamp_ms: int | None
    size_bytes: int
    next_offset: int


async def lags(
    cluster: Cluster,
    committed: Mapping[TopicPartition, int | None],
    *,
    now_ms: int,
) -> dict[TopicPartition, Lag]:
    """The lag of each partition; a partition without a committed offset has only an end."""
    bounds = await _bounds(cluster, committed)
    behind = {
        place: max(offset, bounds[place].start)
        for place, offset in committed.items()
        if offset is not None and place in bounds and offset < bounds[place].end
    }
    glances = await _glances(cluster, behind)
    return {
        place: measure(bounds.get(place), offset, glances.get(place), now_ms=now_ms)
        for place, offset in committed.items()
    }


def measure(
    bounds: Bounds | None, committed: int | None, glance: Glance | None, *, now_ms: int
) -> Lag:
    """One partition's lag, from what is known of it."""
    if bounds is None or committed is None:
        return Lag(end=None if bounds is None else bounds.end)
    if committed > bounds.end:
        return Lag(end=bounds.end, is_beyond=True)
    messages = bounds.end - committed
    if messages == 0:
        return Lag(end=bounds.end, messages=0, size_bytes=0, seconds=0.0)
    seconds = None
    if glance is not None and glance.timestamp_ms is not None:
        seconds = max(now_ms - glance.timestamp_ms, 0) / 1000
    if glance is not None and glance.next_offset >= bounds.end:
        return Lag(end=bounds.end, messages=messages, size_bytes=glance.size_bytes, seconds=seconds)
    return Lag(
        end=bounds.end,
        messages=messages,
        size_bytes=_estimated_bytes(bounds, committed),
        is_counted=False,
        seconds=seconds,
    )


def _estimated_bytes(bounds: Bounds, committed: int) -> int | None:
    if bounds.size_bytes is None or bounds.end <= bounds.start:
        return None
    unread = bounds.end - max(committed, bounds.start)
    return bounds.size_bytes * unread // (bounds.end - bounds.start)


def look_at(data: bytes | memoryview, offset: int) -> Glance | None:
    """Return what fetched bytes show of the records from `offset` on; None if there are none."""
    timestamp_ms: int | None = None
    size_bytes, next_offset = 0, offset
    for position, header in iter_batches(data):
        if header.next_offset <= offset:
            continue
        if timestamp_ms is None and not header.is_control:
            timestamp_ms = _timestamp_ms(data, position, header, offset)
        size_bytes += _unread_bytes(header, offset)
        next_offset = header.next_offset
    if next_offset == offset:
        return None
    return Glance(timestamp_ms=timestamp_ms, size_bytes=size_bytes, next_offset=next_offset)


def _timestamp_ms(
    data: bytes | memoryview, position: int, header: BatchHeader, offset: int
) -> int | None:
    try:
        records = decode_batch(data, position)
    except UNREADABLE:
        # Its producer wrote nonsense, which an older release has stored; the batch's own time is near.
        return header.base_timestamp
    for record in records:
        if record.offset >= offset:
            return record.timestamp
    return None


def _unread_bytes(header: BatchHeader, offset: int) -> int:
    """A batch that was read in part counts in part."""
    count = header.next_offset - header.base_offset
    unread = header.next_offset - max(offset, header.base_offset)
    return header.size * unread // count


async def _bounds(
    cluster: Cluster, places: Iterable[TopicPartition]
) -> dict[TopicPartition, Bounds]:
    admin = Admin(cluster)
    places = tuple(places)
    ends = _offsets(await admin.list_offsets(dict.fromkeys(places, LATEST)))
    starts = _offsets(await admin.list_offsets(dict.fromkeys(ends, EARLIEST)))
    sizes: dict[TopicPartition, int] = {}
    try:
        for directory in await admin.describe_log_dirs(sorted({place.topic for place in starts})):
            sizes |= directory.sizes
    except BrokerRefused:
        sizes = {}  # the user may not see them; then bytes that are not counted are unknown
    return {
        place: Bounds(start=starts[place], end=ends[place], size_bytes=sizes.get(place))
        for place in starts
    }


def _offsets(
    answers: Mapping[TopicPartition, OffsetAt | BrokerRefused],
) -> dict[TopicPartition, int]:
    return {place: found.offset for place, found in answers.items() if isinstance(found, OffsetAt)}


async def _glances(
    cluster: Cluster, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Glance]:
    if not positions:
        return {}
    answers = await fetch_raw(
        cluster,
        positions,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 30,
        partition_bytes=GLANCE_BYTES,
        what="looking at the first unread records",
    )
    return {
        place: glance
        for place, found in answers.items()
        if isinstance(found, RawFetch)
        and (glance := look_at(found.data, positions[place])) is not None
    }
