"""Holds publishers back that are too fast for the hosts of their queues on other nodes."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from millpond.base import limits


class UnansweredBytes:
    """The size of all messages that hosts on other nodes have not answered for."""

    def __init__(self) -> None:
        self._bytes = 0
        # Publishers that wait until it is less.
        self._waiting: list[asyncio.Future[None]] = []
        self._is_closed = False

    def add(self, size: int) -> None:
        """So many more bytes wait for an answer, or fewer if it is below 0."""
        self._bytes += size
        if size < 0 and self._bytes <= limits.QUEUE_WAITING_BYTES_MAX // 2:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def relief(self) -> Coroutine[Any, Any, None] | None:
        """What a publisher must wait for before more of it is read; mostly None."""
        return None if self._bytes <= limits.QUEUE_WAITING_BYTES_MAX else self._relieved()

    def close(self) -> None:
        self._is_closed = True

    async def _relieved(self) -> None:
        while self._bytes > limits.QUEUE_WAITING_BYTES_MAX and not self._is_closed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
