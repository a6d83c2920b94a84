"""Which timers of one partition are pending, and where their records lie: two numbers for each.

Timers come in ascending order of the offset that names them, so they are kept in sorted blocks of packed
numbers: 16 bytes for each timer, found by bisection. A timer that has ended leaves a hole, and a block that
is mostly holes is written anew.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

# Timers of one block: what is copied at most when a block is written anew.
_BLOCK: Final = 2_048
_HOLE: Final = -1


class Pending:
    """Offsets that name timers → offsets at which their records lie."""

    __slots__ = ("_alive", "_firsts", "_offsets", "_size", "_sources")

    def __init__(self) -> None:
        # The first name of each block, the names, the offsets, and how many of a block are not holes.
        self._firsts: list[int] = []
        self._sources: list[array[int]] = []
        self._offsets: list[array[int]] = []
        self._alive: list[int] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, source: int) -> bool:
        return self.get(source) is not None

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Names and offsets, in ascending order of the names."""
        for sources, offsets in zip(self._sources, self._offsets, strict=True):
            for source, offset in zip(sources, offsets, strict=True):
                if offset != _HOLE:
                    yield source, offset

    @property
    def last(self) -> int:
        """The highest name that is remembered; -1 if there is none."""
        return self._sources[-1][-1] if self._sources else -1

    def add(self, source: int, offset: int) -> None:
        """A timer is pending. Its name is above all that came before it."""
        assert source > self.last, (source, self.last)
        if not self._sources or len(self._sources[-1]) >= _BLOCK:
            self._firsts.append(source)
            self._sources.append(array("q"))
            self._offsets.append(array("q"))
            self._alive.append(0)
        self._sources[-1].append(source)
        self._offsets[-1].append(offset)
        self._alive[-1] += 1
        self._size += 1

    def get(self, source: int) -> int | None:
        """Where the timer's record lies; None if it is not pending."""
        block, index = self._find(source)
        if block < 0:
            return None
        offset = self._offsets[block][index]
        return None if offset == _HOLE else offset

    def remove(self, source: int) -> bool:
        """The timer has ended; answers whether it was pending."""
        block, index = self._find(source)
        if block < 0 or self._offsets[block][index] == _HOLE:
            return False
        self._offsets[block][index] = _HOLE
        self._alive[block] -= 1
        self._size -= 1
        if self._alive[block] * 4 <= len(self._sources[block]):
            self._shrink(block)
        return True

    def _find(self, source: int) -> tuple[int, int]:
        """The block and the place in it; -1 for a name that is not remembered."""
        block = bisect_right(self._firsts, source) - 1
        if block < 0:
            return -1, -1
        sources = self._sources[block]
        index = bisect_left(sources, source)
        if index == len(sources) or sources[index] != source:
            return -1, -1
        return block, index

    def _shrink(self, block: int) -> None:
        """Write a block anew without its holes. The last one is left as long as it grows."""
        is_last = block == len(self._sources) - 1
        if is_last and len(self._sources[block]) < _BLOCK and self._alive[block]:
            return
        if not self._alive[block]:
            for blocks in (self._firsts, self._sources, self._offsets, self._alive):
                del blocks[block]
            return
        kept = [
            (source, offset)
            for source, offset in zip(self._sources[block], self._offsets[block], strict=True)
            if offset != _HOLE
        ]
        self._sources[block] = array("q", [source for source, _ in kept])
        self._offsets[block] = array("q", [offset for _, offset in kept])
        self._firsts[block] = kept[0][0]
