"""Two nodes that ask each other, without a quorum: each is told by hand who leads which partition.

The topics are the same on both, and so are their ids. Nothing is copied: a partition's records are where it
was led when they were written. ``cut`` takes the way between the nodes away.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from millpond.base.errors import PeerUnreachable
from millpond.engine.peers import PeerRequest
from millpond.metadata.configs import broker_config_def
from millpond.metadata.records import PartitionChangeRecord
from millpond.raft.messages import Answer, Request
from tests.support.faulty_storage import FaultyStorage
from tests.support.memory_broker import MemoryBroker
from tests.support.virtual_loop import virtual_loop

AnswerT = TypeVar("AnswerT")

ONE, TWO = 1, 2


class Wires:
    """The way from one node to the other."""

    def __init__(self, nodes: "TwoNodes") -> None:
        self._nodes = nodes
        self.asked: list[PeerRequest[Any]] = []

    async def call(self, to: int, request: PeerRequest[AnswerT], *, timeout_ms: int) -> AnswerT:
        assert timeout_ms > 0
        if self._nodes.cut:
            raise PeerUnreachable(f"the wire to node {to} is cut")
        self.asked.append(request)
        return await self._nodes[to].engine.desk.answer(request)

    async def ask_quorum(self, to: int, request: Request, *, timeout_ms: int) -> Answer:
        raise PeerUnreachable("there is no quorum")


class TwoNodes:
    """Node 1 and node 2."""

    def __init__(self, settings: dict[str, str]) -> None:
        values = {name: broker_config_def(name).parse(text) for name, text in settings.items()}
        self._brokers = {node: MemoryBroker(FaultyStorage(), values, node) for node in (ONE, TWO)}
        self.cut = False
        self.wires = Wires(self)
        virtual_loop().busy = lambda: any(
            one.engine.flusher.is_busy for one in self._brokers.values()
        )

    def __getitem__(self, node: int) -> MemoryBroker:
        return self._brokers[node]

    async def start(self) -> None:
        for broker in self._brokers.values():
            await broker.start()
            broker.engine.peers = self.wires

    async def stop(self) -> None:
        for broker in self._brokers.values():
            await broker.engine.stop()

    async def create(self, name: str, partitions: int = 1) -> None:
        """A topic on both; node 1 leads."""
        ids = {await broker.create(name, partitions) for broker in self._brokers.values()}
        assert len(ids) == 1
        await self.lead(ONE, name)

    async def lead(self, node: int, topic: str, *partitions: int) -> None:
        """Tell both nodes who leads partitions of a topic: those named, or all."""
        for broker in self._brokers.values():
            image = broker.engine.image.topics[topic]
            await broker.engine._host.propose(
                [
                    PartitionChangeRecord(
                        partition_id=index,
                        topic_id=image.topic_id,
                        replicas=(ONE, TWO),
                        isr=(node,),
                        leader=node,
                    )
                    for index in partitions or range(len(image.partitions))
                    if image.partitions[index].leader != node
                ]
            )


@asynccontextmanager
async def two_nodes(**settings: str) -> AsyncIterator[TwoNodes]:
    """Both nodes, as long as the block. Settings with underscores for dots."""
    nodes = TwoNodes({key.replace("_", "."): text for key, text in settings.items()})
    await nodes.start()
    try:
        yield nodes
    finally:
        await nodes.stop()
