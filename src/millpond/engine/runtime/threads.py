"""Threads for work that may not hold up the event loop.

A ``WorkThread`` does one job after the other and reports each on the loop. The simulator has its own
``Threads``, which do the same at times that its seed decides, so that a whole node runs without a thread.

The standard executor joins its threads when the process ends; a compaction of a large log must not
keep a broker from stopping. These threads are daemons, and what they do is safe to lose at any point.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias

# The outcome of a job: its result, or what it raised.
Done: TypeAlias = Callable[[Any, BaseException | None], None]

# Enough for a disk to be busy; what one fsync costs most is waiting.
_POOL_THREADS = 16


class WorkThread(Protocol):
    """One job at a time, in order."""

    def submit(self, job: Callable[[], object], done: Done) -> None:
        """Run a job; ``done`` is called on the present loop."""
        ...

    def stop(self, *, wait: bool) -> None:
        """Take no more jobs. With ``wait``, block until the accepted jobs have ended."""
        ...


class Threads(Protocol):
    """Makes threads."""

    def one(self, name: str) -> WorkThread:
        """Return a thread of this name."""
        ...

    async def run_all(self, jobs: Sequence[Callable[[], None]]) -> list[BaseException | None]:
        """Run many jobs at once; return what each raised, or None."""
        ...


class DaemonThread:
    """A daemon thread, started by its first job."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], object], done: Done) -> None:
        """Run a job; ``done`` is called on the present loop."""
        loop = asyncio.get_running_loop()

        def act() -> None:
            result: object = None
            error: BaseException | None = None
            try:
                result = job()
            except BaseException as raised:  # noqa: BLE001 - the thread must live; the loop reports
                error = raised
            try:
                loop.call_soon_threadsafe(done, result, error)
            except RuntimeError:  # the loop is closed: no task waits for the result
                return

        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(act)

    def stop(self, *, wait: bool) -> None:
        """Take no more jobs. With ``wait``, block until the accepted jobs have ended."""
        if self._thread is not None:
            self._jobs.put(None)
            thread, self._thread = self._thread, None
            if wait:
                thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class RealThreads:
    """Threads of the operating system."""

    def one(self, name: str) -> WorkThread:
        """Return a thread of this name."""
        return DaemonThread(name)

    async def run_all(self, jobs: Sequence[Callable[[], None]]) -> list[BaseException | None]:
        """Run many jobs at once; return what each raised, or None."""
        if not jobs:
            return []
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="millpond-flush") as threads:
            futures = [loop.run_in_executor(threads, job) for job in jobs]
            await asyncio.wait(futures)
        return [future.exception() for future in futures]
