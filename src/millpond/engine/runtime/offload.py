"""Work for clients that would hold up the event loop: done by a few threads, in order of arrival.

A connection waits for its job before it handles its next request, so there is at most one job for each
connection. A job whose client disconnects before it has begun is dropped; one that has begun runs to its end,
which its own bounds make short.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from millpond.base.errors import ShuttingDown
from millpond.engine.runtime.threads import Threads, WorkThread

T = TypeVar("T")


class OffloadPool:
    """A few threads that share one queue of jobs."""

    def __init__(self, threads: Threads, name: str, count: int) -> None:
        self._idle: list[WorkThread] = [threads.one(f"{name}-{number}") for number in range(count)]
        self._all = tuple(self._idle)
        # In order of arrival, with the future that the caller waits for.
        self._waiting: dict[asyncio.Future[Any], Callable[[], object]] = {}
        self._stopped = False

    @property
    def waiting(self) -> int:
        """Jobs that no thread has begun."""
        return len(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether a thread is running a job."""
        return len(self._idle) < len(self._all)

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job; return its result or raise what it raised. A cancelled caller's job is not begun."""
        if self._stopped:
            raise ShuttingDown("the broker is stopping")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[future] = job
        self._begin()
        try:
            return await future
        finally:
            self._waiting.pop(future, None)

    def stop(self) -> None:
        """Take no more jobs and drop those that wait. Does not wait for running jobs."""
        self._stopped = True
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_exception(ShuttingDown("the broker is stopping"))
        for thread in self._all:
            thread.stop(wait=False)

    def _begin(self) -> None:
        while self._idle and self._waiting:
            future = next(iter(self._waiting))
            job = self._waiting.pop(future)
            if not future.done():
                thread = self._idle.pop()
                thread.submit(job, partial(self._on_done, thread, future))

    def _on_done(
        self,
        thread: WorkThread,
        future: "asyncio.Future[Any]",
        result: object,
        error: BaseException | None,
    ) -> None:
        self._idle.append(thread)
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        if not self._stopped:
            self._begin()
