"""Several whole engines in one process that replicate to each other, with metadata made by hand.

Each engine is its own quorum; a test is the controller and gives the same facts to all of them, or to some.
Messages between them are calls that take a millisecond, unless a test cuts the way.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

from millpond.base.errors import MillpondError, PeerUnreachable
from millpond.base.ids import NodeId
from millpond.engine.api import BrokerEndpoint, Partition
from millpond.engine.node.node import Node
from millpond.engine.peers import AlterInSync, InSyncResult, PeerRequest
from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig, broker_config_def
from millpond.metadata.elections import InSyncRequest, decide_in_sync
from millpond.metadata.records import (
    RESOURCE_TOPIC,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from millpond.peer.calls import ConnectionKind
from millpond.peer.table import CALLS
from millpond.raft.messages import Answer, Request
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.record.records import decode_batch
from millpond.server.protocols import record_families
from millpond.wire.kafka.messages.fetch import FetchRequest
from tests.support.cluster.cluster_facts import never
from tests.support.cluster.memory_broker import SECRET, MemoryClient, SeededRng
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, virtual_loop

TOPIC_ID = UUID(int=77)


async def _nothing(*_arguments: object) -> None:
    pass


class MemoryPeers:
    """The way from one node to the others."""

    def __init__(self, nodes: "ReplicaNodes", node_id: NodeId) -> None:
        self._nodes = nodes
        self._node_id = node_id

    async def call(self, to: NodeId, request: PeerRequest[Any], *, timeout_ms: int) -> Any:
        await asyncio.sleep(0.001)
        target = self._nodes.engines.get(to)
        if target is None or frozenset({self._node_id, to}) in self._nodes.cut:
            raise PeerUnreachable(f"node {to} does not answer")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                answer = await target.peer_handlers.answer(request)
        except TimeoutError:
            raise PeerUnreachable(f"node {to} took too long") from None
        await asyncio.sleep(0.001)
        if frozenset({self._node_id, to}) in self._nodes.cut:
            raise PeerUnreachable(f"node {to} does not answer")
        return answer

    async def ask_quorum(
        self, to: NodeId, request: Request, *, timeout_ms: int, leave_by_ms: int | None = None
    ) -> Answer:
        raise PeerUnreachable("each node is its own quorum here")


class WirePeers(MemoryPeers):
    """The same way, as bytes of Kafka's protocol between real sessions."""

    def __init__(self, nodes: "ReplicaNodes", node_id: NodeId) -> None:
        super().__init__(nodes, node_id)
        # As between real nodes: a connection for each purpose, since answers come in order.
        self._clients: dict[tuple[NodeId, ConnectionKind], MemoryClient] = {}
        # How many partitions each fetch named.
        self.named: list[int] = []

    async def call(self, to: NodeId, request: PeerRequest[Any], *, timeout_ms: int) -> Any:
        await asyncio.sleep(0.001)
        how = CALLS[type(request)]
        way = to, how.connection
        if to not in self._nodes.engines or frozenset({self._node_id, to}) in self._nodes.cut:
            self._clients.pop(way, None)
            raise PeerUnreachable(f"node {to} does not answer")
        client = self._clients.get(way)
        if client is None:
            client = self._clients[way] = MemoryClient(self._nodes.frontends[to]).prove()
        message = how.to_wire(request)
        if isinstance(message, FetchRequest):
            self.named.append(sum(len(topic.partitions) for topic in message.topics))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                answer = await client.ask(how.api_key, how.version, message)
        except (TimeoutError, AssertionError):
            self._clients.pop(way, None)
            raise PeerUnreachable(f"node {to} took too long") from None
        if frozenset({self._node_id, to}) in self._nodes.cut:
            self._clients.pop(way, None)
            raise PeerUnreachable(f"node {to} does not answer")
        return how.from_wire(request, answer)


class FrontendOf:
    """A front-end where a client looks for it."""

    def __init__(self, engine: Node) -> None:
        self.frontend = KafkaFrontend(engine, secret=SECRET)


class ReplicaNodes:
    """The engines, and the hand that makes their metadata."""

    def __init__(self, count: int, settings: dict[str, str], *, wire: bool) -> None:
        self.engines: dict[NodeId, Node] = {}
        self.frontends: dict[NodeId, FrontendOf] = {}
        self._way = WirePeers if wire else MemoryPeers
        self.storages = {node: FaultyStorage() for node in range(1, count + 1)}
        self.cut: set[frozenset[NodeId]] = set()
        self._settings = settings
        virtual_loop().busy = lambda: any(
            one.flusher.is_busy or one.repairs.is_busy or one.disk.is_busy
            for one in self.engines.values()
        )

    async def start(self, node: NodeId) -> Node:
        """A node starts, with what it had."""
        named = {key.replace("_", "."): text for key, text in self._settings.items()}
        values = {name: broker_config_def(name).parse(text) for name, text in named.items()}
        values["broker.session.timeout.ms"] = 2**31 - 1
        engine = Node(
            log_dirs=LogDirs([LogDir(self.storages[node], "data")]),
            node_id=node,
            cluster_id="c",
            broker=BrokerConfig(values),
            clock=LoopClock(virtual_loop()),
            rng=SeededRng(node),
            families=record_families(),
            rack=f"rack-{node}",
            peers=self._way(self, node),
        )
        # The test is the controller: nobody registers, and nobody is fenced.
        engine.membership.register = engine.membership.begin = _nothing  # type: ignore[method-assign]
        engine.membership._begin = lambda: None  # type: ignore[method-assign]
        await engine.start()
        self.engines[node] = engine
        engine.replicas.ask_controller = self.alter_in_sync
        self.frontends[node] = FrontendOf(engine)
        fresh = len(engine.metadata.image.brokers) == 1
        await engine.advertise(
            [BrokerEndpoint(name="PLAINTEXT", host=f"node{node}.test", port=9092)]
        )
        if fresh:
            await engine.metadata.quorum.propose(
                [
                    RegisterBrokerRecord(
                        broker_id=other,
                        incarnation_id=UUID(int=other),
                        broker_epoch=other,
                        rack=f"rack-{other}",
                        end_points=(
                            BrokerEndpoint(name="PLAINTEXT", host=f"node{other}.test", port=9092),
                        ),
                    )
                    for other in self.storages
                ]
            )
        return engine

    async def kill(self, node: NodeId) -> None:
        """The node is gone; what it had in the page cache stays."""
        engine = self.engines.pop(node)
        await engine.runtime.tasks.stop()
        await engine.flusher.stop()
        engine.log_dirs.abandon()

    async def propose(self, *records: MetadataRecord, to: Iterable[NodeId] | None = None) -> None:
        """Facts for everybody who is up, or for some."""
        for node in list(self.engines) if to is None else to:
            await self.engines[node].metadata.quorum.propose(list(records))
        await asyncio.sleep(0)

    async def make_topic(self, partitions: int = 1, **configs: str) -> None:
        """Topic "t" on all nodes, led by node 1."""
        nodes = tuple(self.storages)
        await self.propose(
            TopicRecord(name="t", topic_id=TOPIC_ID),
            *(
                ConfigRecord(
                    resource_type=RESOURCE_TOPIC,
                    resource_name="t",
                    name=name.replace("_", "."),
                    value=value,
                )
                for name, value in configs.items()
            ),
            *(
                PartitionRecord(
                    partition_id=index, topic_id=TOPIC_ID, replicas=nodes, isr=nodes, leader=1
                )
                for index in range(partitions)
            ),
        )

    async def change(self, *, to: Iterable[NodeId] | None = None, **change: Any) -> None:
        """A new state of t-0."""
        record = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **change)
        await self.propose(record, to=to)

    async def alter_in_sync(self, request: AlterInSync) -> Sequence[InSyncResult]:
        """The controller's part: decided from what the sender knows, told to everybody."""
        await asyncio.sleep(0.001)
        image = self.engines[request.node_id].metadata.image
        brokers = {
            node: replace(broker, fenced=node not in self.engines)
            for node, broker in image.brokers.items()
        }
        wishes = [
            InSyncRequest(
                topic_id=change.topic_id,
                partition=change.partition,
                leader_epoch=change.leader_epoch,
                partition_epoch=change.partition_epoch,
                isr=change.isr,
            )
            for change in request.changes
        ]
        records, states = decide_in_sync(
            replace(image, brokers=brokers), request.node_id, wishes, never
        )
        if records:
            await self.propose(*records)
        return [
            InSyncResult(topic_id=wish.topic_id, partition=wish.partition, error=state)
            if isinstance(state, MillpondError)
            else InSyncResult(
                topic_id=wish.topic_id,
                partition=wish.partition,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                isr=state.isr,
            )
            for wish, state in zip(wishes, states, strict=True)
        ]

    # --- looking ------------------------------------------------------------------------------------

    def client(self, node: NodeId) -> MemoryClient:
        """A connection of a client."""
        return MemoryClient(self.frontends[node])

    def replica(self, node: NodeId, index: int = 0) -> Partition:
        return self.engines[node].partitions.replica("t", index)

    def isr(self, node: NodeId = 1) -> set[NodeId]:
        return set(self.engines[node].metadata.image.topics["t"].partitions[0].isr)

    def append(self, node: NodeId, *values: bytes, acks: int = -1, index: int = 0) -> Any:
        """Write at a node; what it says when it may be acknowledged."""
        data = build_batch([(LoopClock.EPOCH_MS, None, value, ()) for value in values])
        return self.engines[node].partitions.append("t", index, data, acks=acks).durable

    async def write(self, node: NodeId, *values: bytes, index: int = 0) -> None:
        """Write at a node and wait until all in-sync replicas have it."""
        durable = self.append(node, *values, index=index)
        if durable is not None:
            await durable

    def values(self, node: NodeId, index: int = 0) -> list[bytes]:
        """Everything in a node's log."""
        log = self.replica(node, index).log
        found: list[bytes] = []
        offset = log.start_offset
        while offset < log.end_offset:
            data = log.read(offset, 1 << 20, upto=log.end_offset, at_least_one=True).data
            for position, header in iter_batches(data):
                found += [bytes(one.value or b"") for one in decode_batch(data, position)]
                offset = header.next_offset
        return found


@asynccontextmanager
async def replica_nodes(
    count: int = 3, *, wire: bool = False, **settings: str
) -> AsyncIterator[ReplicaNodes]:
    """Nodes that run as long as the block; ``wire`` lets them speak bytes."""
    nodes = ReplicaNodes(count, settings, wire=wire)
    for node in nodes.storages:
        await nodes.start(node)
    try:
        yield nodes
    finally:
        for engine in list(nodes.engines.values()):
            await engine.stop()
