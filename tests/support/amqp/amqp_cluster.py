"""A cluster without sockets whose every node speaks AMQP: ``async with amqp_cluster() as cluster: …``.

Questions about queues go from node to node as the bytes that they are on a wire.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from millpond.base.ids import NodeId
from millpond.engine.node.node import Node
from millpond.engine.peers import PeerRequest
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.engine.queues.queues import Queues
from millpond.frontend.amqp.codec import AmqpCodec
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.metadata.records import PartitionChangeRecord
from millpond.peer.table import OWN_CALLS
from millpond.queue.consumers import Consumer
from millpond.rabbit.records import Queue
from tests.support.amqp.memory_amqp import AmqpMemoryClient
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster


class AmqpCluster:
    """The nodes, and clients of each."""

    def __init__(self, nodes: MemoryCluster) -> None:
        self.nodes = nodes
        self.frontends: dict[NodeId, AmqpFrontend] = {}
        self._clients: dict[NodeId, list[AmqpMemoryClient]] = {}

    async def serve(self, node: NodeId) -> None:
        """The node speaks AMQP from now on."""
        engine = self.nodes.engines[node]
        _through_bytes(engine)
        queues = Queues(engine, AmqpCodec())
        frontend = self.frontends[node] = AmqpFrontend(engine, queues)
        await queues.start()
        frontend.start()

    async def client(self, node: NodeId, *channels: int) -> AmqpMemoryClient:
        client = AmqpMemoryClient(self.frontends[node])
        self._clients.setdefault(node, []).append(client)
        return await client.open(*channels)

    async def kill(self, node: NodeId) -> None:
        """The process is gone."""
        frontend = self.frontends.pop(node)
        for client in self._clients.pop(node, ()):
            client.is_closed = True
        await self.nodes.kill(node)
        # The dead write nothing more.
        frontend.engine.runtime.running = False
        frontend.stop()
        frontend.queues.stop()

    async def come_back(self, node: NodeId) -> None:
        await self.nodes.start(node)
        await self.nodes.up(node)
        await self.serve(node)

    def host_of(self, queue: str, vhost: str = "/") -> NodeId:
        """The node that hosts a queue, as the metadata has it; below 0 if there is none."""
        frontend = next(iter(self.frontends.values()))
        return frontend.queues.host_of(self._queue(queue, vhost))

    async def move(self, queue: str, to: NodeId, vhost: str = "/") -> None:
        """Have another in-sync replica of a queue lead it."""
        controller = await self.nodes.controller()
        topic = self.nodes.image.topics[self._queue(queue, vhost).topic]
        await controller.metadata.quorum.propose(
            [
                PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=to)
                for index in range(len(topic.partitions))
            ]
        )
        await self.nodes.until(lambda: self.host_of(queue, vhost) == to)

    def consumers_at(self, node: NodeId, queue: str, vhost: str = "/") -> list[Consumer]:
        """The consumers that a queue has, if this node hosts it."""
        face = self.frontends[node].queues.find(vhost, queue)
        return list(face.state.consumers) if isinstance(face, LocalQueue) else []

    def queues_at(self, node: NodeId, vhost: str = "/") -> set[str]:
        """The queues that a node knows."""
        return set(self.frontends[node].queues.broker.rooms(vhost).queues)

    def _queue(self, queue: str, vhost: str) -> Queue:
        frontend = next(iter(self.frontends.values()))
        return frontend.queues.broker.rooms(vhost).queue(queue)

    def replicas_of(self, queue: str, vhost: str = "/") -> tuple[NodeId, ...]:
        topic = self._queue(queue, vhost).topic
        return self.nodes.image.topics[topic].partitions[0].replicas


def _through_bytes(engine: Node) -> None:
    answer = engine.peer_handlers.answer

    async def decoded(request: PeerRequest[Any]) -> Any:
        if not isinstance(request, OWN_CALLS.kinds):
            return await answer(request)
        question = OWN_CALLS.question_of(OWN_CALLS.to_wire(request))
        assert question == request
        message = OWN_CALLS.answer_to_wire(question, await answer(question))
        return OWN_CALLS.from_wire(request, message)

    engine.peer_handlers.answer = decoded  # type: ignore[method-assign]


@asynccontextmanager
async def amqp_cluster(count: int = 3, **settings: str) -> AsyncIterator[AmqpCluster]:
    """A cluster that runs as long as the block."""
    async with memory_cluster(count, watched=True, alone=False, **settings) as nodes:
        cluster = AmqpCluster(nodes)
        for node in tuple(nodes.engines):
            await cluster.serve(node)
        try:
            yield cluster
        finally:
            for frontend in cluster.frontends.values():
                frontend.stop()
                frontend.queues.stop()
