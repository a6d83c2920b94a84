"""Checks at intervals whether this node's event loop keeps up; ``base/stalls.py`` keeps the results."""

import asyncio

from millpond.base.clock import Clock
from millpond.base.stalls import StallMeter
from millpond.engine.runtime.tasks import TaskOwner


class LoopWatch:
    """The watch of one node that judges other nodes by time."""

    def __init__(self, clock: Clock, tasks: TaskOwner) -> None:
        self._clock = clock
        self._tasks = tasks
        self.stalls = StallMeter()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to check."""
        if self._task is None:
            self.stalls.tick(self._clock.monotonic_ms())
            self._task = self._tasks.keep(self._run, name="loop watch")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self.stalls.tick_ms / 1000)
            self.stalls.tick(self._clock.monotonic_ms())
