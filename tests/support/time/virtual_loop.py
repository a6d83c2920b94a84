"""An event loop whose time is a number: it jumps to the next timer instead of waiting for it.

A long poll of a minute takes no time, and a test that waits for nothing fails at once instead of
hanging. Threads are real: while ``busy`` says that one of ours is at work, time stands still.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_THREAD_PATIENCE_S = 20.0


class _JumpingSelector(selectors.DefaultSelector):
    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        waited = 0.0
        while not found and timeout != 0 and (self.loop.busy() or timeout is None):
            found = super().select(0.001)
            waited += 0.001
            if waited > _THREAD_PATIENCE_S:
                raise RuntimeError("the test waits for something that will never happen")
        if not found and timeout is not None and timeout > 0:
            self.loop.now += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """``now`` is the loop's time in seconds; ``busy`` holds it while a thread works for the test."""

    def __init__(self) -> None:
        selector = _JumpingSelector()
        selector.loop = self
        self.now = 1000.0
        self.busy: Callable[[], bool] = lambda: False
        super().__init__(selector)

    def time(self) -> float:
        return self.now


class LoopClock:
    """The broker's clock, driven by the loop's time."""

    EPOCH_MS = 1_700_000_000_000

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return self.EPOCH_MS + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(self._loop.now * 1000)


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop with virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)


def virtual_loop() -> VirtualLoop:
    """The loop that the test runs on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
