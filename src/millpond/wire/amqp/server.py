"""The broker's end of an AMQP connection, without any socket.

Its shape is the common one (``wire/shape.py``), except that a violation is an event, because the peer is told
of it; ``data_to_send`` returns the bytes to send. The connection knows its states (header, login, tuning,
opening, channels, closing) and nothing of queues: its owner executes the methods and answers with ``send``.

After a violation that closes the connection, or a close by either side, everything but the end of the close
handshake is dropped. ``is_over`` says that nothing more will happen and that the socket can be closed once
the queued bytes are sent.
"""

from millpond.base import limits
from millpond.base.fields import Table
from millpond.wire.amqp.content import (
    FRAME_OVERHEAD,
    FRAME_START,
    HEARTBEAT,
    METHOD_FRAME,
    PROTOCOL_HEADER,
    content_frames,
    method_frame,
)
from millpond.wire.amqp.events import (
    Acks,
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    HeaderRefused,
    LoginOffered,
    MethodReceived,
    OpenRequested,
    Violated,
)
from millpond.wire.amqp.frames import Frames, unexpected_frame
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    Method,
)
from millpond.wire.amqp.order import CLOSING_METHODS, FROM_CLIENTS, Offer, State, check_tuned
from millpond.wire.amqp.violations import ReplyCode, Violation

# AMQP 0-9's header, which RabbitMQ accepts as well.
_HEADER_0_9 = b"AMQP\x01\x01\x00\x09"
_CHANNEL_MAX_MIN = 1


class ServerConnection(Frames):
    """One client's connection."""

    def __init__(self, offer: Offer) -> None:
        super().__init__(body_bytes_max=offer.body_bytes_max)
        self.limit_frames(offer.initial_frame_max)
        self.offer = offer
        self.state = State.HANDSHAKE
        self.client_properties: Table = {}
        self.frame_max = limits.AMQP_FRAME_BYTES_MIN
        self.channel_max = 0
        self.heartbeat_s = 0
        self._mechanism = ""
        # Before channels exist: bytes that came before the owner has decided about the login or the virtual
        # host.
        self._early = bytearray()
        self._is_owner_asked = False
        self._out: list[bytes] = []
        # Open channels; False for those that this side has closed and the peer has not confirmed.
        self._channels: dict[int, bool] = {}

    # --- in and out ----------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the peer, in any pieces; ``next_event`` returns the events. Never raises.

        Bytes that a client sends before its login or its virtual host is answered wait: after the answer the
        owner calls this once more, without data.
        """
        if self.state is State.OVER:
            return
        if self.state is State.HANDSHAKE:
            data = self._shake_hands(data)
        if not self.is_over:
            self._take(data)

    def data_to_send(self) -> list[bytes]:
        """Return the bytes to send now, in order, and forget them."""
        out, self._out = self._out, []
        return out

    @property
    def is_over(self) -> bool:
        return self.state is State.OVER

    @property
    def channels(self) -> tuple[int, ...]:
        """The open channels."""
        return tuple(number for number, is_open in self._channels.items() if is_open)

    @property
    def mechanism(self) -> str:
        """The SASL mechanism that the client chose; empty before."""
        return self._mechanism

    def has_capability(self, name: str) -> bool:
        """Return whether the client announced a capability."""
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True

    # --- for the owner ---------------------------------------------------------------------------------

    def send(self, channel: int, method: Method) -> None:
        """Send a method without content."""
        self._out.append(method_frame(channel, method))
        if isinstance(method, ChannelCloseOk):
            self._channels.pop(channel, None)
            self._forget_channel(channel)
        elif isinstance(method, ConnectionCloseOk):
            self.state = State.OVER

    def send_content(self, channel: int, method: Method, properties: bytes, body: bytes) -> None:
        """Send a method with a message."""
        self._out.append(method_frame(channel, method))
        self._out.append(content_frames(channel, properties, body, self.frame_max))

    def send_raw(self, data: bytes) -> None:
        """Send encoded frames, as ``DeliveryWriter`` makes them."""
        self._out.append(data)

    def send_heartbeat(self) -> None:
        self._out.append(HEARTBEAT)

    def accept_login(self) -> None:
        """Accept the client's credentials; tuning is next."""
        assert self.state is State.SECURING
        self.state = State.TUNING
        self._is_owner_asked = False
        offer = self.offer
        self.send(
            0,
            ConnectionTune(
                channel_max=offer.channel_max,
                frame_max=offer.frame_max,
                heartbeat=offer.heartbeat_s,
            ),
        )

    def challenge(self, challenge: bytes) -> None:
        """Ask the client for more data; another ``LoginOffered`` follows."""
        assert self.state is State.SECURING
        self._is_owner_asked = False
        self.send(0, ConnectionSecure(challenge=challenge))

    def refuse_login(self) -> None:
        """Refuse the client's credentials. The client is told if it announced that capability."""
        if self.has_capability("authentication_failure_close"):
            text = (
                f"ACCESS_REFUSED - Login was refused using authentication mechanism "
                f"{self._mechanism}. For details see the broker logfile."
            )
            close = ConnectionClose(reply_code=ReplyCode.ACCESS_REFUSED, reply_text=text)
            self.send(0, close)
        self.state = State.OVER

    def accept_open(self) -> None:
        """Open the virtual host for the client; channels are next."""
        assert self.state is State.OPENING
        self.state = State.RUNNING
        self._is_owner_asked = False
        self.send(0, ConnectionOpenOk())

    def fail(self, error: Violation) -> None:
        """Send an error: close the channel, or the connection if the error is hard."""
        if self.state >= State.CLOSED:
            return
        if self.state < State.TUNING:
            # RabbitMQ sends no errors to an unauthenticated client.
            self.state = State.OVER
        elif error.is_hard:
            self._close(error)
        elif self._channels.get(error.channel):
            self._channels[error.channel] = False
            self._forget_channel(error.channel)
            self.send(
                error.channel,
                ChannelClose(
                    reply_code=error.code,
                    reply_text=error.reply_text,
                    failing_class_id=error.class_id,
                    failing_method_id=error.method_id,
                ),
            )

    def _close(self, error: Violation) -> None:
        self.send(
            0,
            ConnectionClose(
                reply_code=error.code,
                reply_text=error.reply_text,
                failing_class_id=error.class_id,
                failing_method_id=error.method_id,
            ),
        )
        self.state = State.CLOSED
        self._channels.clear()
        self._forget_all()

    # --- beginning -------------------------------------------------------------------------------------

    def _shake_hands(self, data: bytes) -> bytes:
        """Take the protocol header. Return the bytes after it."""
        self._rest += data
        if len(self._rest) < len(PROTOCOL_HEADER):
            return b""
        header, rest = bytes(self._rest[:8]), bytes(self._rest[8:])
        self._rest.clear()
        if header not in {PROTOCOL_HEADER, _HEADER_0_9}:
            self._out.append(PROTOCOL_HEADER)
            self._events.append(HeaderRefused(header))
            self.state = State.OVER
            return b""
        self.state = State.STARTING
        self.send(
            0,
            ConnectionStart(
                server_properties=self.offer.server_properties,
                mechanisms=self.offer.mechanisms.encode(),
            ),
        )
        return rest

    def _take(self, data: bytes) -> None:
        """Process frames one by one during the handshake."""
        early = self._early
        if self.state < State.RUNNING:
            early += data
            while early and not self._is_owner_asked and self.state < State.RUNNING:
                size = int.from_bytes(early[3:7], "big")
                whole = size + FRAME_OVERHEAD
                is_partial = len(early) < whole and size <= self._payload_max
                if len(early) < FRAME_START.size or is_partial:
                    return
                piece = bytes(early[:whole])
                del early[:whole]
                self._cut(piece)
            if self.state < State.RUNNING:
                return
            data = bytes(early)
            early.clear()
        if data:
            self._cut(data)

    def _on_start_ok(self, method: ConnectionStartOk) -> None:
        if method.mechanism not in self.offer.mechanisms.split():
            raise _violation(
                ReplyCode.COMMAND_INVALID,
                f"unknown authentication mechanism '{method.mechanism}'",
                method,
            )
        self.client_properties = method.client_properties
        self._mechanism = method.mechanism
        self._on_response(method.response)

    def _on_response(self, response: bytes) -> None:
        self.state = State.SECURING
        self._is_owner_asked = True
        self._events.append(LoginOffered(self._mechanism, response, self.client_properties))

    def _on_tune_ok(self, method: ConnectionTuneOk) -> None:
        offer = self.offer
        check_tuned("frame_max", method.frame_max, limits.AMQP_FRAME_BYTES_MIN, offer.frame_max)
        check_tuned("channel_max", method.channel_max, _CHANNEL_MAX_MIN, offer.channel_max)
        self.frame_max = method.frame_max
        self.channel_max = method.channel_max
        self.heartbeat_s = method.heartbeat
        self.limit_frames(method.frame_max)
        self.state = State.OPENING

    # --- frames ----------------------------------------------------------------------------------------

    def _admit(self, kind: int, channel: int, payload: bytes) -> bool:
        if self.state >= State.CLOSING:
            return False
        if self.state is not State.RUNNING:
            raise unexpected_frame(kind, 0, payload)
        if channel not in self._channels:
            opened = len(self._channels)
            if 0 < self.channel_max <= opened:
                raise Violation(
                    ReplyCode.NOT_ALLOWED,
                    f"number of channels opened ({opened}) has reached the negotiated "
                    f"channel_max ({self.channel_max})",
                )
            return True
        if self._channels[channel]:
            return True
        # Closed by this side: only the peer's own close counts.
        return kind == METHOD_FRAME and payload[:4] in CLOSING_METHODS

    def _on_method(self, channel: int, method: Method) -> None:
        if channel == 0:
            self._on_connection_method(method)
        else:
            self._on_channel_method(channel, method)

    def _on_connection_method(self, method: Method) -> None:
        match self.state, method:
            case State.STARTING, ConnectionStartOk():
                self._on_start_ok(method)
            case State.SECURING, ConnectionSecureOk():
                self._on_response(method.response)
            case State.TUNING, ConnectionTuneOk():
                self._on_tune_ok(method)
            case State.OPENING, ConnectionOpen():
                self._is_owner_asked = True
                self._events.append(OpenRequested(method.virtual_host))
            case State.RUNNING, ConnectionClose():
                self.state = State.CLOSING
                self._channels.clear()
                self._forget_all()
                self._events.append(
                    ConnectionClosed(asked=True, code=method.reply_code, text=method.reply_text)
                )
            case (State.CLOSED, ConnectionClose()):
                self._out.append(method_frame(0, ConnectionCloseOk()))
            case (State.CLOSED, ConnectionCloseOk()):
                self.state = State.OVER
                self._events.append(ConnectionClosed(asked=False))
            case State.RUNNING, ConnectionUpdateSecret():
                self._events.append(MethodReceived(0, method))
            case _ if self.state < State.CLOSING:
                raise _violation(
                    ReplyCode.CHANNEL_ERROR,
                    f"unexpected method in connection state {self.state.name.lower()}",
                    method,
                )

    def _on_channel_method(self, channel: int, method: Method) -> None:
        is_open = self._channels.get(channel)
        if is_open is None:
            if not isinstance(method, ChannelOpen):
                raise _violation(
                    ReplyCode.CHANNEL_ERROR, "expected 'channel.open'", method, channel
                )
            self._channels[channel] = True
            self._events.append(ChannelOpened(channel))
        elif isinstance(method, ChannelClose):
            if not is_open:
                # Both sides have closed it; the peer has not confirmed ours yet.
                self._out.append(method_frame(channel, ChannelCloseOk()))
                return
            self._channels[channel] = False
            self._forget_channel(channel)
            self._events.append(
                ChannelClosed(channel, asked=True, code=method.reply_code, text=method.reply_text)
            )
        elif isinstance(method, ChannelCloseOk) and not is_open:
            del self._channels[channel]
            self._events.append(ChannelClosed(channel, asked=False))
        elif isinstance(method, ChannelOpen):
            raise _violation(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen", method, channel)
        elif isinstance(method, BasicAck):
            self._events.append(Acks(channel, [(method.delivery_tag, method.multiple)]))
        elif type(method) in FROM_CLIENTS:
            self._events.append(MethodReceived(channel, method))
        else:
            raise _violation(ReplyCode.COMMAND_INVALID, "unimplemented method", method, channel)

    def _may_publish(self, channel: int) -> bool:
        return self._channels.get(channel, False)

    def _check_begin(self, channel: int, method: Method) -> None:
        if not isinstance(method, BasicPublish):
            raise _violation(ReplyCode.COMMAND_INVALID, "unimplemented method", method, channel)
        if channel not in self._channels:
            raise _violation(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'", method, channel)
        if method.immediate:
            raise _violation(ReplyCode.NOT_IMPLEMENTED, "immediate=true", method, channel)

    def _on_violation(self, error: Violation, *, is_fatal: bool = False) -> None:
        if not error.is_hard:
            self.fail(error)
            self._events.append(Violated(error))
            return
        if self.state >= State.CLOSING:
            # Methods after the close are only processed while the stream can be decoded.
            self.state = State.OVER if is_fatal else self.state
            return
        is_told = self.state >= State.OPENING or (
            self.state is State.TUNING and error.code is ReplyCode.NOT_ALLOWED
        )
        if is_told:
            self._close(error)
        if is_fatal or not is_told:
            self.state = State.OVER
        self._events.append(Violated(error, is_silent=not is_told))


def _violation(code: ReplyCode, text: str, method: Method, channel: int = 0) -> Violation:
    return Violation(
        code, text, channel=channel, class_id=method.class_id, method_id=method.method_id
    )
