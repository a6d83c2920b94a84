"""Retries what fails for a while, mostly because a log cannot be read, after a pause that grows.

The begin and the end of a failure are logged once each, however many attempts lie between.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from millpond.base import limits
from millpond.base.errors import MillpondError

log = logging.getLogger(__name__)

WhoT = TypeVar("WhoT", bound=Hashable)


class _Retry:
    """One that waits, by its name in the log; it has no timer while it is tried."""

    __slots__ = ("name", "pause_ms", "timer")

    def __init__(self, name: str) -> None:
        self.name = name
        self.pause_ms = limits.QUEUE_READ_RETRY_MS_MIN
        self.timer: asyncio.TimerHandle | None = None


class Retries(Generic[WhoT]):
    """``again`` is called when it is time to try one again.

    ``waiting`` are those that are not to be tried now; mostly there is none, which is cheap to find out.
    """

    def __init__(
        self,
        again: Callable[[WhoT], None],
        *,
        fails: str = "what is next cannot be read",
        works: str = "what is next can be read",
    ) -> None:
        """``fails`` and ``works`` are what the log says of them."""
        self._again = again
        self._fails = fails
        self._works = works
        self._all: dict[WhoT, _Retry] = {}
        self.waiting: set[WhoT] = set()

    @property
    def is_needed(self) -> bool:
        """Whether one has failed and not worked since."""
        return bool(self._all)

    def failed(self, who: WhoT, name: str, error: MillpondError) -> None:
        """It is tried again after a pause; nothing if it waits already."""
        retry = self._all.get(who)
        if retry is None:
            retry = self._all[who] = _Retry(name)
            log.warning("%s: %s now, trying again: %s", name, self._fails, error)
        if retry.timer is None:
            loop = asyncio.get_running_loop()
            retry.timer = loop.call_later(retry.pause_ms / 1000, self._on_time, who)
            self.waiting.add(who)
            retry.pause_ms = min(2 * retry.pause_ms, limits.QUEUE_READ_RETRY_MS_MAX)

    def worked(self, who: WhoT) -> None:
        """It could be read."""
        retry = self._all.get(who)
        if retry is not None:
            self.forget(who)
            log.warning("%s: %s again", retry.name, self._works)

    def forget(self, who: WhoT) -> None:
        """Stop trying one: it is not needed any more."""
        retry = self._all.pop(who, None)
        self.waiting.discard(who)
        if retry is not None and retry.timer is not None:
            retry.timer.cancel()

    def close(self) -> None:
        """Stop trying all of them."""
        for who in tuple(self._all):
            self.forget(who)

    def _on_time(self, who: WhoT) -> None:
        self._all[who].timer = None
        self.waiting.discard(who)
        self._again(who)
