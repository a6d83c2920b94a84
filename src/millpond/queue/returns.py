"""Messages that closed channels held, on their way back to their places in the queue."""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from millpond.cursor.ack import Range
from millpond.queue.lane import NOWHERE, Lane


class Returning(NamedTuple):
    """What a closed channel held in a lane: from which offset on, ranges (the lowest last), since when."""

    first: int
    lane: int
    owner: str
    ranges: list[Range]
    since_ms: int


class Returns:
    """The returns of one queue, the lowest offset first."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._heap: list[Returning] = []
        # Lanes that may be served, in this order.
        self.in_turn: list[tuple[int, Lane]] = []
        self.hold_back()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, lane: int, owner: str, ranges: list[Range], since_ms: int) -> None:
        if ranges:
            heappush(self._heap, Returning(ranges[-1][0], lane, owner, ranges, since_ms))

    def pop(self) -> Returning:
        """The next to be returned; what is left of it is added again."""
        return heappop(self._heap)

    def hold_back(self) -> None:
        """No message overtakes those that are returned: neither later ones, nor lower priorities."""
        for lane in self._lanes:
            lane.returning_from = NOWHERE
        for one in self._heap:
            lane = self._lanes[one.lane]
            lane.returning_from = min(lane.returning_from, one.first)
        lowest = max((one.lane for one in self._heap), default=0)
        served = range(len(self._lanes) - 1, lowest - 1, -1)
        self.in_turn = [(number, self._lanes[number]) for number in served]
