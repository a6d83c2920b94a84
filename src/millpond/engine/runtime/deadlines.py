"""Many deadlines in one heap with one timer of the event loop: the one way to call owners of RAM deadlines.

Each deadline has a key. Setting a later time for a key that is due earlier does nothing, because its owner is
called at the earlier time, looks at the clock and sets the next time itself. So a deadline that moves costs
nothing. Deadlines that must survive a restart are durable timers (``engine/timers``).
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush

from millpond.base.clock import Clock

# A time that does not come; setting it has no effect.
NEVER_MS = 2**63 - 1


class Deadlines:
    """Calls functions, each at its time by the steady clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, object, Callable[[], None]]] = []
        self._due: dict[object, int] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._stopped = False

    def set(self, due_ms: int, key: object, call: Callable[[], None]) -> None:
        """Call at a time, unless a call for the same key is due before it."""
        if self._stopped or due_ms >= self._due.get(key, NEVER_MS):
            return
        self._due[key] = due_ms
        self._count += 1  # so that the heap never compares keys
        heappush(self._heap, (due_ms, self._count, key, call))
        self._set_timer()

    def stop(self) -> None:
        """Call nothing any more."""
        self._stopped = True
        self._heap.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if not self._heap or self._stopped:
            return
        due_ms = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        wait_ms = max(due_ms - self._clock.monotonic_ms(), 0)
        self._timer_due_ms = due_ms
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        try:
            while self._heap and self._heap[0][0] <= now_ms:
                due_ms, _count, key, call = heappop(self._heap)
                if self._due.get(key) == due_ms:
                    del self._due[key]
                    call()
        finally:
            self._set_timer()
