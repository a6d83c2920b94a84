"""Waiting for an event that happens again and again."""

import asyncio


class Waiting:
    """Callers that wait for an event; they are woken in the order in which they came."""

    def __init__(self) -> None:
        self._futures: dict[asyncio.Future[None], None] = {}

    async def next(self, timeout_s: float | None = None) -> None:
        """Wait until ``wake`` is called, at most for ``timeout_s``."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures[future] = None
        try:
            await asyncio.wait([future], timeout=timeout_s)
        finally:
            self._futures.pop(future, None)

    def wake(self) -> None:
        """Wake all callers that wait now."""
        for future in tuple(self._futures):
            if not future.done():
                future.set_result(None)
