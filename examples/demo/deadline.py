"""How long the demo may take in all, and what it says when that was not enough."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import click


@dataclass(slots=True)
class Deadline:
    """So many seconds from when it is made; whoever waits asks how much is left."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def taken(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.began

    def left(self) -> float:
        """Seconds that are left; none when it is over."""
        return max(0.0, self.seconds - self.taken())

    def check(self, waiting_for: str) -> None:
        """End the demo if it is over."""
        if self.left() == 0:
            raise click.ClickException(
                f"not done after {self.seconds:.0f} s, waiting for {waiting_for}; a busy machine? "
                "Give it longer (--within 600) or less (--clicks 5000 --lines 3000 --seconds 10)"
            )
