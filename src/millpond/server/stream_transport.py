"""Joins one socket to one session, for every protocol whose sessions take bytes as they come.

What a connection gets from here, whatever its protocol: it is admitted or refused (``max.connections`` and
its kin, creation rates, quotas), its certificate is read, what it sends is handed to the session in pieces
that leave other connections their turn, the session can stop reading and is told when the client does not
read, and it ends by ``finish``, ``close`` or ``abort``. Sessions know no socket.

Kafka's connections read into buffers of their sessions instead (``server/transport.py``); they share
``SocketConnection`` with these.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, cast

from millpond.engine.runtime.turns import (
    LITTLE_BYTES,
    LITTLE_COUNT,
    PIECE_BYTES_MIN,
    SHORT_NS,
    Pace,
    Turns,
)
from millpond.server.connections import Connections
from millpond.server.sockets import keep_waiting, local_of, peer_of, tune

log = logging.getLogger(__name__)

# What one connection may send before others have a turn, beside the time that it may take (``turns``): the
# loop itself would read a socket that is full up to 32 times. Small messages are fewer than a consumer of
# AMQP is sent in its turn (``frontend/amqp/outbox.py``), so that it can keep up.
_READ_BYTES_A_TURN = 256 * 1024
_MESSAGES_A_TURN = 500
# A buffer of this size goes to the socket as it is; smaller ones are joined first.
_GATHERED_BYTES_MIN = 16 * 1024


class Origin(NamedTuple):
    """The address of a connection's peer."""

    # ``host:port`` of the client, and of the listener that it connected to.
    peer: str
    local: str
    # The name in the client's certificate; empty if it has shown none.
    certified_name: str = ""
    is_encrypted: bool = False


class Session(Protocol):
    """One connection's state in a front-end. It sends by the ``StreamTransport`` that it was made with."""

    # Whether something that came last has an outcome that the client waits for, or may.
    is_awaited: bool

    @property
    def is_busy(self) -> bool:
        """Return whether a request is being carried out whose answer the client waits for."""
        ...

    def data_received(self, data: bytes) -> int:
        """Carry out what came. Return how many messages and acknowledgements it was."""
        ...

    def eof_received(self) -> bool:
        """The client sends no more. Return whether there is still something to send to it."""
        ...

    def pause_writing(self) -> None:
        """The client does not read fast enough: send no more than answers that are under way."""
        ...

    def resume_writing(self) -> None:
        """The client reads again."""
        ...

    def send_close(self) -> None:
        """The connection is about to be closed from this side: send what the protocol has for that."""
        ...

    def connection_lost(self) -> None:
        """The socket is gone: let go what was this connection's."""
        ...


class SocketConnection:
    """The socket of one connection: its admission and its end. Base of both kinds of transports."""

    __slots__ = ("_closing", "_connections", "_transport", "peer")

    # See ``connections.Connection``.
    touched: bool

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self.peer = "?"

    @property
    def is_writing(self) -> bool:
        """Return whether a response to an executed request is not sent yet."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def _admit(
        self,
        transport: asyncio.BaseTransport,
        quota_wait_ms: Callable[[str], int],
        *,
        may_be_node: bool = False,
    ) -> asyncio.Transport | None:
        """Return the stream of a connection that is to be served.

        A connection beyond a limit is closed at once; one that comes too fast is closed after a while, so
        that its client does not reconnect at once. One that ``may_be_node`` is let in on trial instead, while
        there is room for that.
        """
        # uvloop's transports are no subclass of asyncio's.
        self._transport = stream = cast("asyncio.Transport", transport)
        host, self.peer = peer_of(stream)
        connections = self._connections
        if not connections.admit(self, host, may_be_node=may_be_node):
            self.abort()
            return None
        if not (may_be_node and connections.is_on_trial(self)):
            wait_ms = connections.wait_ms() or quota_wait_ms(host)
            if wait_ms and not (may_be_node and connections.try_node(self)):
                keep_waiting(stream, wait_ms, self.abort)
                return None
        tune(stream)
        return stream

    def _end(self, error: Exception | None) -> None:
        """The socket is gone."""
        if error is not None and not isinstance(error, ConnectionError):
            log.info("peer=%s: connection lost: %s", self.peer, error)
        self._closing = True
        self._connections.leave(self)

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


class StreamTransport(SocketConnection, asyncio.Protocol):
    """One accepted connection."""

    def __init__(
        self,
        make_session: "SessionMaker",
        connections: Connections,
        turns: Turns,
        *,
        quota_wait_ms: Callable[[str], int],
        name_of: Callable[[asyncio.Transport], str] | None = None,
        has_heartbeats: bool = False,
    ) -> None:
        """``quota_wait_ms`` counts a connection from a host, and returns for how long to delay the end of one
        that exceeds its quota. ``name_of`` reads a client's certificate, where there is TLS. Connections with
        heartbeats of their own (``has_heartbeats``) are never idle: a consumer may wait for days.
        """
        super().__init__(connections)
        self._make_session = make_session
        self._quota_wait_ms = quota_wait_ms
        self._name_of = name_of
        self._has_heartbeats = has_heartbeats
        self._turns = turns
        self._pace = Pace()
        self._session: Session | None = None
        self._touched = True
        self._is_finishing = False  # nothing is sent any more
        self._timer: asyncio.TimerHandle | None = None  # until the end, while it is
        self._unread = b""  # what came and was not handed on yet, from a position on
        self._position = 0
        self._bytes_fitting = _READ_BYTES_A_TURN  # as many as are about a turn's messages
        self._turn_bytes = self._turn_messages = self._turn_ns = 0
        self._is_resting = False  # until others have had their turn
        self._is_held = False  # until the session wants more

    @property
    def touched(self) -> bool:
        """Return whether the connection was used since this was last set to False."""
        return self._touched or self._has_heartbeats

    @touched.setter
    def touched(self, value: bool) -> None:
        self._touched = value

    @property
    def is_writing(self) -> bool:
        """Return whether a response to an executed request is not sent yet."""
        return (self._session is not None and self._session.is_busy) or super().is_writing

    # --- what the loop calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = self._admit(transport, self._quota_wait_ms)
        if stream is None:
            return
        origin = Origin(
            peer=self.peer,
            local=local_of(stream),
            certified_name=self._name_of(stream) if self._name_of is not None else "",
            is_encrypted=stream.get_extra_info("ssl_object") is not None,
        )
        self._session = self._make_session(self, origin)

    def data_received(self, data: bytes) -> None:
        self._touched = True
        if self._session is None:
            return
        if self._unread:
            data, self._position = self._unread[self._position :] + data, 0
        self._unread = data
        if self._is_held or self._is_resting:
            return
        if len(data) <= LITTLE_BYTES:
            self._read_little()
        elif self._turns.is_full(self):
            self._rest()
        else:
            self._read()

    def eof_received(self) -> bool:
        # The loop reads the end of the stream only when everything before it was handed on.
        return self._session is not None and self._session.eof_received()

    def pause_writing(self) -> None:
        if self._session is not None:
            self._session.pause_writing()

    def resume_writing(self) -> None:
        self._touched = True
        if self._session is not None:
            self._session.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unread = b""
        self._end(error)
        session, self._session = self._session, None
        if session is not None:
            session.connection_lost()

    # --- fair turns ------------------------------------------------------------------------------

    def _read_little(self) -> None:
        """Hand on what came: it takes no other connection's turn, however many have much to send."""
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
        """Hand on a piece of what came; the rest follows when every other connection has had a turn."""
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
        """Read no more until other connections have had their turn."""
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
                # As the loop does where it is the caller: the client must not wait for an answer for ever.
                log.exception(
                    "peer=%s: the connection is ended by a defect of the broker", self.peer
                )
                self.abort()
        self._listen_if_wanted()

    def _listen_if_wanted(self) -> None:
        is_wanted = not (self._is_held or self._is_resting or self._closing)
        if is_wanted and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

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
        """Send what is left and no more, read until the client ends the connection, at most for so long.

        A socket that is closed with bytes unread takes what was sent with it.
        """
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
            self._session.send_close()
        super().close()


SessionMaker: TypeAlias = Callable[[StreamTransport, Origin], Session]


def gathered(buffers: Sequence[bytes]) -> list[bytes]:
    """Return the same bytes in fewer buffers; large ones are not copied for it."""
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
