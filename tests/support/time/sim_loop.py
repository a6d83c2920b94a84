"""Many event loops on one virtual time, for processes that can be killed, paused and forgotten.

Each process of a simulation has a ``ProcessLoop``; one ``Scheduler`` runs them all, one step at a time, in an
order that depends on nothing but what they ask for. There are no threads, no sockets and no waiting: time is
a number that jumps to the next timer. A process that is killed takes no further step: no cleanup of its runs,
its timers and tasks are as gone as those of a process that got SIGKILL.
"""

import asyncio
import contextlib
import inspect
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(Exception):
    """Steps follow each other and time does not move: somebody spins."""


# Steps at one point in time that nobody needs who is in his right mind.
_STEPS_AT_ONCE_MAX = 100_000


class Scheduler:
    """The one time, and what happens next."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.steps = 0
        self._timers: list[tuple[float, int, Step]] = []
        self._ready: deque[Step] = deque()
        self._count = 0
        self._loops: list[ProcessLoop] = []
        # Told of everything that a callback or a task raised and nobody caught.
        self.on_error: Callable[[ProcessLoop, dict[str, Any]], None] = lambda _loop, _what: None

    def loop(self, name: str) -> "ProcessLoop":
        """A new process."""
        loop = ProcessLoop(self, name)  # type: ignore[abstract]
        self._loops.append(loop)
        return loop

    def run_until(self, when: float) -> None:
        """Let everything happen that is due until then."""
        before = events._get_running_loop()
        timers, ready = self._timers, self._ready
        try:
            while True:
                if ready:
                    self._run_ready()
                if not timers or timers[0][0] > when:
                    break
                due, _count, step = heappop(timers)
                if not step.is_cancelled:
                    if due > self.now:
                        self.now = due
                    ready.append(step)
            self.now = max(self.now, when)
        finally:
            events._set_running_loop(before)

    def _run_ready(self) -> None:
        ready = self._ready
        steps, limit = self.steps, self.steps + _STEPS_AT_ONCE_MAX
        running: ProcessLoop | None = None
        while ready:
            step = ready.popleft()
            if step.is_cancelled:
                continue
            loop = step.loop
            if loop.is_dead or loop.is_paused:
                loop.held.append(step)
                continue
            if loop is not running:
                events._set_running_loop(loop)
                running = loop
            try:
                step.context.run(step.callback, *step.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as the loops of asyncio do
                loop.call_exception_handler({"message": f"in {step!r}", "exception": error})
            self.steps = steps = steps + 1
            if loop.after_step is not None:
                loop.after_step()
            if steps > limit:
                raise Stuck(f"{loop.name} spins at {self.now}: {step!r}")

    def push_ready(self, step: "Step") -> None:
        self._ready.append(step)

    def push_timer(self, when: float, step: "Step") -> None:
        self._count += 1
        heappush(self._timers, (when, self._count, step))

    def close(self) -> None:
        """The simulation is over: take everything apart without a word."""
        for loop in self._loops:
            loop.kill()
        for loop in self._loops:
            loop.bury()
        self._timers.clear()
        self._ready.clear()


class Step:
    """What a loop was asked to call: what anybody uses of asyncio's handles, for a third of the time."""

    __slots__ = ("_when", "args", "callback", "context", "is_cancelled", "loop")

    def __init__(
        self,
        loop: "ProcessLoop",
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        when: float = 0.0,
    ) -> None:
        self.loop = loop
        self.callback = callback
        self.args = args
        self.context = context if context is not None else copy_context()
        self.is_cancelled = False
        self._when = when

    def __repr__(self) -> str:
        return f"<Step {self.callback!r}>"

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback, self.args = _nothing, ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self._when


def _nothing() -> None:
    """What is left of a step that was cancelled."""


class ProcessLoop(asyncio.AbstractEventLoop):
    """The event loop of one process."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.is_dead = False
        self.is_paused = False
        # Called after each of its steps, if anybody wants to know.
        self.after_step: Callable[[], None] | None = None
        self.held: list[Step] = []

    # --- what happens to a process ----------------------------------------------------------------

    def kill(self) -> None:
        """No further step."""
        self.is_dead = True

    def pause(self) -> None:
        """As SIGSTOP: what is due waits."""
        self.is_paused = True

    def resume(self) -> None:
        """As SIGCONT: what waited happens now."""
        self.is_paused = False
        if not self.is_dead:
            for step in self.held:
                self.scheduler.push_ready(step)
            self.held = []

    def bury(self) -> None:
        """Close what the tasks of a dead process hold, so that the interpreter finds nothing unfinished."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _close(task.get_coro())
        self.held.clear()

    # --- what asyncio asks of a loop --------------------------------------------------------------

    def time(self) -> float:
        return self.scheduler.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Step:
        step = Step(self, callback, args, context)
        self.scheduler.push_ready(step)
        return step

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Step:
        return self.call_at(self.scheduler.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Step:
        step = Step(self, callback, args, context, when)
        if not self.is_dead:
            self.scheduler.push_timer(when, step)
        return step

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        return asyncio.Task(coro, loop=self, name=name or "task", context=context)

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_dead:
            self.scheduler.on_error(self, context)


def _close(coroutine: Any) -> None:
    """With what it was given to await, if it did not come to that."""
    if inspect.iscoroutine(coroutine):
        frame = coroutine.cr_frame
        if frame is not None and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            for value in frame.f_locals.values():
                _close(value)
        with contextlib.suppress(BaseException):
            coroutine.close()
