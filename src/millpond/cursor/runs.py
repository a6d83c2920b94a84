"""Runs: consecutive messages that share one state, kept as one entry.

An ack cursor holds a state for each message, but messages are delivered and settled many at a time, so it
stores runs. A ``RunMap`` covers an interval of offsets without gaps; adjacent runs always differ, because
equal ones are merged. Runs are stored in blocks of bounded length, so a change costs a search and the runs
that it touches, also when there are millions of them.

Knows nothing of owners, clocks or logs; to it a run is an interval with a value.
"""

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from math import inf
from typing import NamedTuple, TypeAlias

# Runs in a block before it is split. Large enough that there are few blocks, small enough that inserting into
# one moves little memory.
BLOCK_RUNS_MAX = 512

# No deadline: held until its owner releases it.
NEVER_MS = 2**63 - 1

NO_OWNER = ""


class State(IntEnum):
    """The state of a message. The numbers are stored; the last two are final."""

    AVAILABLE = 0
    ACQUIRED = 1
    SETTLED = 2
    ARCHIVED = 3

    @property
    def is_final(self) -> bool:
        """Whether the message is never delivered again."""
        return self >= State.SETTLED


class Run(NamedTuple):
    """Messages ``first`` up to but not including ``next``, all in one state.

    ``deliveries`` counts their deliveries; only acquired messages have an owner and a deadline. A final run
    keeps none of the three, so that adjacent final runs are merged.
    """

    first: int
    next: int
    state: State
    deliveries: int = 0
    owner: str = NO_OWNER
    deadline_ms: int = NEVER_MS

    def clipped(self, first: int, next_: int) -> "Run":
        """Return the part of this run between two offsets."""
        if first <= self.first and self.next <= next_:
            return self
        return self._replace(first=max(first, self.first), next=min(next_, self.next))


_Place: TypeAlias = tuple[int, int]


class RunMap:
    """Every offset from ``start`` up to ``end``, as runs."""

    __slots__ = ("_blocks", "_firsts", "_runs", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self._blocks: list[list[Run]] = []
        # The first offset of each block, to search in.
        self._firsts: list[int] = []
        self._runs = 0

    def __len__(self) -> int:
        """Return the number of runs."""
        return self._runs

    def __iter__(self) -> Iterator[Run]:
        for block in self._blocks:
            yield from block

    def at(self, offset: int) -> Run:
        """Return the run that contains an offset."""
        assert self.start <= offset < self.end
        block, index = self._seek(offset)
        return self._blocks[block][index]

    def first(self) -> Run | None:
        """Return the lowest run."""
        return self._blocks[0][0] if self._blocks else None

    def covering(self, first: int, next_: int) -> Run | None:
        """Return the part between two offsets if one run holds all of it; None if not."""
        if first < self.start or next_ > self.end or first >= next_:
            return None
        if first == self.start:
            run = self._blocks[0][0]
        else:
            number, index = self._seek(first)
            run = self._blocks[number][index]
        if run.next < next_:
            return None
        if run.first == first and run.next == next_:
            return run
        return Run(first, next_, run.state, run.deliveries, run.owner, run.deadline_ms)

    def within(self, first: int, next_: int) -> Iterator[Run]:
        """Yield the runs between two offsets, the outer ones clipped. The map may not change meanwhile."""
        first, next_ = max(first, self.start), min(next_, self.end)
        if first >= next_:
            return
        number, index = self._seek(first)
        while number < len(self._blocks):
            block = self._blocks[number]
            while index < len(block):
                run = block[index]
                if run.first >= next_:
                    return
                yield run.clipped(first, next_)
                index += 1
            number, index = number + 1, 0

    def append(self, run: Run) -> None:
        """Append this run at the end."""
        assert run.first == self.end
        assert run.next > run.first
        self.end = run.next
        if self._blocks:
            block = self._blocks[-1]
            if _alike(block[-1], run):
                block[-1] = block[-1]._replace(next=run.next)
                return
            if len(block) < BLOCK_RUNS_MAX:
                block.append(run)
                self._runs += 1
                return
        self._blocks.append([run])
        self._firsts.append(run.first)
        self._runs += 1

    def overwrite(self, run: Run) -> None:
        """Replace the state of the run's offsets."""
        assert self.start <= run.first < run.next <= self.end
        low, high = self._seek(run.first), self._seek(run.next - 1)
        pieces = [run]
        left = self._run(low)
        if left.first < run.first:
            _join_left(left._replace(next=run.first), pieces)
        elif (place := self._before(low)) is not None and _alike(self._run(place), run):
            _join_left(self._run(place), pieces)
            low = place
        right = self._run(high)
        if right.next > run.next:
            _join_right(right._replace(first=run.next), pieces)
        elif (place := self._after(high)) is not None and _alike(self._run(place), run):
            _join_right(self._run(place), pieces)
            high = place
        self._splice(low, high, pieces)

    def drop_before(self, offset: int) -> None:
        """Drop everything below an offset; it becomes the start, and the end if it is beyond it."""
        assert offset >= self.start
        if offset >= self.end:
            self.clear(offset)
            return
        number, index = self._seek(offset)
        self._runs -= sum(map(len, self._blocks[:number])) + index
        del self._blocks[:number]
        del self._firsts[:number]
        block = self._blocks[0]
        del block[:index]
        block[0] = block[0]._replace(first=offset)
        self._firsts[0] = self.start = offset

    def drop_first(self, offset: int) -> None:
        """Drop everything below an offset that is in the lowest run, or at its end."""
        blocks = self._blocks
        block = blocks[0]
        run = block[0]
        assert self.start < offset <= run.next
        self.start = offset
        if offset < run.next:
            block[0] = Run(offset, run.next, run.state, run.deliveries, run.owner, run.deadline_ms)
            self._firsts[0] = offset
            return
        self._runs -= 1
        if len(block) > 1:
            del block[0]
            self._firsts[0] = offset
        else:
            del blocks[0]
            del self._firsts[0]

    def clear(self, start: int) -> None:
        """Drop everything and cover an empty interval at ``start``."""
        self._blocks.clear()
        self._firsts.clear()
        self._runs = 0
        self.start = self.end = start

    # --- places ------------------------------------------------------------------------------------

    def _seek(self, offset: int) -> _Place:
        number = bisect_right(self._firsts, offset) - 1
        # A run is a tuple that begins with its first offset; no run has an infinite second field.
        index = bisect_right(self._blocks[number], (offset, inf)) - 1
        return number, index

    def _run(self, place: _Place) -> Run:
        return self._blocks[place[0]][place[1]]

    def _before(self, place: _Place) -> _Place | None:
        number, index = place
        if index > 0:
            return number, index - 1
        return (number - 1, len(self._blocks[number - 1]) - 1) if number > 0 else None

    def _after(self, place: _Place) -> _Place | None:
        number, index = place
        if index + 1 < len(self._blocks[number]):
            return number, index + 1
        return (number + 1, 0) if number + 1 < len(self._blocks) else None

    def _splice(self, low: _Place, high: _Place, pieces: list[Run]) -> None:
        """Replace the runs from ``low`` to ``high``, both included, with ``pieces``."""
        (number, index), (last, last_index) = low, high
        block = self._blocks[number]
        if last == number:
            removed = last_index + 1 - index
            block[index : last_index + 1] = pieces
        else:
            tail = self._blocks[last][last_index + 1 :]
            between = sum(map(len, self._blocks[number + 1 : last]))
            removed = len(block) - index + between + last_index + 1
            block[index:] = pieces + tail
            del self._blocks[number + 1 : last + 1]
            del self._firsts[number + 1 : last + 1]
        self._runs += len(pieces) - removed
        self._firsts[number] = block[0].first
        while len(block) > BLOCK_RUNS_MAX:
            half = block[len(block) // 2 :]
            del block[len(block) // 2 :]
            self._blocks.insert(number + 1, half)
            self._firsts.insert(number + 1, half[0].first)


def _alike(one: Run, other: Run) -> bool:
    return one[2:] == other[2:]


def _join_left(left: Run, pieces: list[Run]) -> None:
    if _alike(left, pieces[0]):
        pieces[0] = pieces[0]._replace(first=left.first)
    else:
        pieces.insert(0, left)


def _join_right(right: Run, pieces: list[Run]) -> None:
    if _alike(right, pieces[-1]):
        pieces[-1] = pieces[-1]._replace(next=right.next)
    else:
        pieces.append(right)
