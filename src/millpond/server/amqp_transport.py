"""Joins one socket to one AMQP session. The same duties as ``transport.py`` has for Kafka's clients."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import cast

from millpond.engine.runtime.turns import (
    LITTLE_BYTES,
    LITTLE_COUNT,
    PIECE_BYTES_MIN,
    SHORT_NS,
    Pace,
    Turns,
)
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.frontend.amqp.session import AmqpSession
from millpond.server.connections import Connections
from millpond.server.sockets import keep_waiting, local_of, peer_of, tune

log = logging.getLogger(__name__)

# What one connection may say before others have a turn, beside the time that it may take (``turns``): the
# loop itself would read a socket that is full up to 32 times. Small messages are fewer than a consumer is
# sent in its turn (``outbox``), so that it can keep up.
_READ_BYTES_A_TURN = 256 * 1024
_MESSAGES_A_TURN = 500
# A buffer of this size goes to the socket as it is; smaller ones are joined first.
_GATHERED_BYTES_MIN = 16 * 1024


class AmqpConnection(asyncio.Protocol):
    """One accepted connection."""

    def __init__(
        self,
        frontend: AmqpFrontend,
        connections: Connections,
        turns: Turns,
        name_of: Callable[[asyncio.Transport], str] | None = None,
    ) -> None:
        """``name_of`` says whom a client's certificate names, where there is TLS."""
        self._frontend = frontend
        self._turns = turns
        self._pace = Pace()
        self._name_of = name_of
        self._connections = connections
        self._session: AmqpSession | None = None
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self._is_finishing = False  # nothing is sent any more
        self._timer: asyncio.TimerHandle | None = None  # until the end, while it is
        self._unread = b""  # what came and was not handed on yet, from a position on
        self._position = 0
        self._bytes_fitting = _READ_BYTES_A_TURN  # as many as are about a turn's messages
        self._turn_bytes = self._turn_messages = self._turn_ns = 0
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
        if wait_ms := self._connections.wait_ms():
            keep_waiting(stream, wait_ms, self.abort)
            return
        quotas = self._frontend.engine.quotas
        if quotas.limits_connections and (wait_ms := self._frontend.connection_wait_ms(host)):
            keep_waiting(stream, wait_ms, self.abort)
            return
        tune(stream)
        name = self._name_of(stream) if self._name_of is not None else ""
        self._session = self._frontend.session(
            self,
            peer=self.peer,
            local=local_of(stream),
            certified_name=name,
            is_encrypted=stream.get_extra_info("ssl_object") is not None,
        )

    def data_received(self, data: bytes) -> None:
        if self._unread:
            data, self._position = self._unread[self._position :] + data, 0
        self._unread = data
        if self._session is None or self._is_held or self._is_resting:
            return
        if len(data) <= LITTLE_BYTES:
            self._read_little()
        elif self._turns.is_full(self):
            self._rest()
        else:
            self._read()

    def _read_little(self) -> None:
        """Hand on what came: it costs nobody's turn, however many have much to say."""
        assert self._session is not None
        data, self._unread = self._unread, b""
        now_ns = self._turns.now_ns
        began_ns = now_ns()
        count = self._session.data_received(data)
        ns = now_ns() - began_ns
        if ns >= SHORT_NS:
            # Few bytes can be much work.
            self._said(len(data), count, ns)
        elif count > LITTLE_COUNT:
            self._said(len(data), count, 0)
        elif count and self._session.is_awaited and self._pace.said_little():
            self._turns.said_little(self)

    def _read(self) -> None:
        """Hand on a piece of what came; then everybody else has a turn, and the rest comes after."""
        if self._session is None or self._is_held or self._is_resting:
            return
        turns, pace = self._turns, self._pace
        data, position = self._unread, self._position
        fitting = min(pace.fitting(turns.piece_ns(self)), self._bytes_fitting, _READ_BYTES_A_TURN)
        size = min(len(data) - position, fitting)
        if position + size == len(data):
            self._unread, self._position = b"", 0
        else:
            self._position = position + size
        began_ns = turns.busy_ns()
        count = self._session.data_received(data[position : position + size])
        self._said(size, count, turns.busy_ns() - began_ns)

    def _said(self, size: int, count: int, ns: int) -> None:
        self._pace.said(size, ns)
        self._turns.said(self, ns)
        fitting = size * _MESSAGES_A_TURN // count if count else _READ_BYTES_A_TURN
        self._bytes_fitting = max(PIECE_BYTES_MIN, fitting)
        self._turn_bytes += size
        self._turn_messages += count
        self._turn_ns += ns
        if (
            self._turn_bytes >= _READ_BYTES_A_TURN
            or self._turn_messages >= _MESSAGES_A_TURN
            or self._turn_ns >= self._turns.piece_ns(self)
            or self._unread
        ):
            self._rest()

    def _rest(self) -> None:
        """Until others have had their turn."""
        if self._transport is not None and not (self._is_resting or self._closing):
            self._is_resting = True
            self._transport.pause_reading()
            self._turns.wait(self)

    def speak(self) -> None:
        """It is this connection's turn again."""
        self._turn_bytes = self._turn_messages = self._turn_ns = 0
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
        if self._timer is not None:
            self._timer.cancel()
        self._unread = b""
        self._connections.leave(self)
        session, self._session = self._session, None
        if session is not None:
            session.connection_lost()

    # --- what the session calls ------------------------------------------------------------------

    def writelines(self, buffers: Sequence[bytes]) -> None:
        """Send, in order."""
        if self._transport is not None and not (self._closing or self._is_finishing):
            if max(map(len, buffers), default=0) < _GATHERED_BYTES_MIN:
                self._transport.write(b"".join(buffers))
            else:
                self._transport.writelines(gathered(buffers))

    def pause_reading(self) -> None:
        """Deliver no more bytes for now."""
        self._is_held = True
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Deliver bytes again."""
        self._is_held = False
        if self._unread:
            self._rest()
        self._listen_if_wanted()

    def finish(self, seconds: float) -> None:
        """Send what is left and no more, read until the client ends the connection, at most for so long."""
        if self._transport is None or self._closing or self._is_finishing:
            return
        self._is_finishing = True
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)
        # Over TLS one side cannot end alone: the client ends it, or time does.
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self.resume_reading()

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


def gathered(buffers: Sequence[bytes]) -> list[bytes]:
    """The same bytes in fewer buffers; the large ones are not copied for it."""
    found: list[bytes] = []
    small: list[bytes] = []
    for buffer in buffers:
        if len(buffer) < _GATHERED_BYTES_MIN:
            small.append(buffer)
            continue
        if small:
            found.append(b"".join(small))
            small = []
        found.append(buffer)
    if small:
        found.append(b"".join(small))
    return found
