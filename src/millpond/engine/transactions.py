"""Hosts the transactions of this node: decide, append, apply, write the markers, answer.

The state machine is ``txn.coordinator``; its facts live in ``__transaction_state``, one partition for each
transactional id by the hash of its name. A transaction whose outcome is in the log is *finished* here: every
partition gets a marker, then the fact that it is complete. With the flush policy ``os`` all of that has
happened when a verb returns; with ``group`` the markers wait for the flush of the outcome, and the
completion for the flush of the markers. What a crash or a full disk interrupts is done again, from the
outcome alone: at the start, or a little later.

At the start this node also looks for transactions that partitions hold open and nobody coordinates (a
machine that lost power may have kept the data and lost the fact), and aborts them, so that no reader of
committed data waits for ever.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from millpond.base.errors import (
    BatchTooLarge,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTransactionState,
    MalformedData,
    MillpondError,
    NotCoordinator,
    NotEnoughReplicas,
    OutOfOrderSequence,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdMissing,
    TransactionFenced,
    TransactionNotFound,
    UnknownTopic,
)
from millpond.engine.facts import stored_batches
from millpond.group.offsets import partition_for
from millpond.log.producer_state import Producer
from millpond.metadata.controller import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from millpond.metadata.image import Image
from millpond.record.batch import BatchHeader
from millpond.record.builder import build_batch
from millpond.record.control import EndTxnMarker
from millpond.replication.partition import Partition
from millpond.txn import records
from millpond.txn.coordinator import Coordinator, commits
from millpond.txn.messages import (
    AbortOverdue,
    AddPartitions,
    Command,
    EndTransaction,
    ForgetIdle,
    Identity,
    InitProducer,
    MarkersWritten,
    NeedsProducerId,
    TransactionSettings,
)
from millpond.txn.records import Place, Status, TransactionRecord, TransactionStored

if TYPE_CHECKING:
    from millpond.engine.api import Engine

__all__ = [
    "AddPartitions",
    "EndTransaction",
    "Identity",
    "InitProducer",
    "NeedsProducerId",
    "Place",
    "Status",
    "TransactionStored",
    "Transactions",
]

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")
Durable: TypeAlias = "asyncio.Future[None] | None"

# From these versions on a client knows the error that lets it abort and go on, and need not announce the
# partitions it writes to (KIP-890).
PRODUCE_KNOWS_ABORTABLE_FROM = 11
PRODUCE_JOINS_FROM = 12
COMMIT_KNOWS_ABORTABLE_FROM = 4
COMMIT_JOINS_FROM = 5

# How long until markers that could not be written are tried again.
_RETRY_MS = 1_000


class Transactions:
    """The transactional ids this node coordinates: all of them, as it is alone."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._coordinator = Coordinator(TransactionSettings())
        self._finishing: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running = False

    # --- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the facts back, finish what was decided, begin to watch the clock. Groups have started."""
        setting = self._engine.broker_setting
        self._coordinator = Coordinator(
            TransactionSettings(
                timeout_ms_max=setting("transaction.max.timeout.ms"),
                expiration_ms=setting("transactional.id.expiration.ms"),
            )
        )
        self._running = True
        self._replay()
        prepared = list(self._coordinator.prepared())
        if prepared:
            log.info("transactions: finishing %d that were decided before the stop", len(prepared))
        for transactional_id in prepared:
            self._finish(transactional_id)
        self._abort_orphans()
        self._engine.observe(self._on_image)
        self._plan("overdue", "transaction.abort.timed.out.transaction.cleanup.interval.ms")
        self._plan("idle", "transaction.remove.expired.transaction.cleanup.interval.ms")

    def stop(self) -> None:
        """Decide nothing more. What is prepared is finished at the next start."""
        self._running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    @property
    def is_ready(self) -> bool:
        """Whether ``__transaction_state`` is there; ``prepare`` makes it."""
        return TRANSACTIONS_TOPIC in self._engine.image.topics

    async def prepare(self) -> None:
        """Make ``__transaction_state`` if this is the first time that it is needed."""
        await self._engine.ensure_topic(TRANSACTIONS_TOPIC)

    # --- what producers ask ------------------------------------------------------------------------

    async def init(self, command: InitProducer) -> Identity:
        """Give the transactional id to the asker, fence everyone before it, end what they left open."""
        self._check_running()
        if not self.is_ready:
            await self.prepare()
        while True:
            try:
                answer, durable = self._perform(command)
            except NeedsProducerId:
                command = replace(command, fresh_producer_id=await self._engine.new_producer_id())
                continue
            await _flushed(durable)
            if answer is not None:
                return answer
            known = self._coordinator.transactions.get(command.transactional_id)
            if known is not None and known.is_prepared:
                raise ConcurrentTransactions(
                    f"the open transaction of {command.transactional_id!r} is being aborted; "
                    "try again"
                )

    def add_partitions(self, command: AddPartitions) -> Durable:
        """Let the transaction write to these partitions. Raises why not."""
        return self._perform(command)[1]

    def check_partition(
        self, transactional_id: str, producer_id: int, producer_epoch: int, place: Place
    ) -> None:
        """May the producer write there in its transaction? Raises why not."""
        self._check_running()
        self._coordinator.check_writes(transactional_id, producer_id, producer_epoch, place)

    def end(self, command: EndTransaction) -> tuple[Identity, Durable]:
        """Commit or abort; what the producer goes on with, and when the outcome is durable.

        Raises why not, or ``NeedsProducerId``: then ``end_with_new_id`` does it.
        """
        return self._perform(command)

    async def end_with_new_id(self, command: EndTransaction) -> Identity:
        """``end`` for a producer whose epochs are used up."""
        fresh = await self._engine.new_producer_id()
        identity, durable = self._perform(replace(command, fresh_producer_id=fresh))
        await _flushed(durable)
        return identity

    # --- what partitions ask -----------------------------------------------------------------------

    def admit(
        self,
        partition: Partition,
        header: BatchHeader,
        transactional_id: str | None,
        *,
        produce_version: int,
    ) -> Durable:
        """A transactional batch is about to be appended: check its transaction, or join it.

        Raises what a producer of this version understands. The future, if any, is about the fact that the
        partition is now part of the transaction.
        """
        if transactional_id is None:
            raise TransactionalIdMissing("a transactional batch came without a transactional id")
        joins = produce_version >= PRODUCE_JOINS_FROM
        try:
            durable = self._admit(
                transactional_id,
                header.producer_id,
                header.producer_epoch,
                (partition.topic, partition.index),
                joins=joins,
            )
        except TransactionFenced as error:
            # For writes fencing is an error that a producer can abort on (KIP-588).
            raise ProducerFenced(str(error)) from None
        except TransactionAbortable as error:
            if produce_version >= PRODUCE_KNOWS_ABORTABLE_FROM:
                raise
            raise InvalidTransactionState(str(error)) from None
        except ConcurrentTransactions as error:
            if produce_version >= PRODUCE_JOINS_FROM:
                raise
            # Older producers retry this one without asking for the metadata again.
            raise NotEnoughReplicas(str(error)) from None
        if joins and header.base_sequence > 0:
            _check_beginning(partition, header)
        return durable

    def admit_offsets(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        group_id: str,
        *,
        commit_version: int,
    ) -> Durable:
        """A group's positions are about to be committed in a transaction; as ``admit``."""
        place = OFFSETS_TOPIC, self._engine.groups.partition_of(group_id)
        try:
            return self._admit(
                transactional_id,
                producer_id,
                producer_epoch,
                place,
                joins=commit_version >= COMMIT_JOINS_FROM,
            )
        except TransactionFenced as error:
            raise ProducerFenced(str(error)) from None
        except TransactionAbortable as error:
            if commit_version >= COMMIT_KNOWS_ABORTABLE_FROM:
                raise
            raise InvalidTransactionState(str(error)) from None

    def _admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        place: Place,
        *,
        joins: bool,
    ) -> Durable:
        known = self._coordinator.transactions.get(transactional_id)
        if (
            known is not None
            and known.status is Status.ONGOING
            and known.producer_id == producer_id
            and known.producer_epoch == producer_epoch
            and place in known.partitions
        ):
            return None
        if not joins:
            self.check_partition(transactional_id, producer_id, producer_epoch, place)
        return self.add_partitions(
            AddPartitions(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                partitions=frozenset({place}),
                client_version=2,
            )
        )

    # --- markers -----------------------------------------------------------------------------------

    def write_marker(
        self,
        place: Place,
        *,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
    ) -> Durable:
        """End a producer's transaction in one partition. Raises why not."""
        topic, index = place
        marker = EndTxnMarker(committed=committed, coordinator_epoch=coordinator_epoch)
        batch = marker.build(
            timestamp=self._engine.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        # One replica is enough: a marker that waits for others would keep readers waiting, too.
        durable = self._engine.append(topic, index, batch, acks=1, internal=True).durable
        if topic == OFFSETS_TOPIC:
            self._engine.groups.end_transaction(index, producer_id, committed=committed)
        return durable

    # --- looking -----------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> TransactionStored:
        """One transactional id as it is now. Raises ``TransactionNotFound``."""
        self._check_running()
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        known = self._coordinator.transactions.get(transactional_id)
        if known is None:
            raise TransactionNotFound(f"there is no transactional id {transactional_id!r}")
        return known

    def list(
        self,
        *,
        statuses: Collection[Status] = (),
        producer_ids: Collection[int] = (),
        open_ms_min: int = -1,
        matches: Callable[[str], object | None] | None = None,
    ) -> Iterator[TransactionStored]:
        """Transactional ids that pass every filter that is given."""
        self._check_running()
        now_ms = self._engine.clock.now_ms()
        for known in self._coordinator.transactions.values():
            if statuses and known.status not in statuses:
                continue
            if producer_ids and known.producer_id not in producer_ids:
                continue
            # As in Kafka, one that has never been open has been so for ever.
            if open_ms_min >= 0 and now_ms - known.started_ms <= open_ms_min:
                continue
            if matches is not None and matches(known.transactional_id) is None:
                continue
            yield known

    # --- carrying out ------------------------------------------------------------------------------

    def _perform(self, command: Command[AnswerT]) -> tuple[AnswerT, Durable]:
        self._check_running()
        decision = self._coordinator.decide(command, self._engine.clock.now_ms())
        if decision.record is None:
            return decision.answer, None
        durable = self._append(decision.record)
        self._coordinator.apply(decision.record)
        if isinstance(decision.record, TransactionStored) and decision.record.is_prepared:
            self._finish_when(durable, command.transactional_id)
        return decision.answer, durable

    def _append(self, fact: TransactionRecord) -> Durable:
        key, value = records.encode(fact)
        batch = build_batch([(self._engine.clock.now_ms(), key, value, ())])
        try:
            partition = self._partition_of(fact.transactional_id)
            return self._engine.append_to(
                partition, batch, acks=-1, produce_version=13, internal=True
            ).durable
        except (BatchTooLarge, InvalidRequest):
            raise
        except MillpondError as error:
            log.warning(
                "transaction=%s: its state could not be written: %s", fact.transactional_id, error
            )
            raise CoordinatorNotAvailable(str(error)) from error

    def _finish_when(self, durable: Durable, transactional_id: str) -> None:
        if durable is None:
            self._finish(transactional_id)
            return

        def on_flushed(done: "asyncio.Future[None]") -> None:
            if _succeeded(done):
                self._finish(transactional_id)

        durable.add_done_callback(on_flushed)

    def _finish(self, transactional_id: str) -> None:
        """Write the markers of a decided transaction, and then that it is complete."""
        known = self._coordinator.transactions.get(transactional_id)
        if known is None or not known.is_prepared or not self._running:
            return
        if transactional_id in self._finishing:
            return
        waiting: set[asyncio.Future[None]] = set()
        for place in sorted(known.partitions):
            try:
                durable = self._mark(known, place)
            except MillpondError as error:
                log.warning(
                    "transaction=%s partition=%s-%d: the marker could not be written (%s); "
                    "trying again",
                    transactional_id,
                    *place,
                    error,
                )
                self._retry(transactional_id)
                return
            if durable is not None:
                waiting.add(durable)
        if not waiting:
            self._complete(transactional_id)
            return
        self._finishing.add(transactional_id)

        def on_flushed(done: "asyncio.Future[None]") -> None:
            waiting.discard(done)
            flushed = _succeeded(done)
            if transactional_id not in self._finishing:
                return
            if not flushed:
                # The partition takes nothing more until the next start, which writes the marker again.
                self._finishing.discard(transactional_id)
                self._retry(transactional_id)
            elif not waiting:
                self._finishing.discard(transactional_id)
                self._complete(transactional_id)

        for durable in tuple(waiting):
            durable.add_done_callback(on_flushed)

    def _mark(self, known: TransactionStored, place: Place) -> Durable:
        try:
            return self.write_marker(
                place,
                producer_id=known.producer_id,
                producer_epoch=known.producer_epoch,
                committed=commits(known),
                coordinator_epoch=self._partition_of(known.transactional_id).leader_epoch,
            )
        except UnknownTopic:
            return None  # deleted meanwhile, and with it what the transaction wrote there
        except ProducerFenced as error:
            log.warning(
                "transaction=%s partition=%s-%d: no marker needed: %s",
                known.transactional_id,
                *place,
                error,
            )
            return None

    def _complete(self, transactional_id: str) -> None:
        try:
            self._perform(MarkersWritten(transactional_id=transactional_id))
        except MillpondError:
            self._retry(transactional_id)

    # --- time --------------------------------------------------------------------------------------

    def _retry(self, transactional_id: str) -> None:
        key = f"finish {transactional_id}"
        if key in self._timers or not self._running:
            return

        def again() -> None:
            self._timers.pop(key, None)
            self._finish(transactional_id)

        self._timers[key] = asyncio.get_running_loop().call_later(_RETRY_MS / 1000, again)

    def _plan(self, what: str, setting: str) -> None:
        def on_time() -> None:
            if what == "overdue":
                self.abort_overdue()
            else:
                self.forget_idle()
            self._plan(what, setting)

        interval_ms = self._engine.broker_setting(setting)
        loop = asyncio.get_running_loop()
        self._timers[what] = loop.call_later(interval_ms / 1000, on_time)

    def abort_overdue(self) -> None:
        """Abort transactions whose producers have been silent for longer than they allowed themselves."""
        for transactional_id in list(self._coordinator.overdue(self._engine.clock.now_ms())):
            known = self._coordinator.transactions[transactional_id]
            log.warning(
                "transaction=%s producer=%d epoch=%d: open for more than %d ms; aborting it",
                transactional_id,
                known.producer_id,
                known.producer_epoch,
                known.timeout_ms,
            )
            self._perform_or_leave(AbortOverdue(transactional_id=transactional_id))

    def forget_idle(self) -> None:
        """Drop transactional ids that nobody has used for the expiration time."""
        for transactional_id in list(self._coordinator.expired(self._engine.clock.now_ms())):
            self._perform_or_leave(ForgetIdle(transactional_id=transactional_id))

    def _perform_or_leave(self, command: Command[None]) -> None:
        try:
            self._perform(command)
        except MillpondError as error:
            log.warning(
                "transaction=%s: %s failed (%s); trying later",
                command.transactional_id,
                type(command).__name__,
                error,
            )

    # --- the log -----------------------------------------------------------------------------------

    def _partition_of(self, transactional_id: str) -> Partition:
        topic = self._engine.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            raise NotCoordinator(f"{TRANSACTIONS_TOPIC} has not been made yet")
        index = partition_for(transactional_id, len(topic.partitions))
        return self._engine.partition(TRANSACTIONS_TOPIC, index)

    def _replay(self) -> None:
        topic = self._engine.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return
        for index in range(len(topic.partitions)):
            try:
                self._replay_partition(self._engine.partition(TRANSACTIONS_TOPIC, index))
            except MillpondError as error:
                log.error(
                    "partition=%s-%d: transactions could not be read to the end: %s",
                    TRANSACTIONS_TOPIC,
                    index,
                    error,
                )
        count = len(self._coordinator.transactions)
        log.info("transactions: %d read from %s", count, TRANSACTIONS_TOPIC)

    def _replay_partition(self, partition: Partition) -> None:
        for header, stored in stored_batches(partition):
            for record in stored if not header.is_control else ():
                if record.key is None:
                    continue
                try:
                    self._coordinator.apply(records.decode(record.key, record.value))
                except MalformedData as error:
                    log.error(
                        "partition=%s-%d offset=%d: a transaction record is left out: %s",
                        partition.topic,
                        partition.index,
                        record.offset,
                        error,
                    )

    def _abort_orphans(self) -> None:
        """End transactions that partitions hold open and that nobody here will ever end."""
        coordinated: dict[int, TransactionStored] = {
            known.producer_id: known
            for known in self._coordinator.transactions.values()
            if not known.is_idle
        }
        for partition in list(self._engine.topics):
            if partition.log.producers.first_open_offset() < 0:
                continue
            place = partition.topic, partition.index
            for producer in list(partition.log.active_producers()):
                known = coordinated.get(producer.producer_id)
                is_known = known is not None and place in known.partitions
                if producer.txn_first_offset >= 0 and not is_known:
                    self._abort_orphan(place, producer)

    def _abort_orphan(self, place: Place, producer: Producer) -> None:
        log.warning(
            "partition=%s-%d producer=%d epoch=%d: a transaction is open since offset %d and nobody "
            "coordinates it; aborting it",
            *place,
            producer.producer_id,
            producer.epoch,
            producer.txn_first_offset,
        )
        try:
            self.write_marker(
                place,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                committed=False,
                coordinator_epoch=max(producer.coordinator_epoch, 0),
            )
        except MillpondError as error:
            log.error("partition=%s-%d: the marker could not be written: %s", *place, error)

    def _on_image(self, before: Image, after: Image) -> None:
        if not self._running:
            return
        if TRANSACTIONS_TOPIC in before.topics and TRANSACTIONS_TOPIC not in after.topics:
            log.warning("%s was deleted, and with it all transactions", TRANSACTIONS_TOPIC)
            self._coordinator = Coordinator(self._coordinator.settings)
            self._abort_orphans()

    def _check_running(self) -> None:
        if not self._running:
            raise NotCoordinator("the broker is stopping")


def _check_beginning(partition: Partition, header: BatchHeader) -> None:
    """A partition that knows nothing of a producer must see its first batch first (KIP-890)."""
    producer = partition.log.producers.producers.get(header.producer_id)
    if producer is None or not producer.batches:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} epoch {header.producer_epoch} begins with sequence "
            f"{header.base_sequence}, expected 0"
        )


async def _flushed(durable: Durable) -> None:
    if durable is None:
        return
    try:
        await asyncio.shield(durable)
    except MillpondError as error:
        raise NotCoordinator("the transaction's state could not be flushed") from error


def _succeeded(done: "asyncio.Future[None]") -> bool:
    return not done.cancelled() and done.exception() is None
