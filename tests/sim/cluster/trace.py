"""What happened, in order: a digest that two runs of one seed must share, and lines for whoever looks."""

import hashlib
from collections import Counter

from tests.support.time.sim_loop import Scheduler


class Broken(AssertionError):
    """An invariant does not hold."""


class Trace:
    """Written by everything that happens in a world."""

    def __init__(self, scheduler: Scheduler, *, keep: bool = False) -> None:
        self._scheduler = scheduler
        self._digest = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()

    def note(self, kind: str, text: str) -> None:
        """Something happened."""
        self.counts[kind] += 1
        line = f"{self._scheduler.now - 1000:10.4f} {kind} {text}"
        self._digest.update(line.encode())
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """The same for the same life."""
        return self._digest.hexdigest()
