"""Completes transactions whose outcome is decided: every partition gets its marker, wherever it is led.

This node appends the markers of partitions that it leads; other leaders are asked to, for many markers in one
request (``marker_queues.py``). A marker that could not be written is tried again a little later, at the
leader of that time, until none is missing. The outcome is in the log, so another coordinator that loads it
does the same. Writing a marker twice changes nothing; markers of an older coordinator are refused by its
epoch.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from millpond.base.errors import MillpondError, ProducerFenced, ShuttingDown, UnknownTopic
from millpond.base.ids import LeaderEpoch, NodeId, TopicPartition
from millpond.engine.coordinators.durable import Durable, when_durable
from millpond.engine.coordinators.marker_queues import MarkerOrder, MarkerQueues
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.peers import TransactionMarker
from millpond.metadata.image import Image
from millpond.txn.coordinator import commits
from millpond.txn.records import Place, TransactionStored

log = logging.getLogger(__name__)

# The delay before markers that could not be written are tried again.
_RETRY_MS = 1_000


class WriteMarker(Protocol):
    """Writes the marker of a producer's transaction to a partition that this node leads."""

    def __call__(
        self,
        place: Place,
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
    ) -> Durable: ...


class _Completing:
    """One transaction, and the partitions where its marker is missing."""

    __slots__ = ("coordinator_epoch", "known", "missing", "order", "under_way")

    def __init__(self, known: TransactionStored, coordinator_epoch: LeaderEpoch) -> None:
        self.known = known
        self.coordinator_epoch = coordinator_epoch
        self.missing = set(known.partitions)
        self.under_way: set[Place] = set()
        self.order: MarkerOrder | None = None

    def marker(self, places: Sequence[Place]) -> TransactionMarker:
        """Return the marker that the leader of these partitions is asked to write."""
        known = self.known
        return TransactionMarker(
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            committed=commits(known),
            partitions=tuple(TopicPartition(*place) for place in places),
            version=known.client_version,
        )


class TxnCompletion:
    """The decided transactions of this node.

    ``complete`` is called with an id when no marker is missing, and returns whether it could write that.
    """

    def __init__(
        self, services: CoordinatorServices, write: WriteMarker, complete: Callable[[str], bool]
    ) -> None:
        self._services = services
        self._write = write
        self._complete = complete
        self._transactions: dict[str, _Completing] = {}
        self._queues = MarkerQueues(services, self._leader_of)
        # What is tried again when the timer fires, and what was refused since it last did.
        self._again: dict[_Completing, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._refusals: list[str] = []
        self._running = True
        self._services.metadata.observe(self._on_change)

    def begin(self, known: TransactionStored, coordinator_epoch: LeaderEpoch) -> None:
        """Write the markers of a decided transaction, and then that it is complete."""
        assert known.is_prepared
        if known.transactional_id in self._transactions or not self._running:
            return
        one = self._transactions[known.transactional_id] = _Completing(known, coordinator_epoch)
        self._go_on(one)

    def drop(self, transactional_id: str) -> None:
        """Stop completing a transaction: another node does, or it is complete."""
        one = self._transactions.pop(transactional_id, None)
        if one is None:
            return
        self._again.pop(one, None)
        if one.order is not None:
            self._queues.drop(one.order)

    def stop(self) -> None:
        """Leave what is not complete to the next coordinator that loads it."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
        for transactional_id in tuple(self._transactions):
            self.drop(transactional_id)

    # --- inside ------------------------------------------------------------------------------------

    def _go_on(self, one: _Completing) -> None:
        remote: dict[NodeId, list[Place]] = {}
        for place in sorted(one.missing - one.under_way):
            leader = self._leader_of(place)
            if leader is None:
                one.missing.discard(place)  # the partition was deleted with its data
            elif leader == self._services.info.node_id or self._services.peers is None:
                self._mark_here(one, place)
            elif leader >= 0:
                remote.setdefault(leader, []).append(place)
        for node, places in remote.items():
            self._send(one, node, places)
        self._see(one)

    def _send(self, one: _Completing, node: NodeId, places: list[Place]) -> None:
        if one.order is None:
            one.order = MarkerOrder(
                one.marker,
                partial(self._on_result, one),
                partial(self._on_elsewhere, one),
            )
        try:
            self._queues.send(node, one.order, places)
        except ShuttingDown:
            return
        one.under_way.update(places)

    def _see(self, one: _Completing) -> None:
        """After each result: complete the transaction, or plan to try missing markers again."""
        if not self._is_current(one):
            return
        if not one.missing and self._complete(one.known.transactional_id):
            self.drop(one.known.transactional_id)
        elif not one.missing <= one.under_way or not one.missing:
            self._plan(one)

    def _plan(self, one: _Completing) -> None:
        if not self._running:
            return
        self._again[one] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_RETRY_MS / 1000, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self._complain()
        again, self._again = self._again, {}
        for one in again:
            if not self._is_current(one):
                continue
            try:
                self._go_on(one)
            except Exception:  # a defect in one must not keep the others open
                log.exception(
                    "transaction=%s: it could not be completed", one.known.transactional_id
                )
                self._plan(one)

    def _complain(self) -> None:
        refusals, self._refusals = self._refusals, []
        if refusals:
            log.warning(
                "transactions: %d markers could not be written and are tried again; the first: %s",
                len(refusals),
                refusals[0],
            )

    def _on_change(self, before: Image, after: Image) -> None:
        if self._transactions and before.topics is not after.topics:
            self._queues.on_change()

    def _is_current(self, one: _Completing) -> bool:
        return self._transactions.get(one.known.transactional_id) is one

    def _leader_of(self, place: Place) -> NodeId | None:
        """Return the leader of a partition (-1: none now); None if there is no such partition."""
        topic = self._services.metadata.image.topics.get(place[0])
        if topic is None or not 0 <= place[1] < len(topic.partitions):
            return None
        return topic.partitions[place[1]].leader

    # --- here --------------------------------------------------------------------------------------

    def _mark_here(self, one: _Completing, place: Place) -> None:
        known = one.known
        try:
            durable = self._write(
                place,
                producer_id=known.producer_id,
                producer_epoch=known.producer_epoch,
                committed=commits(known),
                coordinator_epoch=one.coordinator_epoch,
            )
        except MillpondError as error:
            self._refused(one, place, error)
            return
        if durable is None:
            one.missing.discard(place)
            return
        one.under_way.add(place)
        when_durable(durable, partial(self._on_result, one, place))

    # --- elsewhere ---------------------------------------------------------------------------------

    def _on_result(self, one: _Completing, place: Place, refusal: MillpondError | None) -> None:
        one.under_way.discard(place)
        if refusal is None:
            one.missing.discard(place)
        else:
            self._refused(one, place, refusal)
        self._see(one)

    def _on_elsewhere(self, one: _Completing, places: Sequence[Place]) -> None:
        one.under_way.difference_update(places)
        if self._is_current(one):
            self._go_on(one)

    def _refused(self, one: _Completing, place: Place, error: MillpondError) -> None:
        what = f"transaction={one.known.transactional_id} partition={place[0]}-{place[1]}: {error}"
        if isinstance(error, ProducerFenced):
            one.missing.discard(place)
            log.warning("%s: no marker is needed", what)
        elif isinstance(error, UnknownTopic) and self._leader_of(place) is None:
            one.missing.discard(place)
        else:
            self._refusals.append(what)
