"""Measures how long this process was stalled, so that a node subtracts that from the silence of its peers.

On a busy machine a process may not run for seconds. When it runs again, everything that peers sent in the
meantime still waits to be read, and a time-out that looks at the clock first would consider all of them
silent. The meter is called at regular times (``tick``); a late call means that the process was stalled.

Conversely, a message that is read after a stall may have been sent before it began. A leader whose lease
depends on its followers' messages counts them from that time (``heard_ms``).
"""

from collections import deque

from millpond.base import limits

# A tick that is late by this fraction of the interval is overdue: timers are never exact.
_OVERDUE = 5


class StallMeter:
    """Times are monotonic milliseconds."""

    __slots__ = ("_due_ms", "_stalled_since_ms", "_stalls", "tick_ms")

    def __init__(self, *, tick_ms: int = limits.STALL_TICK_MS) -> None:
        self.tick_ms = tick_ms
        # When the next tick is due; None before the first.
        self._due_ms: int | None = None
        # If the last tick was late: the time of the tick before it.
        self._stalled_since_ms: int | None = None
        # The (start, end) of each stall.
        self._stalls: deque[tuple[int, int]] = deque(maxlen=limits.STALLS_KEPT_MAX)

    def tick(self, now_ms: int) -> None:
        """Note a regular tick; the next one is due in ``tick_ms``."""
        if (late := self._late(now_ms)) is not None:
            self._stalls.append(late)
        self._stalled_since_ms = self._last_tick_ms(now_ms)
        self._due_ms = now_ms + self.tick_ms

    def heard_ms(self, now_ms: int) -> int:
        """Return the earliest time at which a message that is read now may have arrived: now, unless this
        process is or was just stalled.

        An overdue tick means that a stall began after the previous tick; it does not matter whether the
        read or the tick comes first after the stall. Until the next tick that is in time the sockets may
        not all have been read. A short delay counts as well, because counting from an earlier time is
        always safe.
        """
        if self._stalled_since_ms is not None:
            return self._stalled_since_ms
        last_ms = self._last_tick_ms(now_ms)
        return now_ms if last_ms is None else last_ms

    def _last_tick_ms(self, now_ms: int) -> int | None:
        """Return the time of the last tick if the next one is overdue."""
        if self._due_ms is None or now_ms - self._due_ms <= self.tick_ms // _OVERDUE:
            return None
        return self._due_ms - self.tick_ms

    def stalled_ms(self, since_ms: int, now_ms: int) -> int:
        """Return for how long this process was stalled since ``since_ms``. A stall that ends just now
        counts too, because the caller may run before the late tick.
        """
        late = self._late(now_ms)
        stalls = (*self._stalls, late) if late is not None else self._stalls
        return sum(max(0, end - max(first, since_ms)) for first, end in stalls)

    def silent_ms(self, heard_ms: int, now_ms: int) -> int:
        """Return for how long a node last heard from at ``heard_ms`` has been silent, less this process's
        stalls.
        """
        return now_ms - heard_ms - self.stalled_ms(heard_ms, now_ms)

    def _late(self, now_ms: int) -> tuple[int, int] | None:
        """Return the stall that has lasted until now, if there is one."""
        if self._due_ms is None or now_ms - self._due_ms <= self.tick_ms:
            return None
        return self._due_ms, now_ms
