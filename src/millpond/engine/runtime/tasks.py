"""Owns the broker's tasks: one root task holds one ``TaskGroup``, from start to stop.

A task that fails because of a defect is logged by name and does not end the broker; a task that must run for
as long as the broker does (``keep``) starts again then. ``stop`` cancels all tasks and waits for their end.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from millpond.base.errors import ShuttingDown

log = logging.getLogger(__name__)

# The delay before a task that failed because of a defect starts again.
_AGAIN_S = 1.0


class TaskOwner:
    """The broker's tasks. Started and stopped once."""

    def __init__(self) -> None:
        self._root: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._children: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()

    async def start(self) -> None:
        """Open the group."""
        assert self._root is None
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        self._root = loop.create_task(self._hold(ready), name="millpond")
        await ready

    def spawn(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run a coroutine until it ends or ``stop`` is called. Raises ``ShuttingDown`` after ``stop``."""
        if self._group is None:
            coroutine.close()
            raise ShuttingDown(f"task {name} is not begun: the broker is not running")
        task = self._group.create_task(self._guard(coroutine, name), name=name)
        self._children.add(task)

        def on_done(done: asyncio.Task[None]) -> None:
            self._children.discard(done)
            coroutine.close()  # it never started if the task was cancelled before its first step

        task.add_done_callback(on_done)
        return task

    def keep(
        self, make: Callable[[], Coroutine[Any, Any, None]], *, name: str
    ) -> asyncio.Task[None]:
        """As ``spawn``, for the coroutine that ``make`` returns; it is made again if it fails by a defect."""
        return self.spawn(self._kept(make, name), name=name)

    async def stop(self) -> None:
        """Cancel every task and wait until it has ended."""
        root, self._root = self._root, None
        if root is None:
            return
        self._group = None
        for child in tuple(self._children):
            child.cancel()
        self._stop.set()
        await root

    async def _hold(self, ready: asyncio.Future[None]) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            ready.set_result(None)
            await self._stop.wait()

    async def _kept(self, make: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        while True:
            try:
                await make()
            except Exception:  # a defect must not end the task for good
                log.exception("task %s failed; it starts again", name)
            else:
                return
            await asyncio.sleep(_AGAIN_S)

    async def _guard(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await coroutine
        except Exception:  # the outermost frame of a task
            log.exception("task %s failed", name)
