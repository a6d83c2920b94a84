"""Time as an argument.

Code below the engine takes ``now_ms`` as a parameter. The few places that must ask hold a ``Clock``;
the real one lives in ``server/``, the virtual one in the simulator.
"""

from typing import Protocol


class Clock(Protocol):
    """Wall time for what people and records see; monotonic time for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch. May jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some start. Never goes back."""
        ...
