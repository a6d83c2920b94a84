"""Joins one socket to one session: bytes up, buffers down, and the socket's own limits.

The protocol object is the loop's callback and the session's writer in one, so that a connection
costs few objects. Flow control is the loop's: above the high-water mark the session stops carrying
out requests. Who may connect, who is idle and how all of them end is ``server/connections.py``'s
business.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import cast

from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.frontend.kafka.session import KafkaSession
from millpond.server.connections import Connections
from millpond.server.sockets import keep_waiting, peer_of, socket_address, tune
from millpond.wire.kafka.primitives import BytesLike

log = logging.getLogger(__name__)

# Bytes that nobody will read; a buffer may not be empty.
_NOWHERE = memoryview(bytearray(4096))


class KafkaConnection(asyncio.BufferedProtocol):
    """One accepted connection."""

    __slots__ = (
        "_closing",
        "_connections",
        "_frontend",
        "_listener",
        "_session",
        "_transport",
        "peer",
        "touched",
    )

    def __init__(self, frontend: KafkaFrontend, connections: Connections, listener: str) -> None:
        self._frontend = frontend
        self._connections = connections
        self._listener = listener
        self._session: KafkaSession | None = None
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self.peer = "?"
        self.touched = True

    @property
    def is_writing(self) -> bool:
        """Whether an answer that the client may count on has not left yet."""
        if self._session is not None and self._session.is_busy:
            return True
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    # --- what the loop calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast("asyncio.Transport", transport)
        host, self.peer = peer_of(stream)
        connections = self._connections
        if not connections.admit(self, host, may_be_node=True):
            self.abort()
            return
        if not connections.is_on_trial(self):
            wait_ms = self._wait_ms(host)
            if wait_ms and not connections.try_node(self):
                keep_waiting(stream, wait_ms, self.abort)
                return
        tune(stream)
        self._session = self._frontend.session(
            self,
            listener=self._listener,
            peer=self.peer,
            local=socket_address(stream, "sockname"),
            is_on_trial=connections.is_on_trial(self),
            on_node=partial(connections.prove, self),
        )

    def _wait_ms(self, host: str) -> int:
        """Count a new connection; for how long one too many is to be kept waiting."""
        if wait_ms := self._connections.wait_ms():
            return wait_ms
        limits_connections = self._frontend.engine.quotas.limits_connections
        return self._frontend.connection_wait_ms(host) if limits_connections else 0

    def get_buffer(self, sizehint: int) -> memoryview:
        # The loop fills it and calls buffer_updated in one go, so that connections may share it.
        session = self._session
        return _NOWHERE if session is None else session.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.touched = True
        if self._session is not None:
            self._session.buffer_updated(nbytes)

    def pause_writing(self) -> None:
        if self._session is not None and self._transport is not None:
            self._session.pause_writing(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self.touched = True
        if self._session is not None:
            self._session.resume_writing()

    def eof_received(self) -> bool:
        # Kafka's clients do not read after they have stopped writing.
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and not isinstance(error, ConnectionError):
            log.info("peer=%s: connection lost: %s", self.peer, error)
        self._closing = True
        self._connections.leave(self)
        session, self._session = self._session, None
        if session is not None:
            session.connection_lost()

    # --- what the session calls ------------------------------------------------------------------

    def writelines(self, buffers: Sequence[BytesLike]) -> None:
        """Send, in order."""
        transport = self._transport
        if transport is not None and not self._closing:
            if len(buffers) == 1:
                transport.write(buffers[0])
            else:
                transport.writelines(buffers)

    def pause_reading(self) -> None:
        """Deliver no more bytes for now."""
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Deliver bytes again."""
        if self._transport is not None and not self._closing and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Send what is left, then end the connection."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once; what is not sent is lost."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()
