"""Plans one batch: ranges of offsets, the number of tasks, and losses.

All of it is arithmetic on positions: (the query's position, the logs' bounds, limits) in, ranges and losses
out. The rules are the official connector's, so that both make the same batches of the same topic, with two
improvements. A range of which only a part is lost is read as far as possible. A log that ends before the
query's position (its topic was created anew) is read from its start.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from millpond.base.ids import TopicPartition
from millpond.spark.offsets import Offsets

# A record that is further ahead of the present than this has a time that says nothing about its neighbours.
_CLOCKS_DIFFER_MS = 60_000
_PARTS = 10  # a batch that ends before such a record must have at least one part in this many of a whole one


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Records of one partition from ``first`` up to ``end``, which is not included."""

    topic: str
    partition: int
    first: int
    end: int

    @property
    def place(self) -> TopicPartition:
        """The range's partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records (markers of transactions, compaction)."""
        return self.end - self.first


class Reason(StrEnum):
    """Why records cannot be read."""

    DELETED = "deleted before it was read (by retention or by DeleteRecords)"
    GONE = "the partition is gone (its topic was deleted, or is not subscribed to any more)"
    SHED = "left out because the query was too far behind (shedBeyond)"
    UNREADABLE = "the records are nonsense that their producer wrote and an older release stored"
    WENT_BACK = (
        "the log ends before the query's position (its topic was created again, or the log was cut)"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Offsets from ``first`` up to ``end`` that the query will never read. An unknown end is ``None``."""

    topic: str
    partition: int
    first: int
    end: int | None
    reason: Reason

    def __str__(self) -> str:
        upto = "on" if self.end is None else f"to {self.end - 1}"
        return f"{self.topic}-{self.partition}, offsets {self.first} {upto}: {self.reason.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The starts and ends of the logs of existing partitions, at one moment."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]


def plan_ranges(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], bounds: Bounds
) -> tuple[list[Range], list[Lost]]:
    """Return one range for each partition that has something to read, in order, and all losses."""
    ranges: list[Range] = []
    lost: list[Lost] = []

    def lose(place: TopicPartition, first: int, upto: int | None, reason: Reason) -> None:
        lost.append(
            Lost(topic=place.topic, partition=place.partition, first=first, end=upto, reason=reason)
        )

    for place in sorted(start.keys() | end.keys()):
        begins = bounds.earliest.get(place)
        ends = bounds.latest.get(place)
        if place not in end or begins is None or ends is None:
            lose(place, start.get(place, 0), end.get(place), Reason.GONE)
            continue
        first = start.get(place, 0)  # a new partition is read from its beginning
        upto = end[place]
        if upto < first:
            lose(place, first, None, Reason.WENT_BACK)
            first = begins
        if first < begins:
            if min(begins, upto) > first:
                lose(place, first, min(begins, upto), Reason.DELETED)
            first = begins
        if upto > ends:
            if upto > max(first, ends):
                lose(place, max(first, ends), upto, Reason.WENT_BACK)
            upto = ends
        if upto > first:
            ranges.append(
                Range(topic=place.topic, partition=place.partition, first=first, end=upto)
            )
    return ranges, lost


def limit_rows(
    start: Mapping[TopicPartition, int],
    until: Mapping[TopicPartition, int],
    bounds: Bounds,
    rows_max: int,
    priority: Sequence[str] = (),
) -> Offsets:
    """Return ends at most ``rows_max`` offsets after ``start``, in proportion to each partition's backlog.

    Topics in ``priority`` come first, in that order, and all others last: the next ones share the rest of the
    batch. But every partition with a backlog gets at least one offset, so that none waits for ever.
    """
    firsts = {place: _first(place, start, bounds) for place in until}
    sizes = {place: end - firsts[place] for place, end in until.items() if end > firsts[place]}
    if sum(sizes.values()) <= rows_max:
        return dict(until)
    limited: Offsets = {place: end for place, end in until.items() if place not in sizes}
    ranks = {topic: rank for rank, topic in enumerate(priority)}
    left = rows_max
    for rank in range(len(priority) + 1):
        rung = {p: size for p, size in sizes.items() if ranks.get(p.topic, len(priority)) == rank}
        total = sum(rung.values())
        given = min(left, total)
        for place, size in rung.items():
            share = given * (size / total)
            # A partition with a small share still advances: it has at least one offset in each batch.
            step = math.ceil(share) if share < 1 else math.floor(share)
            limited[place] = min(until[place], firsts[place] + max(step, 1))
        left -= given
    return limited


def align_ends(
    start: Mapping[TopicPartition, int],
    until: Mapping[TopicPartition, int],
    bounds: Bounds,
    rows_max: int,
    offsets_at: Callable[[int], Mapping[TopicPartition, int | None]],
    now_ms: int,
) -> Offsets:
    """Return ends within the same limit, but at the same time in all partitions, as far as possible.

    Otherwise a partition whose records are sparse would be read hours ahead of the others, and a query with a
    watermark would consider theirs too late. ``offsets_at`` returns the offset of a time in each partition;
    the time is found by bisection.

    A record that is ahead of the present hides the times behind it: a log returns that record for every later
    time. So up to it its partition is read by time, and from there on by its share: in the same proportion as
    the others.
    """
    if rows_between(start, until, bounds) <= rows_max:
        return dict(until)
    firsts = {place: _first(place, start, bounds) for place in until}
    ahead = {
        place: at
        for place, at in offsets_at(now_ms + _CLOCKS_DIFFER_MS).items()
        if at is not None and at < until[place]
    }
    hidden = {place for place, at in ahead.items() if at <= firsts[place]}
    in_sight = {place: at for place, at in ahead.items() if place not in hidden}

    def ends_at(time_ms: int) -> Offsets:
        found = offsets_at(time_ms)
        ends: Offsets = {}
        for place, end in until.items():
            first, at = firsts[place], found.get(place)
            ends[place] = end if end <= first or at is None else min(end, max(first, at))
        return _with_shares(firsts, ends, until, hidden)

    def search() -> tuple[Offsets, int]:
        """Return the latest ends within the limit, and a time that is beyond it."""
        low, high = 0, now_ms + 1
        best = ends_at(low)
        while high - low > 1:
            middle = (low + high) // 2
            ends = ends_at(middle)
            is_short = all(ends[place] < at for place, at in in_sight.items())
            if is_short and rows_between(start, ends, bounds) <= rows_max:
                low, best = middle, ends
            else:
                high = middle
        return best, high

    best, high = search()
    while in_sight and rows_between(start, best, bounds) < rows_max // _PARTS:
        ends = ends_at(high)
        near = {place for place, at in in_sight.items() if ends[place] >= at}
        if not near:
            break
        hidden |= near
        in_sight = {place: at for place, at in in_sight.items() if place not in near}
        best, high = search()
    if 0 < rows_between(start, best, bounds) <= rows_max:
        return best
    # More records than a batch takes have the same time, or a time in the future.
    return limit_rows(start, ends_at(high) if high <= now_ms else until, bounds, rows_max)


def _with_shares(
    firsts: Offsets,
    ends: Offsets,
    until: Mapping[TopicPartition, int],
    hidden: Collection[TopicPartition],
) -> Offsets:
    """Return the same ends, with the others' share for hidden partitions.

    Each partition counts by how much of it is read: one that is sparse and goes on for days says little.
    """
    left = {place: end - firsts[place] for place, end in until.items() if end > firsts[place]}
    read = {place: ends[place] - firsts[place] for place in left if place not in hidden}
    rows = sum(read.values())
    share = sum(count * count / left[place] for place, count in read.items()) / rows if rows else 0
    shares = {
        place: firsts[place] + min(size, math.ceil(size * share))
        for place, size in left.items()
        if place in hidden
    }
    return {**ends, **shares}


def shed_ends(
    start: Mapping[TopicPartition, int],
    until: Mapping[TopicPartition, int],
    bounds: Bounds,
    beyond: int,
) -> tuple[Offsets, Offsets]:
    """Return the ends of partitions that are too far behind, and of those that are not.

    The first skip to where half of ``beyond`` is left; ``without_shed`` leaves out the skipped offsets. The
    others get no more than that half in one batch. So the length of a range alone says which it is, and a
    batch that Spark repeats is the same.
    """
    half = beyond // 2
    firsts = {place: _first(place, start, bounds) for place in until}
    jumps = {place: end - half for place, end in until.items() if end - firsts[place] > beyond}
    steps = {
        place: min(end, firsts[place] + half) if end > firsts[place] else end
        for place, end in until.items()
        if place not in jumps
    }
    return jumps, steps


def without_shed(ranges: Iterable[Range], beyond: int) -> tuple[list[Range], list[Lost]]:
    """Return the ranges to read, and those that ``shed_ends`` skipped."""
    kept: list[Range] = []
    shed: list[Lost] = []
    for item in ranges:
        if item.size <= beyond // 2:
            kept.append(item)
            continue
        shed.append(
            Lost(
                topic=item.topic,
                partition=item.partition,
                first=item.first,
                end=item.end,
                reason=Reason.SHED,
            )
        )
    return kept, shed


def rows_between(
    start: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int], bounds: Bounds
) -> int:
    """Return the size of the backlog in offsets."""
    return sum(max(0, end - _first(place, start, bounds)) for place, end in until.items())


def split_ranges(
    ranges: Iterable[Range], *, partitions_min: int | None, records_max: int | None
) -> list[Range]:
    """Split ranges for tasks: none longer than ``records_max``, and at least ``partitions_min`` if
    possible.
    """
    pieces = [piece for piece in ranges if piece.size > 0]
    if records_max is not None:
        pieces = [
            part for piece in pieces for part in _cut(piece, math.ceil(piece.size / records_max))
        ]
    if partitions_min is None or len(pieces) >= partitions_min or not pieces:
        return pieces
    total = sum(piece.size for piece in pieces)
    small = [piece for piece in pieces if _parts(piece.size, total, partitions_min) == 1]
    left = total - sum(piece.size for piece in small)
    wanted = max(partitions_min - len(small), 1)
    kept = set(small)
    return [
        part
        for piece in pieces
        for part in _cut(piece, 1 if piece in kept else _parts(piece.size, left, wanted))
    ]


def _first(place: TopicPartition, start: Mapping[TopicPartition, int], bounds: Bounds) -> int:
    """Return where reading a partition would begin: not before the start of its log."""
    begins = bounds.earliest.get(place, 0)
    return max(start.get(place, begins), begins)


def _parts(size: int, total: int, wanted: int) -> int:
    return max(math.floor(size / total * wanted + 0.5), 1)


def _cut(piece: Range, parts: int) -> list[Range]:
    cuts: list[Range] = []
    first, left = piece.first, piece.size
    for number in range(parts):
        step = left // (parts - number)
        if step:
            cuts.append(
                Range(topic=piece.topic, partition=piece.partition, first=first, end=first + step)
            )
        first += step
        left -= step
    return cuts
