"""Real sockets: slow readers, readers that leave, and everybody else."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from millpond.base import limits
from millpond.engine.api import BrokerEndpoint, CreateTopic
from millpond.engine.node.node import Node as Engine
from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.log.file_storage import FileStorage
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig
from millpond.server.clock import SystemClock
from millpond.server.connections import Connections
from millpond.server.protocols import record_families
from millpond.server.rng import SystemRng
from millpond.server.transport import KafkaConnection
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import ClientConnection, Response
from millpond.wire.shape import NEED_DATA
from tests.support.cluster.memory_broker import batch, fetch, fetched

MEGABYTE = 1024 * 1024


class Node:
    """An engine behind one listening socket."""

    def __init__(self, engine: Engine, frontend: KafkaFrontend, port: int) -> None:
        self.engine = engine
        self.frontend = frontend
        self.port = port
        self.accepted: list[KafkaConnection] = []

    @property
    def buffered_bytes(self) -> int:
        return sum(
            one._transport.get_write_buffer_size()
            for one in self.accepted
            if one._transport is not None
        )


@contextlib.asynccontextmanager
async def node(path: Path) -> AsyncIterator[Node]:
    engine = Engine(
        log_dirs=LogDirs([LogDir(FileStorage(path))]),
        node_id=1,
        cluster_id=None,
        broker=BrokerConfig(),
        clock=SystemClock(),
        rng=SystemRng(),
        families=record_families(),
    )
    await engine.start()
    connections = Connections(
        clock=engine.runtime.clock, setting=BrokerConfig().__getitem__, idle_ms_max=600_000
    )
    frontend = KafkaFrontend(engine)
    running = Node(engine, frontend, 0)

    def accept() -> KafkaConnection:
        running.accepted.append(KafkaConnection(frontend, connections, "PLAINTEXT"))
        return running.accepted[-1]

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    running.port = server.sockets[0].getsockname()[1]
    await engine.advertise([BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=running.port)])
    try:
        yield running
    finally:
        server.close()
        await connections.drain(0.2)
        await engine.stop()


class Client:
    """A client on a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.connection = ClientConnection("slow")

    @classmethod
    async def connect(cls, port: int) -> "Client":
        raw = socket.socket()
        # Small buffers, so that what is not read stays with the broker.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        raw.connect(("127.0.0.1", port))
        return cls(*await asyncio.open_connection(sock=raw, limit=64 * 1024))

    def send(self, api_key: int, version: int, message: object) -> None:
        self.writer.write(self.connection.send(api_key, version, message))

    async def receive(self) -> Any:
        while (event := self.connection.next_event()) is NEED_DATA:
            data = await self._reader.read(MEGABYTE)
            assert data, "the broker closed the connection"
            self.connection.receive_data(data)
        assert isinstance(event, Response)
        return event.message


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_on_loop(story: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(story, 60))

    return run_on_loop


async def _settled(measure: Callable[[], int]) -> int:
    """The value once it has stopped changing."""
    last = -1
    while (now := measure()) != last:
        last = now
        await asyncio.sleep(0.05)
    return now


def test_a_slow_reader_costs_a_bounded_amount_and_nobody_elses_time(
    run: Callable[[Coroutine[Any, Any, None]], None], tmp_path: Path
) -> None:
    async def story() -> None:
        async with node(tmp_path) as broker:
            await broker.engine.topic_admin.create_topics([CreateTopic(name="t")])
            for _ in range(4):
                broker.engine.partitions.append("t", 0, bytearray(batch(b"x" * (MEGABYTE // 2))))
            slow = await Client.connect(broker.port)
            asked = 100
            for _ in range(asked):
                slow.send(ApiKey.FETCH, 12, fetch(0))  # a megabyte each
            held = await _settled(lambda: broker.buffered_bytes)
            assert 0 < held <= limits.SEND_BUFFER_BYTES_MAX + 2 * MEGABYTE
            assert broker.frontend.stalled_bytes > 0

            quick = await Client.connect(broker.port)
            quick.send(ApiKey.FETCH, 12, fetch(0))
            assert fetched(await quick.receive()).error_code == 0

            for _ in range(asked):
                assert len(fetched(await slow.receive()).records) > MEGABYTE // 2
            assert broker.frontend.stalled_bytes == 0
            for client in (slow, quick):
                client.writer.close()

    run(story())


def test_a_stalled_reader_that_leaves_gives_everything_back(
    run: Callable[[Coroutine[Any, Any, None]], None], tmp_path: Path
) -> None:
    async def story() -> None:
        async with node(tmp_path) as broker:
            await broker.engine.topic_admin.create_topics([CreateTopic(name="t")])
            for _ in range(4):
                broker.engine.partitions.append("t", 0, bytearray(batch(b"x" * (MEGABYTE // 2))))
            slow = await Client.connect(broker.port)
            for _ in range(50):
                slow.send(ApiKey.FETCH, 12, fetch(0))
            await _settled(lambda: broker.buffered_bytes)
            slow.writer.transport.abort()
            while broker.frontend.stalled_bytes:
                await asyncio.sleep(0.01)
            assert broker.accepted[0]._session is None

    run(story())


def test_when_many_stall_answers_become_small(
    run: Callable[[Coroutine[Any, Any, None]], None], tmp_path: Path
) -> None:
    async def story() -> None:
        async with node(tmp_path) as broker:
            await broker.engine.topic_admin.create_topics([CreateTopic(name="t")])
            for _ in range(4):
                broker.engine.partitions.append("t", 0, bytearray(batch(b"x" * 1000)))
            broker.frontend.stalled_bytes += limits.STALLED_BYTES_MAX
            client = await Client.connect(broker.port)
            client.send(ApiKey.FETCH, 12, fetch(0, bytes_min=100_000, wait_ms=60_000))
            one = fetched(await client.receive())
            assert len(one.records) == len(batch(b"x" * 1000))
            client.writer.close()

    run(story())
