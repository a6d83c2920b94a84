"""AMQP clients of a broker without sockets: bytes go to real sessions, and what these write is heard."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from millpond.engine.queues.queues import Queues
from millpond.frontend.amqp.codec import AmqpCodec
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.wire.amqp.client import ClientConnection, ConnectOptions
from millpond.wire.amqp.events import ChannelOpened, Event, OpenRequested
from millpond.wire.amqp.methods import BasicPublish, Method
from millpond.wire.amqp.properties import Properties, encode_properties
from millpond.wire.shape import received
from tests.support.cluster.memory_broker import MemoryBroker, memory_broker
from tests.support.storage.faulty_storage import FaultyStorage

# How long a broker is given, in virtual time, for what it has to say.
_PATIENCE_S = 5.0


class AmqpMemoryClient:
    """One connection; it is its session's writer."""

    def __init__(self, frontend: AmqpFrontend, wish: ConnectOptions | None = None) -> None:
        self.connection = ClientConnection(wish)
        self.heard: deque[Event] = deque()
        self.is_closed = False
        self.is_reading_paused = False
        self.session = frontend.session(self, peer="memory:1")
        self._flush()

    # --- the session's writer -----------------------------------------------------------------

    def writelines(self, buffers: Sequence[bytes]) -> None:
        self.heard += received(self.connection, b"".join(buffers))
        asyncio.get_running_loop().call_soon(self._flush)

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def finish(self, seconds: float) -> None:
        """A client that has heard of the end."""
        self.close()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.session.connection_lost()

    # --- the client ---------------------------------------------------------------------------

    async def open(self, *channels: int) -> "AmqpMemoryClient":
        """Logged in, with these channels."""
        assert isinstance(await self.wait(), OpenRequested)
        for channel in channels:
            await self.open_channel(channel)
        return self

    async def open_channel(self, channel: int) -> None:
        self.connection.open_channel(channel)
        self._flush()
        event = await self.wait()
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

    async def wait(self) -> Event | None:
        """The next event; None if the broker hung up, or says nothing for a while."""
        for _step in range(int(_PATIENCE_S / 0.005)):
            if self.heard:
                return self.heard.popleft()
            if self.is_closed:
                return None
            await asyncio.sleep(0.005)
        return None

    async def ask(self, channel: int, method: Method) -> Event | None:
        self.send(channel, method)
        return await self.wait()

    def _flush(self) -> None:
        data = b"".join(self.connection.data_to_send())
        if data and not self.is_closed:
            self.session.data_received(data)


class AmqpMemoryBroker:
    """A running broker that AMQP's clients can reach."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.queues = Queues(broker.engine, AmqpCodec())
        self.frontend = AmqpFrontend(broker.engine, self.queues)

    async def client(self, *channels: int) -> AmqpMemoryClient:
        return await AmqpMemoryClient(self.frontend).open(*channels)


@asynccontextmanager
async def memory_amqp(storage: FaultyStorage | None = None) -> AsyncIterator[AmqpMemoryBroker]:
    """A broker as long as the block."""
    async with memory_broker(storage) as broker:
        amqp = AmqpMemoryBroker(broker)
        await amqp.queues.start()
        amqp.frontend.start()
        try:
            yield amqp
        finally:
            amqp.frontend.stop()
            amqp.queues.stop()
