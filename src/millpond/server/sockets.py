"""What every front-end's transport does with a new connection, whatever its protocol."""

import asyncio
import socket
from collections.abc import Callable

from millpond.base import limits


def peer_of(stream: asyncio.Transport) -> tuple[str, str]:
    """Return the peer's host, and its address as logs show it."""
    name = stream.get_extra_info("peername")
    host = str(name[0]) if isinstance(name, tuple) and name else "local"
    return host, f"{host}:{name[1]}" if isinstance(name, tuple) and len(name) > 1 else host


def local_of(stream: asyncio.Transport) -> str:
    """Return the local address of a connection as ``host:port``."""
    name = stream.get_extra_info("sockname")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) > 1 else ""


def keep_waiting(stream: asyncio.Transport, wait_ms: int, abort: Callable[[], None]) -> None:
    """One connection too many for its address: it ends later, so that it does not come back at once."""
    stream.pause_reading()
    asyncio.get_running_loop().call_later(wait_ms / 1000, abort)


def tune(stream: asyncio.Transport) -> None:
    """Bound what waits to be sent, send small answers at once, and let the kernel find the dead."""
    stream.set_write_buffer_limits(high=limits.SEND_BUFFER_BYTES_MAX)
    raw = stream.get_extra_info("socket")
    if raw is not None and raw.family in {socket.AF_INET, socket.AF_INET6}:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A peer whose machine died is found out by the kernel, not by a wait that never ends.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
