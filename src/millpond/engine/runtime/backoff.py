"""How long something that failed is left alone: longer each time that it fails again."""


class Backoff:
    """How often something failed in a row, and when it is to be tried again."""

    __slots__ = ("_shortest_ms", "failures", "until_ms")

    def __init__(self, shortest_ms: int) -> None:
        self._shortest_ms = shortest_ms
        self.failures = 0
        self.until_ms = 0

    def extend(self, now_ms: int, longest_ms: int) -> int:
        """It failed once more; for how long to leave it."""
        pause_ms = min(self._shortest_ms << min(self.failures, 16), longest_ms)
        self.failures += 1
        self.until_ms = now_ms + pause_ms
        return pause_ms

    def end(self) -> None:
        """It works again."""
        self.failures = self.until_ms = 0
