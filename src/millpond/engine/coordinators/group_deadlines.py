"""Wakes groups at their deadlines, and expires old offsets now and then.

A session that is extended costs an assignment, not a timer: a group that is woken early looks at the clock
and says again when it wants to be woken.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from millpond.base.errors import MillpondError, ShuttingDown
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.runtime.deadlines import Deadlines

log = logging.getLogger(__name__)

# Groups whose offsets are looked at before other tasks get their turn.
_EXPIRED_A_TURN = 100


class GroupDeadlines:
    """Calls ``wake`` with a group's name when that group wants to be woken."""

    def __init__(self, services: CoordinatorServices, wake: Callable[[str], None]) -> None:
        self._wake = wake
        self._deadlines = Deadlines(services.runtime.clock)

    def stop(self) -> None:
        """Wake no group any more."""
        self._deadlines.stop()

    def watch(self, group_id: str, due_ms: int) -> None:
        """Wake the group by then."""
        self._deadlines.set(due_ms, group_id, partial(self._wake, group_id))


class OffsetExpiry:
    """Looks at every group now and then for offsets that no member has needed for long."""

    def __init__(
        self,
        services: CoordinatorServices,
        group_ids: Callable[[], Sequence[str]],
        expire: Callable[[str], None],
    ) -> None:
        self._services = services
        self._group_ids = group_ids
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None

    def plan(self) -> None:
        """Look again after the interval."""
        interval_ms = self._services.settings.get("offsets.retention.check.interval.ms")
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(interval_ms / 1000, self._begin)

    def stop(self) -> None:
        """Stop looking."""
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        try:
            self._services.runtime.tasks.spawn(self._look(), name="offset expiry")
        except ShuttingDown:
            return

    async def _look(self) -> None:
        for number, group_id in enumerate(self._group_ids(), start=1):
            if number % _EXPIRED_A_TURN == 0:
                await asyncio.sleep(0)
            try:
                self._expire(group_id)
            except MillpondError as error:
                log.warning("group=%s: offsets not expired (%s); trying later", group_id, error)
        self.plan()
