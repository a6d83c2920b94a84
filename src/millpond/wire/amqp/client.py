"""The client's end of an AMQP connection, without any socket; used by tests, tools and benchmarks.

The connection does login, tuning and opening by itself; ``OpenRequested`` with the virtual host's name is the
event that says that it is open. Then the owner opens channels and sends methods.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from millpond.base import limits
from millpond.base.errors import LocalProtocolError
from millpond.base.fields import Table
from millpond.wire.amqp.content import HEARTBEAT, PROTOCOL_HEADER, content_frames, method_frame
from millpond.wire.amqp.events import (
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    HeaderRefused,
    MethodReceived,
    OpenRequested,
    Violated,
)
from millpond.wire.amqp.frames import Frames, unexpected_frame
from millpond.wire.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from millpond.wire.amqp.sasl import PLAIN, plain_response
from millpond.wire.amqp.violations import ReplyCode, Violation

_CAPABILITIES: Table = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """The parameters of a client's connection."""

    user: str = "guest"
    password: str = "guest"  # noqa: S105 - RabbitMQ's well-known default
    mechanism: str = PLAIN
    response: bytes | None = None
    virtual_host: str = "/"
    channel_max: int = limits.AMQP_CHANNELS_MAX
    frame_max: int = limits.AMQP_FRAME_BYTES_MAX
    heartbeat_s: int = 0
    client_properties: Table = field(default_factory=lambda: {"capabilities": dict(_CAPABILITIES)})


class ClientConnection(Frames):
    """One connection to a broker."""

    def __init__(self, options: ConnectOptions | None = None) -> None:
        super().__init__(body_bytes_max=2**31)
        self.options = options or ConnectOptions()
        self.is_over = False
        self.is_open = False
        self.server_properties: Table = {}
        self.frame_max = self.options.frame_max
        self.limit_frames(self.options.frame_max)
        self._has_begun = False
        self._out: list[bytes] = [PROTOCOL_HEADER]
        self._channels: set[int] = set()

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the broker, in any pieces; ``next_event`` returns the events."""
        if self.is_over:
            return
        if not self._has_begun:
            data = self._begin(data)
        if data:
            self._cut(data)

    def data_to_send(self) -> list[bytes]:
        """Return the bytes to send now, in order, and forget them."""
        out, self._out = self._out, []
        return out

    def open_channel(self, channel: int) -> None:
        """Request a channel; the event ``ChannelOpened`` confirms it."""
        if channel in self._channels:
            raise LocalProtocolError(f"channel {channel} is open")
        self._channels.add(channel)
        self.send(channel, ChannelOpen())

    def expect_channels(self, channels: Iterable[int]) -> None:
        """Note channels that were requested other than by ``open_channel``."""
        self._channels.update(channels)

    def send(self, channel: int, method: Method) -> None:
        """Send a method without content."""
        self._out.append(method_frame(channel, method))

    def send_content(self, channel: int, method: Method, properties: bytes, body: bytes) -> None:
        """Send a method with a message."""
        self._out.append(method_frame(channel, method))
        self._out.append(content_frames(channel, properties, body, self.frame_max))

    def send_heartbeat(self) -> None:
        self._out.append(HEARTBEAT)

    # --- frames ----------------------------------------------------------------------------------------

    def _begin(self, data: bytes) -> bytes:
        """Check the first bytes: a broker that speaks another protocol answers with a header instead of a
        frame.
        """
        self._rest += data
        if len(self._rest) < len(PROTOCOL_HEADER):
            return b""
        begun, self._rest = bytes(self._rest), bytearray()
        if begun.startswith(b"AMQP"):
            self.is_over = True
            self._events.append(HeaderRefused(begun[:8]))
            return b""
        self._has_begun = True
        return begun

    def _admit(self, kind: int, channel: int, payload: bytes) -> bool:
        if channel not in self._channels:
            raise unexpected_frame(kind, channel, payload)
        return True

    def _on_method(self, channel: int, method: Method) -> None:
        match method:
            case ConnectionStart():
                self._start(method)
            case ConnectionTune():
                self._tune(method)
            case ConnectionOpenOk():
                self.is_open = True
                self._events.append(OpenRequested(self.options.virtual_host))
            case ConnectionClose():
                self.send(0, ConnectionCloseOk())
                self.is_over = True
                self._events.append(
                    ConnectionClosed(asked=True, code=method.reply_code, text=method.reply_text)
                )
            case ConnectionCloseOk():
                self.is_over = True
                self._events.append(ConnectionClosed(asked=False))
            case ChannelOpenOk():
                self._events.append(ChannelOpened(channel))
            case ChannelClose():
                self.send(channel, ChannelCloseOk())
                self._end_channel(channel)
                self._events.append(
                    ChannelClosed(
                        channel, asked=True, code=method.reply_code, text=method.reply_text
                    )
                )
            case ChannelCloseOk():
                self._end_channel(channel)
                self._events.append(ChannelClosed(channel, asked=False))
            case _:
                self._events.append(MethodReceived(channel, method))

    def _end_channel(self, channel: int) -> None:
        self._channels.discard(channel)
        self._forget_channel(channel)

    def _start(self, method: ConnectionStart) -> None:
        options = self.options
        self.server_properties = method.server_properties
        response = options.response
        if response is None:
            response = plain_response(options.user, options.password)
        self.send(
            0,
            ConnectionStartOk(
                client_properties=options.client_properties,
                mechanism=options.mechanism,
                response=response,
            ),
        )

    def _tune(self, method: ConnectionTune) -> None:
        options = self.options
        self.frame_max = _lower(options.frame_max, method.frame_max)
        self.limit_frames(self.frame_max)
        self.send(
            0,
            ConnectionTuneOk(
                channel_max=_lower(options.channel_max, method.channel_max),
                frame_max=self.frame_max,
                heartbeat=options.heartbeat_s,
            ),
        )
        self.send(0, ConnectionOpen(virtual_host=options.virtual_host))

    def _on_violation(self, error: Violation, *, is_fatal: bool = False) -> None:
        del is_fatal  # the client closes the connection in any case
        if not self.is_over:
            code = error.code if error.code.is_hard else ReplyCode.UNEXPECTED_FRAME
            self.send(0, ConnectionClose(reply_code=code, reply_text=error.reply_text))
            self.is_over = True
            self._events.append(Violated(error))


def _lower(mine: int, theirs: int) -> int:
    """Return the smaller of two limits, where 0 is none."""
    return min(mine, theirs) if mine and theirs else mine or theirs
