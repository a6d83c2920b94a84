"""The real clock. Everything else takes time as an argument or asks a ``Clock``."""

import time


class SystemClock:
    """The machine's wall clock and its monotonic one, in milliseconds."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch. May jump."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since some start. Never goes back."""
        return time.monotonic_ns() // 1_000_000
