"""Sends transaction markers to other nodes: one queue for each node, with one request in flight.

Markers that arrive while a request is in flight go together with the next one. A node that cannot be reached
is tried again after a growing delay; markers wait in its queue unless another node becomes the leader of
their partition.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from millpond.base.errors import MillpondError, PeerUnreachable, ShuttingDown
from millpond.base.ids import NodeId, TopicPartition
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.peers import TransactionMarker, WriteMarkers
from millpond.txn.records import Place

log = logging.getLogger(__name__)

_ASK_TIMEOUT_MS = 10_000

# Transactions whose markers one request carries.
_AT_ONCE_MAX = 500

# The first and the longest delay after a node could not be reached.
_PAUSE_MS_MIN = 500
_PAUSE_MS_MAX = 10_000


class MarkerOrder:
    """The markers of one transaction.

    ``marker`` makes the marker for some of its partitions; ``on_result`` is called with each partition and
    why its marker was not written (None if it was), ``on_elsewhere`` with the partitions that other nodes
    lead.
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
    """The markers that wait for one node."""

    def __init__(self) -> None:
        self.waiting: dict[MarkerOrder, list[Place]] = {}
        self.task: asyncio.Task[None] | None = None
        self.pause_ms = 0
        self.arrived = asyncio.Event()


class MarkerQueues:
    """The queues of this node. ``leader_of`` returns the leader of a partition."""

    def __init__(
        self, services: CoordinatorServices, leader_of: Callable[[Place], NodeId | None]
    ) -> None:
        self._services = services
        self._leader_of = leader_of
        self._queues: dict[NodeId, _MarkerQueue] = {}

    def send(self, node: NodeId, order: MarkerOrder, places: Sequence[Place]) -> None:
        """Send markers to the leader of their partitions. Raises ``ShuttingDown``."""
        queue = self._queues.setdefault(node, _MarkerQueue())
        if queue.task is None or queue.task.done():
            queue.task = self._services.runtime.tasks.spawn(
                self._run(node, queue), name=f"markers to {node}"
            )
        queue.waiting.setdefault(order, []).extend(places)
        queue.arrived.set()

    def drop(self, order: MarkerOrder) -> None:
        """Remove the markers of a transaction from all queues; a request in flight goes on."""
        for queue in self._queues.values():
            queue.waiting.pop(order, None)

    def on_change(self) -> None:
        """Give back markers whose partitions have another leader now."""
        for node, queue in tuple(self._queues.items()):
            self._sort_out(node, queue)

    # --- inside ------------------------------------------------------------------------------------

    async def _run(self, node: NodeId, queue: _MarkerQueue) -> None:
        while True:
            if not queue.waiting:
                queue.arrived.clear()
                await queue.arrived.wait()
            self._sort_out(node, queue)
            orders = dict(list(queue.waiting.items())[:_AT_ONCE_MAX])
            if not orders:
                continue
            for order in orders:
                del queue.waiting[order]
            failure = await self._ask(node, orders)
            if failure is None:
                queue.pause_ms = 0
                continue
            if not queue.pause_ms:
                log.warning(
                    "node=%d: markers of %d transactions could not be sent; trying again: %s",
                    node,
                    len(orders) + len(queue.waiting),
                    failure,
                )
            queue.pause_ms = min(max(_PAUSE_MS_MIN, 2 * queue.pause_ms), _PAUSE_MS_MAX)
            for order, places in orders.items():
                queue.waiting.setdefault(order, []).extend(places)
            await asyncio.sleep(queue.pause_ms / 1000)

    def _sort_out(self, node: NodeId, queue: _MarkerQueue) -> None:
        """Give back the markers of partitions that the node does not lead."""
        for order, places in tuple(queue.waiting.items()):
            elsewhere = [place for place in places if self._leader_of(place) != node]
            if not elsewhere:
                continue
            here = [place for place in places if place not in elsewhere]
            if here:
                queue.waiting[order] = here
            else:
                del queue.waiting[order]
            order.on_elsewhere(elsewhere)

    async def _ask(
        self, node: NodeId, orders: dict[MarkerOrder, list[Place]]
    ) -> MillpondError | None:
        """Send one request. Return why the node could not be reached, or None."""
        peers = self._services.peers
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
        missing = PeerUnreachable(f"node {node} did not answer for this partition")
        for number, (order, places) in enumerate(orders.items()):
            results = answers[number] if number < len(answers) else {}
            for place in places:
                order.on_result(place, results.get(TopicPartition(*place), missing))
        return None
