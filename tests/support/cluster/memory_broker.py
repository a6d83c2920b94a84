"""A whole broker without sockets: a real engine on a storage in memory, clients that speak bytes to
real sessions.

``async with memory_broker() as broker: client = broker.client(); await client.ask(ApiKey.METADATA,
12, …)``. Run the story with ``virtual_loop.run``: time is virtual, the flusher's thread is real.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol
from uuid import UUID

from millpond.engine.api import BrokerEndpoint, CreateTopic
from millpond.engine.node.node import Node
from millpond.engine.runtime.threads import Threads
from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig, Value, broker_config_def
from millpond.peer.proof import (
    MECHANISM,
    NONCE_BYTES,
    Asking,
    ClusterSecret,
    Destination,
)
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import Record, decode_batch
from millpond.server.protocols import record_families
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import ClientConnection, Response
from millpond.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from millpond.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from millpond.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from millpond.wire.kafka.primitives import BytesLike
from millpond.wire.shape import NEED_DATA
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, virtual_loop

NODE_ID = 1
# Of every cluster in memory.
SECRET = ClusterSecret("what nodes in memory know")
# Where every broker in memory is connected to.
LOCAL = "memory:2"


class SeededRng:
    """Chance that is the same in every run."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def uuid4(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


class HasFrontend(Protocol):
    """Somebody to whom a client can connect."""

    frontend: KafkaFrontend


class MemoryClient:
    """One connection. It is its session's writer, and reads what the session wrote."""

    def __init__(self, broker: HasFrontend, listener: str = "PLAINTEXT") -> None:
        self._connection = ClientConnection("memory")
        self._answers: deque[Response] = deque()
        self.is_closed = False
        self.is_reading_paused = False
        self.written: list[int] = []  # bytes of each write
        self._cluster_id = broker.frontend.engine.info.cluster_id
        self.session = broker.frontend.session(
            self, listener=listener, peer="memory:1", local=LOCAL
        )

    # --- the session's writer -----------------------------------------------------------------

    def writelines(self, buffers: Sequence[BytesLike]) -> None:
        data = b"".join(buffers)
        self.written.append(len(data))
        self._connection.receive_data(data)
        while (event := self._connection.next_event()) is not NEED_DATA:
            assert isinstance(event, Response)
            self._answers.append(event)

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def close(self) -> None:
        self.is_closed = True

    # --- the client ----------------------------------------------------------------------------

    def send(
        self, api_key: int, version: int, message: object, *, expect_response: bool = True
    ) -> None:
        """Send a request; what can be answered at once has been answered when this returns."""
        self.session.data_received(
            self._connection.send(api_key, version, message, expect_response=expect_response)
        )

    def prove(self, node: int = 2) -> "MemoryClient":
        """Prove that this is a node of the broker's cluster, which has ``SECRET``; the same connection."""
        to = Destination(None, LOCAL, LOCAL)
        asking = Asking(SECRET, node, self._cluster_id, bytes(NONCE_BYTES), to=to)
        self.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(MECHANISM))
        assert self.answer().error_code == 0
        self.send(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(asking.first()))
        self.send(
            ApiKey.SASL_AUTHENTICATE,
            1,
            SaslAuthenticateRequest(asking.second(self.answer().auth_bytes)),
        )
        asking.check(self.answer().auth_bytes)
        return self

    def frame(self, api_key: int, version: int, message: object) -> bytes:
        """A request's bytes, for tests that cut or join them."""
        return self._connection.send(api_key, version, message)

    def answers(self) -> list[Any]:
        """Every answer that is there now."""
        found = [one.message for one in self._answers]
        self._answers.clear()
        return found

    def answer(self) -> Any:
        """The one answer that must be there now."""
        (found,) = self.answers()
        return found

    async def ask(self, api_key: int, version: int, message: object) -> Any:
        """Send a request and wait for its answer."""
        self.send(api_key, version, message)
        return await self.receive()

    async def receive(self) -> Any:
        """Wait for the next answer."""
        while not self._answers:
            assert not self.is_closed, "the broker closed the connection"
            await asyncio.sleep(0.001)
        return self._answers.popleft().message


def memory_log_dirs(*disks: FaultyStorage) -> LogDirs:
    """Log directories /memory/data, /memory/data2, …"""
    return LogDirs(
        [
            LogDir(
                disk,
                "data",
                name=f"/memory/data{number if number > 1 else ''}",
                usage=lambda: (1_000_000, 400_000),
            )
            for number, disk in enumerate(disks, start=1)
        ]
    )


class MemoryBroker:
    """A running engine with its front-end."""

    def __init__(
        self,
        storage: FaultyStorage,
        settings: Mapping[str, Value],
        threads: Threads | None = None,
        more: Sequence[FaultyStorage] = (),
    ) -> None:
        loop = virtual_loop()
        self.storage = storage
        self.clock = LoopClock(loop)
        self.engine = Node(
            log_dirs=memory_log_dirs(storage, *more),
            node_id=NODE_ID,
            cluster_id=None,
            broker=BrokerConfig(settings),
            clock=self.clock,
            rng=SeededRng(),
            families=record_families(),
            threads=threads,
        )
        held = threads is not None  # its jobs are done when the test says so
        loop.busy = lambda: (
            self.engine.flusher.is_busy
            or self.engine.disk.is_busy
            or (self.engine.runtime.offload.is_busy and not held)
        )
        self.frontend: KafkaFrontend

    async def start(self) -> None:
        await self.engine.start()
        await self.engine.advertise(
            [BrokerEndpoint(name="PLAINTEXT", host="broker.test", port=9092)]
        )
        self.frontend = KafkaFrontend(self.engine, secret=SECRET)

    def client(self) -> MemoryClient:
        return MemoryClient(self)

    async def create(self, name: str, partitions: int = 1, **configs: str) -> UUID:
        """Make a topic; settings with underscores for dots."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        (result,) = await self.engine.topic_admin.create_topics(
            [CreateTopic(name=name, partitions=partitions, configs=named)]
        )
        assert result.error is None, result.error
        assert result.topic_id is not None
        return result.topic_id


@asynccontextmanager
async def memory_broker(
    storage: FaultyStorage | None = None,
    threads: Threads | None = None,
    more: Sequence[FaultyStorage] = (),
    /,
    **settings: str,
) -> AsyncIterator[MemoryBroker]:
    """A broker that runs as long as the block. Settings are broker settings with underscores for dots; it has
    one log directory, and one on each of ``more``.
    """
    named = {key.replace("_", "."): text for key, text in settings.items()}
    values = {name: broker_config_def(name).parse(text) for name, text in named.items()}
    broker = MemoryBroker(
        storage if storage is not None else FaultyStorage(), values, threads, more
    )
    await broker.start()
    try:
        yield broker
    finally:
        await broker.engine.stop()


def batch(*values: bytes, timestamp_ms: int = LoopClock.EPOCH_MS, **fields: Any) -> bytes:
    """A record batch of these values."""
    return bytes(build_batch([(timestamp_ms, None, value, ()) for value in values], **fields))


def produce(
    records: bytes | None,
    *,
    topic: str = "t",
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 1000,
) -> ProduceRequest:
    """A produce request for one partition, by name (versions up to 12)."""
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch(
    offset: int = 0,
    *,
    topic: str = "t",
    partition: int = 0,
    wait_ms: int = 500,
    bytes_min: int = 1,
    bytes_max: int = 1 << 20,
    partition_bytes_max: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    """A fetch request for one partition, by name (versions up to 12), without a session."""
    wanted = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=partition_bytes_max
    )
    fields = {"session_id": 0, "session_epoch": -1} | fields
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        **fields,
    )


def produced(response: ProduceResponse) -> Any:
    """The one partition of a produce answer."""
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


def fetched(response: FetchResponse) -> Any:
    """The one partition of a fetch answer."""
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def records_of(data: BytesLike | None) -> list[Record]:
    """Every whole record in a fetch answer."""
    found: list[Record] = []
    for position, _header in iter_batches(data or b""):
        found += decode_batch(data or b"", position)
    return found


def values_of(data: BytesLike | None) -> list[bytes | None]:
    """The values of every whole record in a fetch answer."""
    return [record.value for record in records_of(data)]


__all__ = ["ApiKey", "MemoryBroker", "MemoryClient", "SeededRng", "memory_broker"]
