"""Waiting until the metadata, as they are known here, say something."""

import asyncio
from collections.abc import Callable

from millpond.metadata.image import Image


class ImageWaiters:
    """Wakes those that wait whenever the image changes."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def on_change(self, _before: Image, _after: Image) -> None:
        """The image changed."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, holds: Callable[[], bool], *, timeout_ms: int) -> bool:
        """Wait until this holds; answers whether it does."""
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
