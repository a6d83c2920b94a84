"""A thread of our own for long work that may not hold up the loop: one job at a time, in order.

The standard executor joins its threads when the process ends; a compaction of a large log must not
keep a broker from stopping. This thread is a daemon, and what it does is safe to lose at any point.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """One daemon thread, started by its first job."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job on the thread; its result, or what it raised. A cancelled caller leaves it running."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def act() -> None:
            result: Any = None
            error: BaseException | None = None
            try:
                result = job()
            except BaseException as raised:  # noqa: BLE001 - handed over to the caller
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, done, result, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(act)
        return await done

    def stop(self) -> None:
        """End the thread after the job in hand. Does not wait."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread = None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _settle(done: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
