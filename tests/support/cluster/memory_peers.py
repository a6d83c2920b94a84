"""Nodes in one process that ask each other by plain calls: ``Peers`` without sockets.

``network = MemoryNetwork()``; each engine is made with ``peers=network.peers_of(id)`` and made known with
``network.join(id, engine)``. A node that has left, or was cut off, cannot be reached.
"""

import asyncio
from typing import Any, TypeVar, cast

from millpond.base.errors import PeerGone, PeerUnreachable
from millpond.base.ids import NodeId
from millpond.engine.node.node import Node
from millpond.engine.peers import PeerRequest
from millpond.raft.messages import Answer, Request

AnswerT = TypeVar("AnswerT")

_DELAY_S = 0.001


class MemoryNetwork:
    """Who can reach whom."""

    def __init__(self) -> None:
        self.engines: dict[NodeId, Node] = {}
        # Pairs (asker, asked) whose messages are lost.
        self.cut: set[tuple[NodeId, NodeId]] = set()
        # Kinds of requests of single nodes that reach no other node.
        self.refused: set[tuple[NodeId, type]] = set()

    def peers_of(self, node: NodeId) -> "MemoryPeers":
        """The way out of a node."""
        return MemoryPeers(self, node)

    def join(self, node: NodeId, engine: Node) -> None:
        """The node can be asked from now on."""
        self.engines[node] = engine

    def leave(self, node: NodeId) -> None:
        """The node cannot be asked any more."""
        self.engines.pop(node, None)

    def number_of(self, asker: NodeId, to: NodeId) -> NodeId:
        """Who is meant: one that is known by its address only has a number that is none."""
        address = self.engines[asker].metadata.address_of(to) if to < -1 else None
        return to if address is None else int(address[0].removeprefix("node"))

    def isolate(self, node: NodeId) -> None:
        """The node hears nobody and is heard by nobody."""
        for other in self.engines:
            self.cut |= {(node, other), (other, node)}


class MemoryPeers:
    """The other nodes as one of them sees them."""

    def __init__(self, network: MemoryNetwork, own: NodeId) -> None:
        self._network = network
        self._own = own

    async def call(self, to: NodeId, request: PeerRequest[AnswerT], *, timeout_ms: int) -> AnswerT:
        return cast("AnswerT", await self._ask(to, request, timeout_ms))

    async def ask_quorum(
        self, to: NodeId, request: Request, *, timeout_ms: int, leave_by_ms: int | None = None
    ) -> Answer:
        return cast("Answer", await self._ask(to, request, timeout_ms))

    async def until_gone(self, node: NodeId) -> bool:
        """``NodeWatch``: a node that left is gone; one that is cut off is not."""
        engine = self._network.engines.get(node)
        while engine is not None and self._network.engines.get(node) is engine:
            await asyncio.sleep(0.1)
        return engine is not None

    async def is_gone(self, node: NodeId) -> bool:
        """``NodeWatch``: whether it has left."""
        return node not in self._network.engines

    async def _ask(self, to: NodeId, request: Any, timeout_ms: int) -> Any:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._there_and_back(to, request)
        except TimeoutError:
            raise PeerUnreachable(f"node {to} did not answer") from None

    async def _there_and_back(self, to: NodeId, request: Any) -> Any:
        await asyncio.sleep(_DELAY_S)
        to = self._network.number_of(self._own, to)
        if (self._own, type(request)) in self._network.refused:
            raise PeerUnreachable(f"{type(request).__name__} does not reach node {to}")
        engine = self._network.engines.get(to)
        if engine is None:
            raise PeerGone(f"node {to} is not there")
        await self._pass(self._own, to)
        answer = await engine.peer_handlers.answer(request)
        await asyncio.sleep(_DELAY_S)
        await self._pass(to, self._own)
        return answer

    async def _pass(self, sender: NodeId, to: NodeId) -> None:
        if (sender, to) in self._network.cut:
            await asyncio.Event().wait()
