"""Long work that may not hold up the loop, awaited: one job at a time, in order."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from millpond.engine.runtime.threads import Threads

T = TypeVar("T")


class Worker:
    """One thread whose jobs coroutines await."""

    def __init__(self, threads: Threads, name: str) -> None:
        self._thread = threads.one(name)
        self._in_hand = 0

    @property
    def is_busy(self) -> bool:
        """Whether a job runs that a coroutine waits for."""
        return self._in_hand > 0

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job on the thread.

        Return its result or raise what it raised. It survives a cancelled caller.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: T, error: BaseException | None) -> None:
            self._in_hand -= 1
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self._in_hand += 1
        self._thread.submit(job, done)
        return await future

    def post(self, job: Callable[[], None]) -> None:
        """Run a job after the accepted ones, without waiting for it."""
        self._thread.submit(job, lambda result, error: None)

    def stop(self) -> None:
        """End the thread after the running job. Does not wait."""
        self._thread.stop(wait=False)
