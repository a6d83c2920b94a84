"""Randomness as an argument: ids and jitter come from a source that a test can seed."""

from typing import Protocol
from uuid import UUID


class Rng(Protocol):
    """A source of randomness; the real one lives in ``server/``."""

    def randrange(self, stop: int) -> int:
        """Return a number from 0 to ``stop - 1``."""
        ...

    def uuid4(self) -> UUID:
        """Return a new random UUID."""
        ...
