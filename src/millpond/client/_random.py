"""Randomness for the choice of partitions and ids; tests pass their own (``base/rng.py``)."""

from random import SystemRandom
from uuid import UUID, uuid4


class SystemRng:
    """The operating system's source of randomness."""

    def __init__(self) -> None:
        self._random = SystemRandom()

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def uuid4(self) -> UUID:
        return uuid4()
