"""Markers on their way to other nodes: one line for each node, one question under way in each.

What comes while a question is under way goes with the next one, together. A node that cannot be asked is
tried again after a pause that grows; whoever stands in its line waits there, unless somebody else leads the
partition by then.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from millpond.base.errors import MillpondError, PeerUnreachable, ShuttingDown
from millpond.base.ids import NodeId, TopicPartition
from millpond.engine.peers import TransactionMarker, WriteMarkers
from millpond.txn.records import Place

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

log = logging.getLogger(__name__)

_ASK_TIMEOUT_MS = 10_000

# Transactions that one question ends.
_AT_ONCE_MAX = 500

# After a node could not be asked: at first, and at most.
_PAUSE_MS_MIN = 500
_PAUSE_MS_MAX = 10_000


class MarkerOrder:
    """The end of one transaction. ``marker`` makes the marker for some of its partitions; ``on_result`` is
    told of each whether it was written, ``on_elsewhere`` of those that have to be sent to another node.
    """

    __slots__ = ("marker", "on_elsewhere", "on_result")

    def __init__(
        self,
        marker: Callable[[Sequence[Place]], TransactionMarker],
        on_result: Callable[[Place, MillpondError | None], None],
        on_elsewhere: Callable[[Sequence[Place]], None],
    ) -> None:
        self.marker = marker
        self.on_result = on_result
        self.on_elsewhere = on_elsewhere


class _MarkerQueue:
    """What one node is to be asked."""

    def __init__(self) -> None:
        self.waiting: dict[MarkerOrder, list[Place]] = {}
        self.task: asyncio.Task[None] | None = None
        self.pause_ms = 0
        self.look_up = asyncio.Event()


class MarkerQueues:
    """The lines of this node. ``leader_of`` says who leads a partition now."""

    def __init__(self, engine: "Engine", leader_of: Callable[[Place], NodeId | None]) -> None:
        self._engine = engine
        self._leader_of = leader_of
        self._lines: dict[NodeId, _MarkerQueue] = {}

    def send(self, node: NodeId, order: MarkerOrder, places: Sequence[Place]) -> None:
        """Have these markers written by their leader. Raises ``ShuttingDown``."""
        line = self._lines.setdefault(node, _MarkerQueue())
        if line.task is None or line.task.done():
            line.task = self._engine.tasks.spawn(self._run(node, line), name=f"markers to {node}")
        line.waiting.setdefault(order, []).extend(places)
        line.look_up.set()

    def drop(self, order: MarkerOrder) -> None:
        """Nobody wants them any more; what is under way is under way."""
        for line in self._lines.values():
            line.waiting.pop(order, None)

    def on_change(self) -> None:
        """Leaders have changed: who stands in a line may have to go to another."""
        for node, line in tuple(self._lines.items()):
            self._sort_out(node, line)

    # --- inside ------------------------------------------------------------------------------------

    async def _run(self, node: NodeId, line: _MarkerQueue) -> None:
        while True:
            if not line.waiting:
                line.look_up.clear()
                await line.look_up.wait()
            self._sort_out(node, line)
            orders = dict(list(line.waiting.items())[:_AT_ONCE_MAX])
            if not orders:
                continue
            for order in orders:
                del line.waiting[order]
            failure = await self._ask(node, orders)
            if failure is None:
                line.pause_ms = 0
                continue
            if not line.pause_ms:
                log.warning(
                    "node=%d: markers of %d transactions could not be sent; trying again: %s",
                    node,
                    len(orders) + len(line.waiting),
                    failure,
                )
            line.pause_ms = min(max(_PAUSE_MS_MIN, 2 * line.pause_ms), _PAUSE_MS_MAX)
            for order, places in orders.items():
                line.waiting.setdefault(order, []).extend(places)
            await asyncio.sleep(line.pause_ms / 1000)

    def _sort_out(self, node: NodeId, line: _MarkerQueue) -> None:
        """Give back what this node does not lead."""
        for order, places in tuple(line.waiting.items()):
            elsewhere = [place for place in places if self._leader_of(place) != node]
            if not elsewhere:
                continue
            here = [place for place in places if place not in elsewhere]
            if here:
                line.waiting[order] = here
            else:
                del line.waiting[order]
            order.on_elsewhere(elsewhere)

    async def _ask(
        self, node: NodeId, orders: dict[MarkerOrder, list[Place]]
    ) -> MillpondError | None:
        """Why the node could not be asked, or nothing."""
        peers = self._engine.peers
        assert peers is not None
        markers = tuple(order.marker(places) for order, places in orders.items())
        try:
            answers = await peers.call(
                node, WriteMarkers(markers=markers), timeout_ms=_ASK_TIMEOUT_MS
            )
        except ShuttingDown:
            raise
        except MillpondError as error:
            return error
        missing = PeerUnreachable(f"node {node} says nothing of it")
        for number, (order, places) in enumerate(orders.items()):
            results = answers[number] if number < len(answers) else {}
            for place in places:
                order.on_result(place, results.get(TopicPartition(*place), missing))
        return None
