"""How long this process did nothing: whoever judges the silence of others takes its own stalls off first.

On a busy machine a process may not run for seconds. When it runs again, everything that others sent
meanwhile still waits to be read, and a judge that looks at its clock first would find all of them silent. The
meter is told at regular times (``tick``); where such a time comes late, the process was stalled in between.
"""

from collections import deque

from millpond.base import limits


class StallMeter:
    """Times are monotonic milliseconds."""

    __slots__ = ("_due_ms", "_stalls", "tick_ms")

    def __init__(self, *, tick_ms: int = limits.STALL_TICK_MS) -> None:
        self.tick_ms = tick_ms
        # When the next tick is due; none is before the first.
        self._due_ms: int | None = None
        # (first, end) of each stall.
        self._stalls: deque[tuple[int, int]] = deque(maxlen=limits.STALLS_KEPT_MAX)

    def tick(self, now_ms: int) -> None:
        """The regular time has come; the next one is due in ``tick_ms``."""
        if (late := self._late(now_ms)) is not None:
            self._stalls.append(late)
        self._due_ms = now_ms + self.tick_ms

    def stalled_ms(self, since_ms: int, now_ms: int) -> int:
        """For how long this process was stalled since then. A stall that ends just now counts, too: whoever
        asks may be called before the tick that is late.
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
