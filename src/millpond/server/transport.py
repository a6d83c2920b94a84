"""Joins one socket to one session: bytes up, buffers down, and the socket's own limits.

The protocol object is the loop's callback and the session's writer in one, so that a connection
costs few objects. Flow control is the loop's: above the high-water mark the session stops carrying
out requests. Who may connect, who is idle and how all of them end is ``server/connections.py``'s
business.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.frontend.kafka.session import KafkaSession
from millpond.peer.connection import socket_address
from millpond.server.connections import Connections
from millpond.server.stream_transport import SocketConnection
from millpond.wire.kafka.primitives import BytesLike

# Where bytes go that are not read; a buffer may not be empty.
_NOWHERE = memoryview(bytearray(4096))


class KafkaConnection(SocketConnection, asyncio.BufferedProtocol):
    """One accepted connection."""

    __slots__ = ("_frontend", "_listener", "_session", "touched")

    def __init__(self, frontend: KafkaFrontend, connections: Connections, listener: str) -> None:
        super().__init__(connections)
        self._frontend = frontend
        self._listener = listener
        self._session: KafkaSession | None = None
        self.touched = True

    @property
    def is_writing(self) -> bool:
        """Return whether a response to an executed request is not sent yet."""
        return (self._session is not None and self._session.is_busy) or super().is_writing

    # --- what the loop calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = self._admit(transport, self._frontend.connection_wait_ms, may_be_node=True)
        if stream is None:
            return
        connections = self._connections
        self._session = self._frontend.session(
            self,
            listener=self._listener,
            peer=self.peer,
            local=socket_address(stream, "sockname"),
            is_on_trial=connections.is_on_trial(self),
            on_node=partial(connections.prove, self),
        )

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
        self._end(error)
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
