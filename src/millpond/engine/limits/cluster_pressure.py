"""The memory and disk alarms of all nodes: as in RabbitMQ one node's alarm blocks publishers at every node.

A node tells the others when memory or disk run low and when they do not any more, and repeats it while it
lasts. An alarm counts for a while: a node that is silent is taken for stopped, and its alarms end.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from millpond.base.errors import MillpondError
from millpond.base.ids import NodeId
from millpond.base.pressure import DISK, MEMORY, NONE, Pressure
from millpond.engine.cluster.metadata_view import MetadataView
from millpond.engine.cluster.node_info import NodeInfo
from millpond.engine.peers import PeerHandlers, PeerRequest, Peers
from millpond.engine.runtime.runtime import Runtime

log = logging.getLogger(__name__)

_REPEAT_MS = 3_000
_BELIEVED_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TellPressure(PeerRequest[None]):
    """The alarms of a node, sent to every other node. The sender does not wait for an answer."""

    node_id: NodeId
    low_on: tuple[str, ...]


class ClusterPressure:
    """The alarms of this node and of the others, as one."""

    def __init__(
        self,
        on_change: Callable[[Pressure], None],
        *,
        info: NodeInfo,
        metadata: MetadataView,
        peer_handlers: PeerHandlers,
        peers: Peers | None,
        runtime: Runtime,
    ) -> None:
        self._info = info
        self._metadata = metadata
        self._peer_handlers = peer_handlers
        self._peers = peers
        self._runtime = runtime
        self._on_change = on_change
        self._own = NONE
        self._others: dict[NodeId, tuple[tuple[str, ...], int]] = {}
        self._merged = NONE
        self._timer: asyncio.TimerHandle | None = None
        self._peer_handlers.serve(TellPressure, self._on_told)

    def set_own(self, pressure: Pressure) -> None:
        """Return the alarms of this machine."""
        is_news = pressure.low_on != self._own.low_on
        self._own = pressure
        if is_news:
            self._tell()
        self._settle()

    def news(self) -> TellPressure:
        """Return this node's alarms for another node; sending them twice changes nothing."""
        return TellPressure(node_id=self._info.node_id, low_on=self._own.low_on)

    @property
    def own(self) -> Pressure:
        """The alarms of this node."""
        return self._own

    @property
    def alarms(self) -> tuple[tuple[NodeId, str], ...]:
        """Return each node with an alarm and what runs low there, as far as this node was told."""
        found = {node: low_on for node, (low_on, _heard_ms) in self._others.items()}
        if self._own.low_on:
            found[self._info.node_id] = self._own.low_on
        return tuple((node, name) for node in sorted(found) for name in found[node])

    @property
    def reason(self) -> str:
        """Return why publishers are blocked: what runs low, on which nodes. Empty if they are not."""
        low = [f"low on {name} on node {node}" for node, name in self.alarms]
        return f"publishers are blocked: {', '.join(low)}" if low else ""

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _on_told(self, request: TellPressure) -> None:
        node, low_on = request.node_id, request.low_on
        before, _heard_ms = self._others.pop(node, ((), 0))
        if low_on:
            self._others[node] = low_on, self._runtime.clock.monotonic_ms()
        if low_on and low_on != before:
            log.warning("publishers are blocked: low on %s on node %d", _words(low_on), node)
        elif before and not low_on:
            log.warning("node %d is not low on %s any more", node, _words(before))
        self._settle()

    def _settle(self) -> None:
        now_ms = self._runtime.clock.monotonic_ms()
        for node, (low_on, heard_ms) in tuple(self._others.items()):
            if now_ms - heard_ms >= _BELIEVED_MS:
                del self._others[node]
                log.warning(
                    "node %d is silent: its alarm (low on %s) does not count any more",
                    node,
                    _words(low_on),
                )
        low = {name for low_on, _heard_ms in self._others.values() for name in low_on}
        low.update(self._own.low_on)
        names = tuple(name for name in (MEMORY, DISK) if name in low)
        merged = Pressure(low_on=names, is_paging=self._own.is_paging)
        if low and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_REPEAT_MS / 1000, self._turn)
        if merged != self._merged:
            self._merged = merged
            self._on_change(merged)

    def _turn(self) -> None:
        self._timer = None
        if self._own.low_on:
            self._tell()
        self._settle()

    def _tell(self) -> None:
        if self._metadata.is_alone or not self._runtime.running:
            return
        own = self._info.node_id
        for node in self._metadata.image.brokers:
            if node != own:
                name = f"tell node {node} what runs low"
                self._runtime.tasks.spawn(self._tell_one(node), name=name)

    async def _tell_one(self, node: NodeId) -> None:
        peers = self._peers
        if peers is None:
            return
        try:
            await peers.call(node, self.news(), timeout_ms=_REPEAT_MS)
        except MillpondError as error:
            log.debug("node %d was not told what runs low: %s", node, error)


def _words(low_on: tuple[str, ...]) -> str:
    return " & ".join(low_on)
