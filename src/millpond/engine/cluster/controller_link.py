"""Sends requests to the controller: to this node's own handlers, or to a peer.

The controller may change at any moment, so a request is sent again, to the leader of that time, until it is
answered or its time is up. A request to a node that leads no longer is not waited for: that node may be cut
off or stopped. A request may have been carried out already when it is sent again: each request of
``engine/peers.py`` that goes here allows that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from millpond.base import limits
from millpond.base.errors import MillpondError, NotController, PeerUnreachable, RequestTimedOut
from millpond.base.ids import NodeId
from millpond.engine.peers import PeerHandlers, PeerRequest, Peers

AnswerT = TypeVar("AnswerT")

_TRY_AGAIN = (NotController, PeerUnreachable, RequestTimedOut)


class ControllerLink:
    """``leader`` returns the leader of the quorum, as far as this node knows; ``leader_changed`` waits
    until it is another than the given one.
    """

    def __init__(
        self,
        node_id: NodeId,
        handlers: PeerHandlers,
        peers: Peers | None,
        leader: Callable[[], NodeId | None],
        leader_changed: Callable[[NodeId | None], Awaitable[None]],
    ) -> None:
        self._node_id = node_id
        self._handlers = handlers
        self._peers = peers
        self._leader = leader
        self._leader_changed = leader_changed

    async def call(
        self,
        request: PeerRequest[AnswerT],
        *,
        timeout_ms: int = limits.CONTROLLER_WAIT_MS_MAX,
        attempt_ms: int | None = None,
    ) -> AnswerT:
        """Return the controller's answer. Raises what it refuses with, or ``NotController`` or
        ``PeerUnreachable`` if there is none in time. A controller that does not answer within ``attempt_ms``
        may be deposed, so the present one is asked then.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        pause_ms = limits.CONTROLLER_RETRY_MS_MIN
        while True:
            left_ms = max(1, round((deadline - loop.time()) * 1000))
            try:
                return await self._try(request, min(left_ms, attempt_ms or left_ms))
            except _TRY_AGAIN as refused:
                if loop.time() + pause_ms / 1000 >= deadline:
                    raise _late(request, timeout_ms, refused) from refused
            if await self._pause(pause_ms):
                # A new leader needs a moment before it decides.
                pause_ms = limits.CONTROLLER_RETRY_MS_MIN
            else:
                pause_ms = min(2 * pause_ms, limits.CONTROLLER_RETRY_MS_MAX)

    async def _try(self, request: PeerRequest[AnswerT], timeout_ms: int) -> AnswerT:
        leader = self._leader()
        if leader == self._node_id:
            return await self._handlers.answer(request)
        if leader is None:
            raise NotController("no controller is known")
        if self._peers is None:
            raise PeerUnreachable(f"node {leader} is the controller, and this node has no peers")
        return await self._ask(leader, self._peers, request, timeout_ms)

    async def _ask(
        self, leader: NodeId, peers: Peers, request: PeerRequest[AnswerT], timeout_ms: int
    ) -> AnswerT:
        """Return the leader's answer, unless another node becomes leader before it arrives."""
        asking = asyncio.ensure_future(peers.call(leader, request, timeout_ms=timeout_ms))
        moving = asyncio.ensure_future(self._leader_changed(leader))
        try:
            await asyncio.wait([asking, moving], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            moving.result()
        finally:
            asking.cancel()
            _drop(moving)
        raise NotController(f"node {leader} leads no longer")

    async def _pause(self, pause_ms: int) -> bool:
        """Wait for so long, or until another node leads. Return whether one does."""
        moving = asyncio.ensure_future(self._leader_changed(self._leader()))
        try:
            await asyncio.wait([moving], timeout=pause_ms / 1000)
            if moving.done():
                moving.result()
                return True
        finally:
            _drop(moving)
        return False


def _drop(task: "asyncio.Future[None]") -> None:
    """Cancel a request; if it has failed meanwhile, raise the same error."""
    task.cancel()
    if task.done() and not task.cancelled():
        task.exception()


def _late(request: PeerRequest[AnswerT], timeout_ms: int, last: MillpondError) -> MillpondError:
    return type(last)(
        f"the controller did not answer {type(request).__name__} within {timeout_ms} ms: {last}"
    )
