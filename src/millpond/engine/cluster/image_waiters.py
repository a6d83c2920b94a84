"""Waits until a condition on this node's metadata holds."""

import asyncio
from collections.abc import Callable

from millpond.metadata.image import Image


class ImageWaiters:
    """Wakes waiting tasks when the image changes."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def on_change(self, _before: Image, _after: Image) -> None:
        """The image changed."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, holds: Callable[[], bool], *, timeout_ms: int) -> bool:
        """Wait until a condition holds. Return whether it does."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not holds():
                    future: asyncio.Future[None] = loop.create_future()
                    self._waiting.add(future)
                    try:
                        await future
                    finally:
                        self._waiting.discard(future)
        except TimeoutError:
            return holds()
        return True
