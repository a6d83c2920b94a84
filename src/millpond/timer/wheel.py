"""A sparse hierarchical timing wheel: numbers that come out in the order of their due times.

Entries that are due soon lie in a heap; all others lie in buckets of packed 64-bit numbers, 16 bytes for each
entry. A bucket covers a span of time. The further away its time is the longer is its span, so there are few
buckets, whatever the due times are. A bucket is opened shortly before its time begins: its entries move to
buckets of shorter spans, or to the heap.

The wheel does not know which entries were cancelled: its user skips those that come out, and calls ``sweep``
when there are many. Time is an argument. It may step back: what came out stays out, and nothing is lost.
"""

from array import array
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

# Spans of the buckets' levels in ms, as powers of two: 1 s, 33 s, 17 min, 9 h, 12 days, 1 year.
_SHIFTS: Final = (10, 15, 20, 25, 30, 35)
_LAST_LEVEL: Final = len(_SHIFTS) - 1
# An entry goes to the first level on which its bucket is fewer than so many spans away, or to the last level.
_SPANS: Final = 32
# Buckets are opened this long before their time begins, so that the work is done when entries are due.
_AHEAD_MS: Final = 2_048
# Entries that one call moves out of buckets: some milliseconds of work.
MOVED_AT_ONCE: Final = 20_000


class Due(NamedTuple):
    """An entry: when it is due, and the number that was given with it."""

    due_ms: int
    number: int


class Wheel:
    """Entries by their due times; equal due times come out by number."""

    __slots__ = ("_at_once", "_buckets", "_hot", "_now_ms", "_size", "_starts", "_unswept")

    def __init__(self, now_ms: int = 0, *, at_once: int = MOVED_AT_ONCE) -> None:
        self._at_once = at_once
        # The time of the last ``take``; it only says where entries are put.
        self._now_ms = now_ms
        self._hot: list[tuple[int, int]] = []
        # (level, number of the bucket) → due time and number of each entry, one after the other.
        self._buckets: dict[tuple[int, int], array[int]] = {}
        # When each bucket begins, with its level and its number: a heap.
        self._starts: list[tuple[int, int, int]] = []
        # Buckets that a sweep has not been through, with the position that it has come to.
        self._unswept: list[tuple[tuple[int, int], int]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, due_ms: int, number: int) -> None:
        """Put an entry in. Both numbers fit into 63 bits."""
        assert 0 <= due_ms < 1 << 62, due_ms
        self._size += 1
        self._put(due_ms, number)

    def load(self, due_ms: int, number: int) -> None:
        """``add`` for many entries of which most are over already: none of them goes to the heap yet."""
        assert 0 <= due_ms < 1 << 62, due_ms
        self._size += 1
        if due_ms < self._now_ms + _AHEAD_MS:
            self._put_into(0, 0, due_ms, number)
        else:
            self._put(due_ms, number)

    def next_ms(self) -> int | None:
        """The time at which ``take`` has something to do; None if there is no entry.

        It is never later than the due time of the first entry; it may be earlier, where that one lies in a
        bucket.
        """
        first = self._hot[0][0] if self._hot else None
        if not self._starts:
            return first
        start = max(self._starts[0][0] - _AHEAD_MS, 0)
        return start if first is None else min(first, start)

    def take(self, now_ms: int, limit: int) -> list[Due]:
        """Take out the entries that are due, in order, at most ``limit``.

        None come out while more buckets have to be opened than one call may: ``is_behind`` then says that
        the next call must come at once.
        """
        self._open(now_ms)
        if self.is_behind(now_ms):
            return []
        hot = self._hot
        taken: list[Due] = []
        while hot and hot[0][0] <= now_ms and len(taken) < limit:
            taken.append(Due(*heappop(hot)))
        self._size -= len(taken)
        return taken

    def is_behind(self, now_ms: int) -> bool:
        """Whether entries that may be due lie in buckets."""
        return bool(self._starts) and self._starts[0][0] <= now_ms

    def sweep(self, keeps: Callable[[int], bool]) -> bool:
        """Drop entries whose numbers ``keeps`` says no to; answers whether all entries were looked at.

        One call looks at as many entries as it may, the next call goes on behind them.
        """
        if not self._unswept:
            before = len(self._hot)
            self._hot = [entry for entry in self._hot if keeps(entry[1])]
            heapify(self._hot)
            self._size -= before - len(self._hot)
            self._unswept = [(key, 0) for key in self._buckets]
        room = self._at_once
        while self._unswept and room > 0:
            key, position = self._unswept.pop()
            bucket = self._buckets.get(key)
            if bucket is None:
                continue
            looked_at = bucket[position : position + 2 * room]
            room -= len(looked_at) // 2
            kept: array[int] = array("q")
            for index in range(0, len(looked_at), 2):
                if keeps(looked_at[index + 1]):
                    kept.extend(looked_at[index : index + 2])
            bucket[position : position + len(looked_at)] = kept
            self._size -= (len(looked_at) - len(kept)) // 2
            position += len(kept)
            if position < len(bucket):
                self._unswept.append((key, position))
        return not self._unswept

    def __iter__(self) -> Iterator[Due]:
        """All entries, in no order."""
        yield from map(Due._make, self._hot)
        for bucket in self._buckets.values():
            for index in range(0, len(bucket), 2):
                yield Due(bucket[index], bucket[index + 1])

    # --- inside ------------------------------------------------------------------------------------

    def _put(self, due_ms: int, number: int, below: int = _LAST_LEVEL + 1) -> None:
        """Put an entry into the heap, or into a bucket of a level below this one."""
        now_ms = self._now_ms
        if below == 0 or due_ms < now_ms + _AHEAD_MS:
            heappush(self._hot, (due_ms, number))
            return
        level = 0
        while level < below - 1 and (
            (due_ms >> _SHIFTS[level]) - (now_ms >> _SHIFTS[level]) >= _SPANS
        ):
            level += 1
        self._put_into(level, due_ms >> _SHIFTS[level], due_ms, number)

    def _put_into(self, level: int, place: int, due_ms: int, number: int) -> None:
        bucket = self._buckets.get((level, place))
        if bucket is None:
            bucket = self._buckets[level, place] = array("q")
            heappush(self._starts, (place << _SHIFTS[level], level, place))
        bucket.append(due_ms)
        bucket.append(number)

    def _open(self, now_ms: int) -> None:
        """Empty the buckets whose time has come, as far as one call may."""
        self._now_ms = now_ms
        room = self._at_once
        while self._starts and self._starts[0][0] <= now_ms + _AHEAD_MS and room > 0:
            _start, level, place = self._starts[0]
            bucket = self._buckets[level, place]
            first = max(0, len(bucket) - 2 * room)
            moved = bucket[first:]
            room -= len(moved) // 2
            del bucket[first:]
            if not bucket:
                heappop(self._starts)
                del self._buckets[level, place]
            for index in range(0, len(moved), 2):
                self._put(moved[index], moved[index + 1], level)
