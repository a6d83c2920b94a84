"""Wakes groups in time: the deadlines of all of them share one heap and one timer of the loop.

Extending a session costs an assignment, not a timer: a group that is woken early checks its deadlines and
sets the next one.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from millpond.base.errors import MillpondError, ShuttingDown
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.group.messages import NEVER_MS

log = logging.getLogger(__name__)

# Groups whose offsets are checked before other tasks get their turn.
_EXPIRED_A_TURN = 100


class GroupDeadlines:
    """The next deadline of each group; ``wake`` is called with the group id when it is due."""

    def __init__(self, services: CoordinatorServices, wake: Callable[[str], None]) -> None:
        self._services = services
        self._wake = wake
        # (deadline, group), earliest first; entries that are not in ``_wakes`` any more are skipped.
        self._deadlines: list[tuple[int, str]] = []
        self._wakes: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._running = True

    def stop(self) -> None:
        """Wake no group any more."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()

    def watch(self, group_id: str, due_ms: int) -> None:
        """Wake the group at this time, or at its earlier deadline."""
        if due_ms >= self._wakes.get(group_id, NEVER_MS):
            return
        self._wakes[group_id] = due_ms
        heappush(self._deadlines, (due_ms, group_id))
        self._set_timer()

    def _set_timer(self) -> None:
        if not self._deadlines or not self._running:
            return
        due_ms = self._deadlines[0][0]
        if self._timer is not None:
            if self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        wait_ms = max(due_ms - self._services.runtime.clock.monotonic_ms(), 0)
        self._timer_due_ms = due_ms
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._services.runtime.clock.monotonic_ms()
        try:
            while self._deadlines and self._deadlines[0][0] <= now_ms:
                due_ms, group_id = heappop(self._deadlines)
                if self._wakes.get(group_id) != due_ms:
                    continue  # an earlier deadline replaced it
                del self._wakes[group_id]
                self._wake(group_id)
        finally:
            self._set_timer()


class OffsetExpiry:
    """Deletes committed offsets past their retention, group by group, at an interval."""

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
        """Start the timer of the next check."""
        interval_ms = self._services.settings.get("offsets.retention.check.interval.ms")
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(interval_ms / 1000, self._begin)

    def stop(self) -> None:
        """Stop checking."""
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
