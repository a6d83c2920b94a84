"""The real source of randomness: the operating system's."""

import secrets
from uuid import UUID, uuid4


class SystemRng:
    """Unpredictable numbers and ids."""

    __slots__ = ()

    def randrange(self, stop: int) -> int:
        """A number from 0 up to but without ``stop``."""
        return secrets.randbelow(stop)

    def uuid4(self) -> UUID:
        """A fresh random identifier."""
        return uuid4()
