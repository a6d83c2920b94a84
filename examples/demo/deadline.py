"""The time limit of the demo, and its error message."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import click


@dataclass(slots=True)
class Deadline:
    """A deadline ``seconds`` after its creation."""

    seconds: float
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def taken(self) -> float:
        """Return the seconds since the start."""
        return self.clock() - self.began

    def left(self) -> float:
        """Return the seconds that are left; 0 when it is over."""
        return max(0.0, self.seconds - self.taken())

    def check(self, waiting_for: str) -> None:
        """End the demo if the deadline is over."""
        if self.left() == 0:
            raise click.ClickException(
                f"not done after {self.seconds:.0f} s, waiting for {waiting_for}; a busy machine? "
                "Give it longer (--within 600) or less (--clicks 5000 --lines 3000 --seconds 10)"
            )
