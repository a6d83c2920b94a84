"""A delay before the next attempt that grows with each failure in a row."""


class Backoff:
    """Counts failures in a row and says when to try again."""

    __slots__ = ("_shortest_ms", "failures", "until_ms")

    def __init__(self, shortest_ms: int) -> None:
        self._shortest_ms = shortest_ms
        self.failures = 0
        self.until_ms = 0

    def extend(self, now_ms: int, longest_ms: int) -> int:
        """Note a failure. Return the delay before the next attempt."""
        pause_ms = min(self._shortest_ms << min(self.failures, 16), longest_ms)
        self.failures += 1
        self.until_ms = now_ms + pause_ms
        return pause_ms

    def end(self) -> None:
        """Note a success."""
        self.failures = self.until_ms = 0
