"""What one batch reads: ranges of offsets, how many tasks they make, and what is lost.

All of it is arithmetic on positions: (where the query stands, where the logs begin and end, limits) in,
ranges and losses out. The rules are the official connector's, so that both make the same batches of the same
topic; two are better. A range of which only a part is gone is read as far as it is there. A log that ends
before the query's position (its topic was made anew) is read from its start.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from millpond.base.ids import TopicPartition
from millpond.spark.offsets import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Records of one partition from ``first`` up to ``end``, which is not included."""

    topic: str
    partition: int
    first: int
    end: int

    @property
    def place(self) -> TopicPartition:
        """Which partition it is."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Offsets in it; there may be fewer records (markers of transactions, compaction)."""
        return self.end - self.first


class Reason(StrEnum):
    """Why something that should have been read cannot be."""

    DELETED = "deleted before it was read (retention, or somebody deleted records)"
    GONE = "the partition is gone (its topic was deleted, or is not subscribed to any more)"
    WENT_BACK = "the log ends before the query's position (its topic was made anew, or it was cut)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Offsets from ``first`` up to ``end`` that the query will never see. An unknown end is ``None``."""

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
    """Where the logs of the partitions that exist begin and end, asked for at one moment."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]


def plan_ranges(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], bounds: Bounds
) -> tuple[list[Range], list[Lost]]:
    """One range for each partition that has something to read, in order, and everything that is lost."""
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
        first = start.get(place, 0)  # a partition that was added is read from its beginning
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
) -> Offsets:
    """Ends no more than ``rows_max`` offsets after ``start``, shared out by how much each partition has."""
    firsts = {place: _first(place, start, bounds) for place in until}
    sizes = {place: end - firsts[place] for place, end in until.items() if end > firsts[place]}
    total = sum(sizes.values())
    if total <= rows_max:
        return dict(until)
    limited: Offsets = {}
    for place, end in until.items():
        size = sizes.get(place)
        if size is None:
            limited[place] = end
            continue
        share = rows_max * (size / total)
        # A partition with little to read still gets on: it has at least one offset in each batch.
        step = math.ceil(share) if share < 1 else math.floor(share)
        limited[place] = min(end, firsts[place] + step)
    return limited


def rows_between(
    start: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int], bounds: Bounds
) -> int:
    """How many offsets wait to be read."""
    return sum(max(0, end - _first(place, start, bounds)) for place, end in until.items())


def split_ranges(
    ranges: Iterable[Range], *, partitions_min: int | None, records_max: int | None
) -> list[Range]:
    """As many ranges as tasks are wanted: none too long, and at least ``partitions_min`` if possible."""
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
    """Where reading a partition would really begin: not before its log does."""
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
