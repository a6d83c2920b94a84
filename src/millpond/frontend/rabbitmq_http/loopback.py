"""An AMQP connection of this node to itself, in memory, in the name of the user who asks.

What touches messages goes through it: so permissions, limits, dead letters and, on a cluster, the node that
has a queue are those of every other client, and so are the texts of what is refused.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from millpond.base import errors, limits
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.frontend.amqp.session import AmqpSession
from millpond.frontend.rabbitmq_http.context import Call
from millpond.frontend.rabbitmq_http.http import Refused, bad_request, not_authorised
from millpond.wire.amqp.client import ClientConnection, ConnectOptions
from millpond.wire.amqp.events import (
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    Event,
    OpenRequested,
)
from millpond.wire.amqp.methods import Method
from millpond.wire.amqp.violations import ReplyCode
from millpond.wire.shape import received

_CHANNEL = 1


class Closed(errors.MillpondError):
    """The broker closed the channel or the connection."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text

    @property
    def refused(self) -> Refused:
        """Return the answer of RabbitMQ's API."""
        match self.code:
            case ReplyCode.NOT_FOUND:
                return Refused(404, "not_found", self.text)
            case ReplyCode.ACCESS_REFUSED:
                return not_authorised("Access refused.")
            case _:
                return bad_request(self.text.partition(" - ")[2] or self.text)


class _Pipe:
    """Keeps what the session writes until it is read."""

    def __init__(self) -> None:
        self.arrived: list[bytes] = []
        self.news = asyncio.Event()
        self.is_closed = False

    def writelines(self, buffers: Sequence[bytes]) -> None:
        self.arrived += buffers
        self.news.set()

    def pause_reading(self) -> None:
        """What is sent is small, and the session takes it all."""

    def resume_reading(self) -> None:
        """Nothing was held back."""

    def finish(self, seconds: float) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True
        self.news.set()


class InnerChannel:
    """One channel."""

    def __init__(self, frontend: AmqpFrontend, options: ConnectOptions, *, peer: str) -> None:
        self._client = ClientConnection(options)
        self._pipe = _Pipe()
        self._frontend = frontend
        self._session = AmqpSession(frontend, self._pipe, peer=peer)
        frontend.inner_sessions.add(self._session)
        self._events: deque[Event] = deque()

    async def open(self) -> None:
        self._flush()
        event = await self.wait()
        assert isinstance(event, OpenRequested), event
        self._client.open_channel(_CHANNEL)
        self._flush()
        event = await self.wait()
        assert isinstance(event, ChannelOpened), event

    def close(self) -> None:
        self._frontend.inner_sessions.discard(self._session)
        self._session.connection_lost()

    # --- talking -----------------------------------------------------------------------------------------

    async def call(self, method: Method) -> Event:
        """Send, and wait for the answer. Raises ``Refused``."""
        self.send(method)
        try:
            return await self.wait()
        except Closed as error:
            raise error.refused from None

    def send(self, method: Method) -> None:
        self._client.send(_CHANNEL, method)
        self._flush()

    def send_content(self, method: Method, properties: bytes, body: bytes) -> None:
        self._client.send_content(_CHANNEL, method, properties, body)
        self._flush()

    async def wait(self) -> Event:
        """Return the next event of the broker. Raises ``Closed``."""
        pipe = self._pipe
        while not self._events:
            if pipe.arrived:
                arrived, pipe.arrived = pipe.arrived, []
                self._events += received(self._client, b"".join(arrived))
                self._flush()
            elif pipe.is_closed:
                raise Closed(ReplyCode.CONNECTION_FORCED, "the connection is gone")
            else:
                pipe.news.clear()
                await pipe.news.wait()
        event = self._events.popleft()
        if isinstance(event, (ChannelClosed, ConnectionClosed)):
            raise Closed(event.code, event.text)
        return event

    async def wait_published(self) -> Event:
        """Wait for the confirm of a message. Raises ``Closed``, or ``Refused`` if an alarm blocks it."""
        try:
            async with asyncio.timeout(limits.MANAGEMENT_BLOCKED_S):
                return await self.wait()
        except TimeoutError:
            if self._session.is_blocked:
                reason = f"{self._frontend.cluster_pressure.reason}; the message was not published"
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "blocked", reason) from None
        return await self.wait()

    def _flush(self) -> None:
        data = b"".join(self._client.data_to_send())
        if data:
            self._session.data_received(data)


@asynccontextmanager
async def inner(call: Call) -> AsyncIterator[InnerChannel]:
    """Open a channel in the virtual host of the path. Raises ``Refused``."""
    options = ConnectOptions(
        user=call.visitor.name, password=call.visitor.password, virtual_host=call.vhost
    )
    channel = InnerChannel(call.context.frontend, options, peer=call.request.peer)
    try:
        try:
            await channel.open()
        except Closed as error:
            raise error.refused from None
        yield channel
    finally:
        channel.close()
