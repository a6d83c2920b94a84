"""How long this process did nothing: a node that judges silence of others takes its own stalls off first.

On a busy machine a process may not run for seconds. When it runs again, everything that others sent
meanwhile still waits to be read, and a judge that looks at its clock first would find all of them silent. The
meter is told at regular times (``tick``); where such a time comes late, the process was stalled in between.

The other way round, what is read after a stall may have been sent before it began. A process that rests its
own right to lead on what others sent counts it from then (``heard_ms``).
"""

from collections import deque

from millpond.base import limits

# A tick that is late by this part of the time between two ticks is overdue: a timer is never quite in time.
_OVERDUE = 5


class StallMeter:
    """Times are monotonic milliseconds."""

    __slots__ = ("_due_ms", "_stalled_since_ms", "_stalls", "tick_ms")

    def __init__(self, *, tick_ms: int = limits.STALL_TICK_MS) -> None:
        self.tick_ms = tick_ms
        # When the next tick is due; none is before the first.
        self._due_ms: int | None = None
        # If the last tick was late: when the one before it was.
        self._stalled_since_ms: int | None = None
        # (first, end) of each stall.
        self._stalls: deque[tuple[int, int]] = deque(maxlen=limits.STALLS_KEPT_MAX)

    def tick(self, now_ms: int) -> None:
        """The regular time has come; the next one is due in ``tick_ms``."""
        if (late := self._late(now_ms)) is not None:
            self._stalls.append(late)
        self._stalled_since_ms = self._last_tick_ms(now_ms)
        self._due_ms = now_ms + self.tick_ms

    def heard_ms(self, now_ms: int) -> int:
        """Since when, at the earliest, what is read now may have waited to be read: now, unless this process
        is or was just stalled.

        A tick that is overdue means that a stall began after the tick before it; whether the read or the tick
        comes first after the stall does not matter. Until the next tick that is in time the sockets may not
        all have been read. A short delay counts as well, because to count from earlier is always safe.
        """
        if self._stalled_since_ms is not None:
            return self._stalled_since_ms
        last_ms = self._last_tick_ms(now_ms)
        return now_ms if last_ms is None else last_ms

    def _last_tick_ms(self, now_ms: int) -> int | None:
        """When the last tick was, if the next one is overdue."""
        if self._due_ms is None or now_ms - self._due_ms <= self.tick_ms // _OVERDUE:
            return None
        return self._due_ms - self.tick_ms

    def stalled_ms(self, since_ms: int, now_ms: int) -> int:
        """For how long this process was stalled since then. A stall that ends just now counts, too:
        the caller may be called before the tick that is late.
        """
        late = self._late(now_ms)
        stalls = (*self._stalls, late) if late is not None else self._stalls
        return sum(max(0, end - max(first, since_ms)) for first, end in stalls)

    def silent_ms(self, heard_ms: int, now_ms: int) -> int:
        """For how long a node that was last heard of then is silent, without this process's own stalls."""
        return now_ms - heard_ms - self.stalled_ms(heard_ms, now_ms)

    def _late(self, now_ms: int) -> tuple[int, int] | None:
        """The stall that has lasted until now, if there is one."""
        if self._due_ms is None or now_ms - self._due_ms <= self.tick_ms:
            return None
        return self._due_ms, now_ms
