"""Targets of timers whose topics this node does not know, and since when.

A topic that is not known for a minute was deleted. Before that this node may be behind the metadata, or a
leader may know of a new topic first. Waiting costs a number for each target and no task.
"""

from collections.abc import Callable, Iterable
from typing import Final

from millpond.timer.facts import Target

# For how long a target's topic must be unknown here before its timers are given up.
UNKNOWN_MS_MAX: Final = 60_000
# How often all targets are looked at. A position alone is never due, and a leader that is behind may have
# begun anew with a topic that is gone.
_LOOK_MS: Final = 20_000


class MissingTargets:
    """Of one shard; times are those of a clock that does not step."""

    def __init__(self, is_known: Callable[[Target], bool]) -> None:
        self._is_known = is_known
        self._since_ms: dict[Target, int] = {}
        self._look_ms = 0

    def look(self, targets: Iterable[Target], now_ms: int) -> None:
        """Note those whose topics are missing, if it is time to look."""
        if now_ms < self._look_ms:
            return
        self._look_ms = now_ms + _LOOK_MS
        for target in targets:
            if not self._is_known(target):
                self.note(target, now_ms)

    def note(self, target: Target, now_ms: int) -> None:
        """The target's topic is not known."""
        self._since_ms.setdefault(target, now_ms)

    def remove(self, target: Target) -> None:
        """The target is known, or nothing is left of it."""
        self._since_ms.pop(target, None)

    def is_gone(self, target: Target, now_ms: int) -> bool:
        """Whether the target's topic was missing for so long that it was deleted."""
        since_ms = self._since_ms.get(target)
        return since_ms is not None and now_ms - since_ms >= UNKNOWN_MS_MAX

    def decided(self, now_ms: int) -> list[Target]:
        """Those that are known after all, and those that are gone."""
        return [
            target
            for target in self._since_ms
            if self._is_known(target) or self.is_gone(target, now_ms)
        ]
