"""Seeing that another node's process has ended: a connection that says nothing and is there to be lost."""

import asyncio

# Between tries to reach a node that cannot be reached just now.
_PAUSE_S = 1.0
_CONNECT_S = 5.0


class _Held(asyncio.Protocol):
    """A connection; ``lost`` is done when it is over."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        """Told by the transport."""
        if not self.lost.done():
            self.lost.set_result(None)


async def is_refused(host: str, port: int) -> bool:
    """Return whether the host says that no process listens there."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_S):
            transport, _held = await loop.create_connection(_Held, host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    transport.close()
    return False


async def until_refused(host: str, port: int) -> bool:
    """Return when the host says that no process listens there: True if one was seen to listen before.

    A host that does not answer proves nothing.
    """
    loop = asyncio.get_running_loop()
    has_listened = False
    while True:
        try:
            async with asyncio.timeout(_CONNECT_S):
                transport, held = await loop.create_connection(_Held, host, port)
        except ConnectionRefusedError:
            return has_listened
        except (OSError, TimeoutError):
            pass
        else:
            has_listened = True
            since = loop.time()
            try:
                await held.lost
            finally:
                transport.close()
            if loop.time() - since >= _PAUSE_S:
                continue
            # It is there, and does not keep connections: asking at once would never end.
        await asyncio.sleep(_PAUSE_S)
