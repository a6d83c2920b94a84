"""Joins one socket to one AMQP session. The same duties as ``transport.py`` has for Kafka's clients."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import cast

from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.frontend.amqp.session import AmqpSession
from millpond.server.connections import Connections
from millpond.server.sockets import keep_waiting, peer_of, tune

log = logging.getLogger(__name__)

# What one connection may say before others have a turn: the loop itself would read a socket that is full up
# to 32 times, and consumers would wait for as long as a publisher has something to say.
_READ_BYTES_A_TURN = 128 * 1024


class AmqpConnection(asyncio.Protocol):
    """One accepted connection."""

    def __init__(
        self,
        frontend: AmqpFrontend,
        connections: Connections,
        name_of: Callable[[asyncio.Transport], str] | None = None,
    ) -> None:
        """``name_of`` says whom a client's certificate names, where there is TLS."""
        self._frontend = frontend
        self._name_of = name_of
        self._connections = connections
        self._session: AmqpSession | None = None
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self._unread = b""  # what came and was not handed on yet
        self._turn_bytes = 0
        self._is_resting = False  # until others have had their turn
        self._is_held = False  # until the session wants more
        self.peer = "?"

    @property
    def touched(self) -> bool:
        """Never idle: silence is what heartbeats are for, and a consumer may wait for days."""
        return True

    @touched.setter
    def touched(self, _value: bool) -> None:
        pass

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
        if not self._connections.admit(self, host):
            self.abort()
            return
        quotas = self._frontend.engine.quotas
        if quotas.limits_connections and (wait_ms := self._frontend.connection_wait_ms(host)):
            keep_waiting(stream, wait_ms, self.abort)
            return
        tune(stream)
        name = self._name_of(stream) if self._name_of is not None else ""
        self._session = self._frontend.session(self, peer=self.peer, certified_name=name)

    def data_received(self, data: bytes) -> None:
        self._unread = self._unread + data if self._unread else data
        self._read()

    def _read(self) -> None:
        """Hand on what came, at most so much; then everybody else has a turn, and the rest comes after."""
        if self._session is None or self._is_held or self._is_resting:
            return
        data, self._unread = self._unread[:_READ_BYTES_A_TURN], self._unread[_READ_BYTES_A_TURN:]
        self._turn_bytes += len(data)
        self._session.data_received(data)
        if self._turn_bytes >= _READ_BYTES_A_TURN and self._transport is not None:
            self._is_resting = True
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._turn_bytes = 0
        self._is_resting = False
        if self._unread:
            try:
                self._read()
            except Exception:
                # As the loop does where it is the one that calls: nobody waits for what never comes.
                log.exception("peer=%s: the connection is ended by a mistake of ours", self.peer)
                self.abort()
        self._listen_if_wanted()

    def _listen_if_wanted(self) -> None:
        is_wanted = not (self._is_held or self._is_resting or self._closing)
        if is_wanted and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        if self._session is not None:
            self._session.pause_writing()

    def resume_writing(self) -> None:
        if self._session is not None:
            self._session.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and not isinstance(error, ConnectionError):
            log.info("peer=%s: connection lost: %s", self.peer, error)
        self._closing = True
        self._connections.leave(self)
        session, self._session = self._session, None
        if session is not None:
            session.connection_lost()

    # --- what the session calls ------------------------------------------------------------------

    def writelines(self, buffers: Sequence[bytes]) -> None:
        """Send, in order."""
        if self._transport is not None and not self._closing:
            self._transport.write(b"".join(buffers))

    def pause_reading(self) -> None:
        """Deliver no more bytes for now."""
        self._is_held = True
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Deliver bytes again."""
        self._is_held = False
        if self._unread and not self._is_resting:
            self._is_resting = True
            asyncio.get_running_loop().call_soon(self._go_on)
        self._listen_if_wanted()

    def close(self) -> None:
        """Send what is left, then end the connection."""
        if self._session is not None and not self._closing:
            self._session.say_goodbye()
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once; what is not sent is lost."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()
