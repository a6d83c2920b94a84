"""What closed channels held, returned to a queue in steps, so that other queues have their turns between."""

import asyncio

from millpond.engine.queues.hosted.turn import Turn
from millpond.queue.queue_state import QueueState


class Returning:
    """That of one queue."""

    def __init__(self, state: QueueState, turn: Turn) -> None:
        self._state = state
        self._turn = turn
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False
        # Not set while a step is to come.
        self._is_back = asyncio.Event()
        self._is_back.set()

    def go_on(self) -> None:
        """Return some more soon, if there is more."""
        if self._state.is_returning and self._is_back.is_set():
            self._is_back.clear()
            self._loop.call_soon(self._step)

    async def done(self) -> None:
        """Wait until nothing is on its way back."""
        while self._state.is_returning and not self._is_stopped:
            await self._is_back.wait()

    def stop(self) -> None:
        self._is_stopped = True
        self._is_back.set()

    def _step(self) -> None:
        if self._is_stopped:
            return
        try:
            self._turn.follow(self._state.give_back())
        finally:
            self._turn.wake()
            self._is_back.set()
            self.go_on()
