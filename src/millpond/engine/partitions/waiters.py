"""Long polls: a fetch that found too few bytes waits on all of its partitions at once.

One object, one timer and one dictionary entry a partition for each waiting request; nothing polls.
A wake-up counts bytes, it does not read: when enough came, or a partition left, or the time is
over, ``done`` is called once, on the loop, after the event that caused it has finished its own
work.
"""

import asyncio
from collections.abc import Callable, Sequence

from millpond.replication.partition import Partition


class ReadWaiter:
    """One waiting read. ``cancel`` forgets it without calling ``done``."""

    __slots__ = ("_done", "_loop", "_missing_bytes", "_partitions", "_timer", "_woken")

    def __init__(
        self,
        partitions: Sequence[Partition],
        *,
        missing_bytes: int,
        wait_ms: int,
        done: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._partitions = partitions
        self._missing_bytes = missing_bytes
        self._done = done
        self._loop = loop
        self._woken = False
        self._timer = loop.call_later(wait_ms / 1000, self._finish)
        for partition in partitions:
            partition.watchers[self] = None

    def on_advance(self, added_bytes: int) -> None:
        """Count bytes; end the wait when there are enough."""
        self._missing_bytes -= added_bytes
        if self._missing_bytes <= 0:
            self._wake()

    def on_gone(self) -> None:
        """End the wait: a partition was removed, and the client must be told."""
        self._wake()

    def cancel(self) -> None:
        """Stop waiting; ``done`` will not be called."""
        self._leave()
        self._done = _nothing

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        done, self._done = self._done, _nothing
        self._leave()
        done()

    def _leave(self) -> None:
        self._woken = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.watchers.pop(self, None)
        self._partitions = ()


def _nothing() -> None:
    return None
