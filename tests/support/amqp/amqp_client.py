"""A blocking AMQP client over a real socket that says what it hears in one line each."""

import socket
from collections import deque

from millpond.wire.amqp.client import ClientConnection, ConnectOptions
from millpond.wire.amqp.events import (
    Acks,
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    ContentReceived,
    Event,
    MethodReceived,
    OpenRequested,
)
from millpond.wire.amqp.methods import BasicPublish, Method
from millpond.wire.amqp.properties import Properties, encode_properties
from millpond.wire.shape import received


class AmqpClient:
    """One connection. Every call that waits gives up after ``timeout_s``."""

    def __init__(
        self, host: str, port: int, wish: ConnectOptions | None = None, timeout_s: float = 60.0
    ) -> None:
        self.connection = ClientConnection(wish)
        self.socket = socket.create_connection((host, port), timeout_s)
        self._events: deque[Event] = deque()
        self._flush()
        self.first = self.wait()

    def __enter__(self) -> "AmqpClient":
        return self

    def __exit__(self, *_reason: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def open_channel(self, channel: int) -> None:
        self.connection.open_channel(channel)
        self._flush()
        event = self.wait()
        assert event == ChannelOpened(channel), event

    def send(self, channel: int, method: Method) -> None:
        self.connection.send(channel, method)
        self._flush()

    def publish(
        self, channel: int, method: BasicPublish, body: bytes, properties: Properties | None = None
    ) -> None:
        encoded = encode_properties(properties or Properties())
        self.connection.send_content(channel, method, encoded, body)
        self._flush()

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def wait(self) -> Event | None:
        """The next event; None if the other side hung up."""
        while not self._events:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._events += received(self.connection, data)
            self._flush()
        return self._events.popleft()

    def wait_briefly(self, seconds: float) -> Event | None:
        """The next event, or None if none comes for so long."""
        before = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            return self.wait()
        except TimeoutError:
            return None
        finally:
            self.socket.settimeout(before)

    def _flush(self) -> None:
        data = b"".join(self.connection.data_to_send())
        if data:
            self.socket.sendall(data)


def said(event: Event | None) -> str:
    """An event in one line, the same for every broker that answers alike."""
    match event:
        case None:
            return "hung up"
        case OpenRequested():
            return "open"
        case ChannelClosed(asked=True):
            return f"channel closed: {event.code} {event.text}"
        case ConnectionClosed(asked=True):
            return f"connection closed: {event.code} {event.text}"
        case MethodReceived():
            return repr(event.method)
        case ContentReceived():
            return f"{event.content.method!r} {event.content.body!r}"
        case Acks():
            return f"acks {event.acks}"
        case _:
            return repr(event)
