"""Rates of use, and how long a client must wait until its rate is within a bound again.

The rules are Kafka's, because clients and administrators know them. Use is summed in samples of one window
each; the rate is the sum over the time since the oldest sample began, and never over less than all windows
but one, so that a client that starts is not taken for one that rushes. Time is an argument, in milliseconds.
"""

from dataclasses import dataclass

_WAIT_MS_MAX = 2**31 - 1  # what an answer can say


@dataclass(slots=True)
class _Sample:
    """What was used in one window."""

    start_ms: int
    last_ms: int
    total: float = 0.0

    def clear(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class SampledRate:
    """Use per second over the last ``samples`` windows."""

    __slots__ = ("_current", "_samples", "_windows", "samples", "window_ms")

    def __init__(self, *, samples: int, window_ms: int) -> None:
        assert samples >= 1
        assert window_ms >= 1
        self.samples = samples
        self.window_ms = window_ms
        self._windows: list[_Sample] = []
        self._current = 0

    def record(self, amount: float, now_ms: int) -> None:
        """Note that so much was used; less than 0 takes back what was noted."""
        if not self._windows:
            self._windows.append(_Sample(now_ms, now_ms))
        sample = self._windows[self._current]
        if now_ms - sample.start_ms >= self.window_ms:
            sample = self._advance(now_ms)
        sample.total += amount
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """The rate per second, and the milliseconds it was taken over."""
        expired_ms = self.samples * self.window_ms
        for sample in self._windows:
            if now_ms - sample.last_ms >= expired_ms:
                sample.clear(now_ms)
        oldest_ms = min((sample.start_ms for sample in self._windows), default=now_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = self.samples - 1 - elapsed_ms // self.window_ms
        if missing > 0:
            elapsed_ms += missing * self.window_ms
        elapsed_ms = max(elapsed_ms, 1)
        return sum(sample.total for sample in self._windows) * 1000 / elapsed_ms, elapsed_ms

    def _advance(self, now_ms: int) -> _Sample:
        # One more than the windows that count: the oldest may still reach into them.
        self._current = (self._current + 1) % (self.samples + 1)
        if self._current == len(self._windows):
            self._windows.append(_Sample(now_ms, now_ms))
        else:
            self._windows[self._current].clear(now_ms)
        return self._windows[self._current]


def throttle_ms(rate: float, bound: float, window_ms: int) -> int:
    """Return how long to use nothing until the rate is the bound again; 0 if it is not above it."""
    if rate <= bound:
        return 0
    return min(round((rate - bound) / bound * window_ms), _WAIT_MS_MAX)


class TokenBucket:
    """Permits that come back at ``bound`` a second, up to what all windows together would give."""

    __slots__ = ("_burst_seconds", "_filled_ms", "_tokens", "bound")

    def __init__(self, bound: float, *, samples: int, window_ms: int) -> None:
        self.bound = bound
        self._burst_seconds = samples * window_ms / 1000
        self._tokens = bound * self._burst_seconds
        self._filled_ms: int | None = None

    def take(self, permits: float, now_ms: int) -> None:
        """Use permits, even those that are not there yet."""
        self._fill(now_ms)
        self._tokens = min(self.bound * self._burst_seconds, self._tokens - permits)

    def throttle_ms(self, now_ms: int) -> int:
        """How long until nothing is owed any more."""
        self._fill(now_ms)
        if self._tokens >= 0:
            return 0
        return min(round(-self._tokens / self.bound * 1000), _WAIT_MS_MAX)

    def _fill(self, now_ms: int) -> None:
        if self._filled_ms is not None:
            came = self.bound * (now_ms - self._filled_ms) / 1000
            self._tokens = min(self.bound * self._burst_seconds, self._tokens + came)
        self._filled_ms = now_ms
