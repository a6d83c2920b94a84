"""Ends transactions whose outcome is decided: every partition gets its marker, wherever it is led.

Markers for partitions that this node leads are appended here and now; the others are asked for at their
leaders, many in one question (``marker_lines.py``). What fails is tried again a little later, at whoever
leads then, until nothing is missing: the outcome is in the log, and whoever finds it there does the same. A
marker that is written twice says the same twice. An older coordinator's markers are refused by its epoch.
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

# How long until markers that could not be written are tried again.
_RETRY_MS = 1_000


class WriteMarker(Protocol):
    """Ends a producer's transaction in a partition that this node leads."""

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
    """One transaction, and where its markers are missing."""

    __slots__ = ("coordinator_epoch", "known", "missing", "order", "under_way")

    def __init__(self, known: TransactionStored, coordinator_epoch: LeaderEpoch) -> None:
        self.known = known
        self.coordinator_epoch = coordinator_epoch
        self.missing = set(known.partitions)
        self.under_way: set[Place] = set()
        self.order: MarkerOrder | None = None

    def marker(self, places: Sequence[Place]) -> TransactionMarker:
        """What the leader of these partitions is asked to write."""
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

    ``complete`` is called with an id when no marker is missing and says whether that could be written.
    """

    def __init__(
        self, services: CoordinatorServices, write: WriteMarker, complete: Callable[[str], bool]
    ) -> None:
        self._services = services
        self._write = write
        self._complete = complete
        self._endings: dict[str, _Completing] = {}
        self._lines = MarkerQueues(services, self._leader_of)
        # What is tried again when the timer ends, and what was refused since it last did.
        self._again: dict[_Completing, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._refusals: list[str] = []
        self._running = True
        self._services.metadata.observe(self._on_change)

    def begin(self, known: TransactionStored, coordinator_epoch: LeaderEpoch) -> None:
        """Write the markers of a decided transaction, and then say that it is complete."""
        assert known.is_prepared
        if known.transactional_id in self._endings or not self._running:
            return
        ending = self._endings[known.transactional_id] = _Completing(known, coordinator_epoch)
        self._go_on(ending)

    def drop(self, transactional_id: str) -> None:
        """Somebody else ends it now, or nobody has to."""
        ending = self._endings.pop(transactional_id, None)
        if ending is None:
            return
        self._again.pop(ending, None)
        if ending.order is not None:
            self._lines.drop(ending.order)

    def stop(self) -> None:
        """What is not ended is ended by whoever reads the log next."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
        for transactional_id in tuple(self._endings):
            self.drop(transactional_id)

    # --- inside ------------------------------------------------------------------------------------

    def _go_on(self, ending: _Completing) -> None:
        remote: dict[NodeId, list[Place]] = {}
        for place in sorted(ending.missing - ending.under_way):
            leader = self._leader_of(place)
            if leader is None:
                ending.missing.discard(place)  # deleted, and with it what was written there
            elif leader == self._services.info.node_id or self._services.peers is None:
                self._mark_here(ending, place)
            elif leader >= 0:
                remote.setdefault(leader, []).append(place)
        for node, places in remote.items():
            self._send(ending, node, places)
        self._see(ending)

    def _send(self, ending: _Completing, node: NodeId, places: list[Place]) -> None:
        if ending.order is None:
            ending.order = MarkerOrder(
                ending.marker,
                partial(self._on_result, ending),
                partial(self._on_elsewhere, ending),
            )
        try:
            self._lines.send(node, ending.order, places)
        except ShuttingDown:
            return
        ending.under_way.update(places)

    def _see(self, ending: _Completing) -> None:
        """After each piece of news: is it complete, or has something to be tried again?"""
        if not self._is_current(ending):
            return
        if not ending.missing and self._complete(ending.known.transactional_id):
            self.drop(ending.known.transactional_id)
        elif not ending.missing <= ending.under_way or not ending.missing:
            self._plan(ending)

    def _plan(self, ending: _Completing) -> None:
        if not self._running:
            return
        self._again[ending] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_RETRY_MS / 1000, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self._complain()
        again, self._again = self._again, {}
        for ending in again:
            if not self._is_current(ending):
                continue
            try:
                self._go_on(ending)
            except Exception:  # a mistake with one must not leave the others without an end
                log.exception("transaction=%s: its end failed", ending.known.transactional_id)
                self._plan(ending)

    def _complain(self) -> None:
        refusals, self._refusals = self._refusals, []
        if refusals:
            log.warning(
                "transactions: %d markers could not be written and are tried again; the first: %s",
                len(refusals),
                refusals[0],
            )

    def _on_change(self, before: Image, after: Image) -> None:
        if self._endings and before.topics is not after.topics:
            self._lines.on_change()

    def _is_current(self, ending: _Completing) -> bool:
        return self._endings.get(ending.known.transactional_id) is ending

    def _leader_of(self, place: Place) -> NodeId | None:
        """Who leads a partition (-1: nobody now); None if there is no such partition."""
        topic = self._services.metadata.image.topics.get(place[0])
        if topic is None or not 0 <= place[1] < len(topic.partitions):
            return None
        return topic.partitions[place[1]].leader

    # --- here --------------------------------------------------------------------------------------

    def _mark_here(self, ending: _Completing, place: Place) -> None:
        known = ending.known
        try:
            durable = self._write(
                place,
                producer_id=known.producer_id,
                producer_epoch=known.producer_epoch,
                committed=commits(known),
                coordinator_epoch=ending.coordinator_epoch,
            )
        except MillpondError as error:
            self._refused(ending, place, error)
            return
        if durable is None:
            ending.missing.discard(place)
            return
        ending.under_way.add(place)
        when_durable(durable, partial(self._on_result, ending, place))

    # --- elsewhere ---------------------------------------------------------------------------------

    def _on_result(self, ending: _Completing, place: Place, refusal: MillpondError | None) -> None:
        ending.under_way.discard(place)
        if refusal is None:
            ending.missing.discard(place)
        else:
            self._refused(ending, place, refusal)
        self._see(ending)

    def _on_elsewhere(self, ending: _Completing, places: Sequence[Place]) -> None:
        ending.under_way.difference_update(places)
        if self._is_current(ending):
            self._go_on(ending)

    def _refused(self, ending: _Completing, place: Place, error: MillpondError) -> None:
        what = (
            f"transaction={ending.known.transactional_id} partition={place[0]}-{place[1]}: {error}"
        )
        if isinstance(error, ProducerFenced):
            ending.missing.discard(place)
            log.warning("%s: no marker is needed", what)
        elif isinstance(error, UnknownTopic) and self._leader_of(place) is None:
            ending.missing.discard(place)
        else:
            self._refusals.append(what)
