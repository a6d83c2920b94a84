"""How this node reaches the host of queues: straight, or, when the two have lost each other, by way of a
third node that reaches both.

A node that is cut off from the majority leads nothing soon, so its queues move. Two nodes that have lost only
each other both go on, and so do their clients: what one has to say to the other is passed on by a third.
Requests about queues are numbered, so one that was not answered is repeated on another way without harm
(``queue_link.py``). The straight way is tried again now and then.
"""

import asyncio
import logging
from typing import Any, TypeVar

from millpond.base import limits
from millpond.base.errors import MillpondError, PeerGone, PeerUnreachable, ShuttingDown
from millpond.base.ids import NodeId
from millpond.engine.peers import PeerRequest, Peers
from millpond.engine.queues.peer_requests import (
    CollectEvents,
    RelayCollect,
    RelayQueueRequests,
    SendQueueRequests,
)
from millpond.engine.queues.remote.queue_messages import QueueEvent
from millpond.engine.queues.services import QueueServices
from millpond.metadata.features import knows_relayed_queues

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")

# Requests are numbered from 0 on.
_NO_NUMBER = -1


class HostRoute:
    """The way to one node. ``via`` is the node that passes everything on; None if the way is straight."""

    def __init__(self, engine: QueueServices, node: NodeId) -> None:
        self._engine = engine
        self._node = node
        self.via: NodeId | None = None
        # Done when the way has changed: what waits for an answer on the old one is asked again.
        self._changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tried_straight_ms = 0

    async def send(self, requests: SendQueueRequests) -> None:
        """Raises ``PeerUnreachable`` if no way leads there, or what the host refuses with."""
        await self._ask(requests, RelayQueueRequests(to=self._node, requests=requests), wait_ms=0)

    async def collect(self, collect: CollectEvents) -> tuple[QueueEvent, ...]:
        """Raises as ``send`` does."""
        relay = RelayCollect(to=self._node, collect=collect)
        events = await self._ask(collect, relay, wait_ms=collect.wait_ms)
        if self.via is not None:
            self._try_straight(collect)
        return events

    async def _ask(
        self, straight: PeerRequest[AnswerT], relayed: PeerRequest[AnswerT], *, wait_ms: int
    ) -> AnswerT:
        """The answer, by the way in use; if that fails, by the first other one that works."""
        tried: set[NodeId | None] = set()
        failure: PeerUnreachable | None = None
        while untried := [way for way in self.ways() if way not in tried]:
            way = untried[0]
            tried.add(way)
            try:
                answer = await self._try(way, straight if way is None else relayed, wait_ms)
            except _RouteChanged:
                tried.discard(self.via)
            except PeerUnreachable as error:
                if way is None and isinstance(error, PeerGone):
                    raise  # its process has ended: no other node reaches it
                failure = failure or error
            else:
                if way != self.via:
                    self._take(way)
                return answer
        raise failure or PeerUnreachable(f"no way leads to node {self._node}")

    def ways(self) -> list[NodeId | None]:
        """In the order in which they are to be tried."""
        engine = self._engine
        host = engine.metadata.image.brokers.get(self._node)
        # Nodes of an older release do not know what to do with it, neither as the third nor as the host.
        thirds = (
            [
                one.broker_id
                for one in engine.metadata.image.serving_brokers
                if knows_relayed_queues(one)
            ]
            if host is not None and knows_relayed_queues(host)
            else []
        )
        # The controller has heard from every node lately.
        thirds.sort(key=lambda one: (one != engine.metadata.quorum.leader_id, one))
        unfit = {engine.info.node_id, self._node, self.via}
        others = [one for one in thirds if one not in unfit][: limits.QUEUE_DETOURS_MAX]
        return [self.via, *([None] if self.via is not None else []), *others]

    async def _try(
        self, way: NodeId | None, request: PeerRequest[AnswerT], wait_ms: int
    ) -> AnswerT:
        """Raises ``_RouteChanged`` if this was the way in use and is not any more."""
        timeout_ms = wait_ms + limits.QUEUE_WAY_ANSWER_MS_MAX * (1 if way is None else 2)
        call = _peers(self._engine).call(
            self._node if way is None else way, request, timeout_ms=timeout_ms
        )
        if way != self.via:
            return await call
        asking, changed = asyncio.ensure_future(call), self._changed
        both: list[asyncio.Future[Any]] = [asking, changed]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
        raise _RouteChanged

    def _take(self, way: NodeId | None) -> None:
        self.via = way
        self._tried_straight_ms = self._engine.runtime.clock.monotonic_ms()
        if way is None:
            log.info("queues of node %d are reached straight again", self._node)
        else:
            log.warning(
                "queues of node %d are out of reach; node %d passes on what clients here want of them",
                self._node,
                way,
            )
        changed, self._changed = self._changed, asyncio.get_running_loop().create_future()
        changed.set_result(None)

    def _try_straight(self, collect: CollectEvents) -> None:
        """Look whether the straight way leads there again."""
        now_ms = self._engine.runtime.clock.monotonic_ms()
        if now_ms - self._tried_straight_ms < limits.QUEUE_STRAIGHT_RETRY_MS:
            return
        self._tried_straight_ms = now_ms
        try:
            self._engine.runtime.tasks.spawn(
                self._look_straight(look_for(collect)), name=f"way to node {self._node}"
            )
        except ShuttingDown:
            return

    async def _look_straight(self, said: SendQueueRequests) -> None:
        timeout_ms = limits.QUEUE_WAY_ANSWER_MS_MAX
        try:
            await _peers(self._engine).call(self._node, said, timeout_ms=timeout_ms)
        except (PeerUnreachable, ShuttingDown):
            return
        except MillpondError as error:
            # It was reached, and has no such session any more: the next request is told so.
            log.debug("node %d is reached and answers: %s", self._node, error)
        if self.via is not None:
            self._take(None)


def look_for(collect: CollectEvents) -> SendQueueRequests:
    """A request that changes nothing at the host: its number is below every other, so a host that has the
    session takes it for one that it has had, and one that has not begins none.
    """
    return SendQueueRequests(
        node_id=collect.node_id,
        life=collect.life,
        session=collect.session,
        number=_NO_NUMBER,
        requests=(),
    )


class Relay:
    """Passes on what two other nodes have to say to each other about queues."""

    def __init__(self, engine: QueueServices) -> None:
        self._engine = engine
        engine.peer_handlers.serve(RelayQueueRequests, self._on_requests)
        engine.peer_handlers.serve(RelayCollect, self._on_collect)

    async def _on_requests(self, request: RelayQueueRequests) -> None:
        await self._pass_on(request.to, request, request.requests, wait_ms=0)

    async def _on_collect(self, request: RelayCollect) -> tuple[QueueEvent, ...]:
        collect = request.collect
        return await self._pass_on(request.to, request, collect, wait_ms=collect.wait_ms)

    async def _pass_on(
        self,
        to: NodeId,
        relayed: PeerRequest[AnswerT],
        inner: PeerRequest[AnswerT],
        *,
        wait_ms: int,
    ) -> AnswerT:
        """It goes on as it came, to its end, so that it does not wait behind what this node has to say."""
        if to == self._engine.info.node_id:
            return await self._engine.peer_handlers.answer(inner)
        timeout_ms = wait_ms + limits.QUEUE_WAY_ANSWER_MS_MAX
        return await _peers(self._engine).call(to, relayed, timeout_ms=timeout_ms)


class _RouteChanged(Exception):
    """Another request has found a way that works while an answer was awaited on the old one."""


def _peers(engine: QueueServices) -> Peers:
    if engine.peers is None:
        raise ShuttingDown("this node has no peers")
    return engine.peers
