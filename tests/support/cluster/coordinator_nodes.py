"""Three nodes whose coordinators ask each other: transactions at node 1, groups and topic ``t`` at node 2.

Node 3 has a replica of everything and takes over where a test says so. All the rest is as in
``replica_nodes``: real engines and logs that are copied, metadata made by hand.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from millpond.engine.api import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from millpond.engine.node.node import Node as Engine
from millpond.engine.peers import PeerRequest, ReplicaFetch
from millpond.metadata.records import PartitionChangeRecord, PartitionRecord, TopicRecord
from millpond.peer.table import CALLS
from tests.support.cluster.memory_broker import MemoryClient
from tests.support.cluster.replica_nodes import ReplicaNodes

ONE, TWO, THREE = 1, 2, 3
PARTITIONS = 2
HOMES = {TRANSACTIONS_TOPIC: ONE, OFFSETS_TOPIC: TWO, "t": TWO, SHARE_STATE_TOPIC: ONE}


class At:
    """One node, where a test looks for a broker."""

    def __init__(self, nodes: "CoordinatorNodes", node: int) -> None:
        self._nodes = nodes
        self._node = node

    @property
    def engine(self) -> Engine:
        return self._nodes.engines[self._node]

    def client(self) -> MemoryClient:
        return self._nodes.client(self._node)


class CoordinatorNodes(ReplicaNodes):
    """The nodes; ``asked`` is what they asked each other."""

    def __init__(self, settings: dict[str, str], *, wire: bool) -> None:
        super().__init__(3, settings, wire=False)
        self._speaks_bytes = wire
        self.asked: list[PeerRequest[Any]] = []

    def __getitem__(self, node: int) -> Any:
        return At(self, node)

    async def start(self, node: int) -> Engine:
        engine = await super().start(node)
        peers = engine.peers
        assert peers is not None
        call = peers.call

        async def recorded(to: int, request: PeerRequest[Any], *, timeout_ms: int) -> Any:
            self.asked.append(request)
            way = frozenset({node, to})
            if not self._speaks_bytes or type(request) not in CALLS or way in self.cut:
                return await call(to, request, timeout_ms=timeout_ms)
            if isinstance(request, ReplicaFetch) or to not in self.engines:
                return await call(to, request, timeout_ms=timeout_ms)
            how = CALLS[type(request)]
            client = self.client(to).prove()
            answer = await client.ask(how.api_key, how.version, how.to_wire(request))
            return how.from_wire(request, answer)

        peers.call = recorded  # type: ignore[method-assign]
        return engine

    async def make_topics(self) -> None:
        """The internal topics and ``t``, each led at its home and copied to node 3."""
        for number, (topic, home) in enumerate(HOMES.items(), start=1):
            topic_id = UUID(int=100 + number)
            both = (home, THREE)
            await self.propose(
                TopicRecord(name=topic, topic_id=topic_id),
                *(
                    PartitionRecord(
                        partition_id=index,
                        topic_id=topic_id,
                        replicas=both,
                        isr=both,
                        leader=home,
                    )
                    for index in range(PARTITIONS)
                ),
            )

    async def lead(self, node: int, topic: str) -> None:
        """Everybody hears that a node leads the partitions of a topic, and is alone in sync."""
        topic_id = next(iter(self.engines.values())).metadata.image.topics[topic].topic_id
        await self.propose(
            *(
                PartitionChangeRecord(
                    partition_id=index, topic_id=topic_id, isr=(node,), leader=node
                )
                for index in range(PARTITIONS)
            )
        )

    def part(self, one: int, other: int) -> None:
        """Two nodes do not reach each other."""
        self.cut.add(frozenset({one, other}))


@asynccontextmanager
async def coordinator_nodes(
    *, wire: bool = False, **settings: str
) -> AsyncIterator[CoordinatorNodes]:
    """The nodes with their topics, as long as the block."""
    nodes = CoordinatorNodes(settings, wire=wire)
    for node in nodes.storages:
        await nodes.start(node)
    await nodes.make_topics()
    try:
        yield nodes
    finally:
        for engine in list(nodes.engines.values()):
            await engine.stop()
