"""Hosts the transactions of this node: decide, append, apply, write the markers, answer.

The state machine is ``txn.coordinator``; its records are in ``__transaction_state``, in the partition that
the hash of the transactional id names. This node coordinates the ids of the partitions it leads, with one
state machine for each (``shard_host.py``). A transaction whose outcome is committed is *completed*
(``txn_completion.py``): every partition gets a marker, then a record says that it is complete. On one node
with the flush policy ``os`` all of that has happened when a call returns. What a crash, a full disk or a
change of leaders interrupts is done again, from the outcome alone: when the partition is loaded, or a little
later.

A leader asks the coordinator before it takes the first write of a transaction (``txn_admission.py``). A node
that is alone asks itself, and at its start aborts transactions that are open in partitions and that no
coordinator knows (a machine that lost power may have kept the data and lost the record), so that consumers of
committed data do not wait for ever.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from millpond.base.errors import (
    ConcurrentTransactions,
    InvalidRequest,
    MarkerFenced,
    MillpondError,
    ProducerFenced,
    TransactionalIdMissing,
    TransactionNotFound,
)
from millpond.base.ids import NodeId
from millpond.engine.coordinators.durable import Durable, flushed, when_durable
from millpond.engine.coordinators.groups import Groups
from millpond.engine.coordinators.services import CoordinatorServices
from millpond.engine.coordinators.shard_host import ShardHost, Written
from millpond.engine.coordinators.shards import Shard
from millpond.engine.coordinators.transaction_handlers import TransactionHandlers
from millpond.engine.coordinators.transaction_log import (
    abort_orphans,
    encode_batch,
    refusal_of,
    replay_record,
)
from millpond.engine.coordinators.txn_completion import TxnCompletion
from millpond.engine.partitions.txn_admission import (
    Admission,
    Passes,
    Write,
    check_beginning,
    refusal_of_commit,
    refusal_of_write,
    without_pass,
)
from millpond.engine.peers import JoinTransaction, WriteMarkers
from millpond.metadata.controller import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from millpond.metadata.image import Image
from millpond.record.batch import BatchHeader
from millpond.record.control import EndTxnMarker
from millpond.record.producer_abilities import ProducerAbilities
from millpond.record.records import Record
from millpond.replication.partition import Partition
from millpond.txn.coordinator import TransactionCoordinator
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

__all__ = [
    "AddPartitions",
    "Admission",
    "EndTransaction",
    "Identity",
    "InitProducer",
    "NeedsProducerId",
    "Place",
    "Status",
    "TransactionStored",
    "Transactions",
    "Write",
    "refusal_of_commit",
    "refusal_of_write",
]

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")


class Transactions:
    """The transactional ids this node coordinates, and the markers in the partitions it leads."""

    def __init__(self, services: CoordinatorServices, groups: Groups) -> None:
        self._services = services
        self._groups = groups
        self._settings = TransactionSettings()
        self._host: ShardHost[TransactionCoordinator, TransactionRecord]
        self._host = ShardHost(services, TRANSACTIONS_TOPIC, self, contents="transactions")
        self._completion = TxnCompletion(services, self.write_marker, self._complete)
        self._passes = Passes()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._handlers = TransactionHandlers(self)
        self._services.peer_handlers.serve(WriteMarkers, self._handlers.on_write_markers)
        self._services.peer_handlers.serve(JoinTransaction, self._handlers.on_join)

    # --- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the transactions, complete those that are decided, start the timers. Groups have started."""
        setting = self._services.settings.get
        self._settings = TransactionSettings(
            timeout_ms_max=setting("transaction.max.timeout.ms"),
            expiration_ms=setting("transactional.id.expiration.ms"),
        )
        self._host.start()
        if self.is_ready:
            count = sum(1 for _ in self._known())
            log.info("transactions: %d read from %s", count, TRANSACTIONS_TOPIC)
        abort_orphans(self._services, self._known(), self.write_marker)
        self._services.metadata.observe(self._on_image)
        self._plan("overdue", "transaction.abort.timed.out.transaction.cleanup.interval.ms")
        self._plan("idle", "transaction.remove.expired.transaction.cleanup.interval.ms")

    def stop(self) -> None:
        """Decide nothing more. Prepared transactions are completed at the next start, or by another node."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._completion.stop()
        self._host.stop()

    @property
    def is_ready(self) -> bool:
        """Whether ``__transaction_state`` exists; ``prepare`` creates it."""
        return self._host.is_ready

    async def prepare(self) -> None:
        """Create ``__transaction_state`` if it does not exist yet."""
        await self._host.prepare()

    # --- shards ------------------------------------------------------------------------------------

    def new_state(self, index: int) -> TransactionCoordinator:
        """Return a state machine for the transactional ids of one partition."""
        del index
        return TransactionCoordinator(self._settings)

    def replay(self, state: TransactionCoordinator, header: BatchHeader, record: Record) -> None:
        """Apply a record of the log."""
        replay_record(state, header, record)

    def batch(self, records: Sequence[TransactionRecord], now_ms: int) -> bytearray:
        """Encode records as one batch."""
        return encode_batch(records, now_ms)

    def refusal(self, records: Sequence[TransactionRecord], error: MillpondError) -> MillpondError:
        """Return the error for the client when the log does not take its records."""
        return refusal_of(records, error)

    def apply(
        self,
        shard: Shard[TransactionCoordinator],
        records: Sequence[TransactionRecord],
        written: Written,
    ) -> None:
        """Apply appended records; the markers of an outcome are written once it is committed."""
        for record in records:
            shard.state.apply(record)
            if isinstance(record, TransactionStored) and record.is_prepared:
                self._end_when(written.durable, shard, record.transactional_id)

    def shard_loaded(self, index: int, state: TransactionCoordinator) -> None:
        """Complete the transactions that were decided before, once their outcomes are committed."""
        prepared = list(state.prepared())
        if prepared:
            log.info("transactions: ending %d that were decided before", len(prepared))
        shard = self._host.own(index)
        durable = self._host.settled(shard)
        for transactional_id in prepared:
            self._end_when(durable, shard, transactional_id)

    def shard_dropped(self, index: int, state: TransactionCoordinator) -> None:
        """Leave the decided transactions to the next coordinator."""
        del index
        for transactional_id in state.transactions:
            self._completion.drop(transactional_id)

    # --- what producers ask ------------------------------------------------------------------------

    async def init(self, command: InitProducer) -> Identity:
        """Give the transactional id to a producer, fence its predecessors, abort their open transaction."""
        if not self.is_ready:
            await self.prepare()
        while True:
            try:
                answer, durable = self._perform(command)
            except NeedsProducerId:
                command = replace(
                    command, fresh_producer_id=await self._services.producer_ids.next()
                )
                continue
            await flushed(durable)
            if answer is not None:
                return answer
            known = self._find(command.transactional_id)
            if known is not None and known.is_prepared:
                raise ConcurrentTransactions(
                    f"the open transaction of {command.transactional_id!r} is being aborted; "
                    "try again"
                )

    def add_partitions(self, command: AddPartitions) -> Durable:
        """Add partitions to the transaction. Raises why not."""
        return self._perform(command)[1]

    def check_partition(
        self, transactional_id: str, producer_id: int, producer_epoch: int, place: Place
    ) -> None:
        """Raises why the producer may not write to the partition in its transaction."""
        self._host.get(transactional_id).state.check_writes(
            transactional_id, producer_id, producer_epoch, place
        )

    def settled(self, transactional_id: str) -> Durable:
        """Return when the present state of a transactional id is committed; None if it is."""
        return self._host.settled(self._host.get(transactional_id))

    def coordinator_of(self, transactional_id: str) -> NodeId:
        """Return the node that coordinates a transactional id; -1 if there is none now."""
        return self._host.leader(transactional_id)

    def end(self, command: EndTransaction) -> tuple[Identity, Durable]:
        """Commit or abort. Return the producer's next id and epoch, and when the outcome is durable.

        Raises why not, or ``NeedsProducerId``: then ``end_with_new_id`` does it.
        """
        return self._perform(command)

    async def end_with_new_id(self, command: EndTransaction) -> Identity:
        """As ``end``, for a producer whose epochs are used up."""
        fresh = await self._services.producer_ids.next()
        identity, durable = self._perform(replace(command, fresh_producer_id=fresh))
        await flushed(durable)
        return identity

    # --- what partitions ask -----------------------------------------------------------------------

    @property
    def asks_first(self) -> bool:
        """Whether writes of transactions need an ``admission`` before they are appended."""
        return self._services.peers is not None and len(self._services.metadata.image.brokers) > 1

    def admission(
        self, transactional_id: str, writes: Sequence[Write], *, joins: bool
    ) -> Admission | None:
        """Return the request to the coordinator that these writes need; None if they need none."""
        unknown = [write for write in writes if not write.is_open]
        if not unknown:
            return None
        return Admission(
            self._passes,
            transactional_id,
            unknown,
            joins=joins,
            node_id=self._services.info.node_id,
            peers=self._services.peers,
            coordinator_of=self.coordinator_of,
            ask_here=self._handlers.on_join,
        )

    def admit(
        self,
        partition: Partition,
        header: BatchHeader,
        transactional_id: str | None,
        *,
        producer: ProducerAbilities,
    ) -> Durable:
        """Check that a batch belongs to an open transaction, or join it, before the batch is appended.

        Raises an error that this producer understands. The future, if any, is done when the record is
        committed that adds the partition to the transaction.
        """
        if transactional_id is None:
            raise TransactionalIdMissing("a transactional batch came without a transactional id")
        joins = producer.joins_transactions
        durable: Durable = None
        write = Write(partition, header.producer_id, header.producer_epoch)
        if self.asks_first:
            if not write.is_open and not self._passes.take(write):
                raise without_pass(write)
        else:
            try:
                durable = self._admit(transactional_id, write, joins=joins)
            except MillpondError as error:
                raise refusal_of_write(error, producer) from None
        if joins and header.base_sequence > 0:
            check_beginning(partition, header)
        return durable

    def admit_offsets(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        group_id: str,
        *,
        producer: ProducerAbilities,
    ) -> Durable:
        """As ``admit``, for offsets of a group that are committed in a transaction."""
        write = self.offsets_write(group_id, producer_id, producer_epoch)
        if self.asks_first:
            if not write.is_open and not self._passes.take(write):
                raise ConcurrentTransactions("the transaction has ended meanwhile; try again")
            return None
        try:
            return self._admit(transactional_id, write, joins=producer.joins_transactions)
        except MillpondError as error:
            raise refusal_of_commit(error, producer) from None

    def offsets_write(self, group_id: str, producer_id: int, producer_epoch: int) -> Write:
        """Return the write to ``__consumer_offsets`` that a commit of a group's offsets makes."""
        partition = self._services.partitions.partition(
            OFFSETS_TOPIC, self._groups.partition_of(group_id)
        )
        return Write(partition, producer_id, producer_epoch)

    def _admit(self, transactional_id: str, write: Write, *, joins: bool) -> Durable:
        known = self._find(transactional_id)
        if (
            known is not None
            and known.status is Status.ONGOING
            and known.producer_id == write.producer_id
            and known.producer_epoch == write.producer_epoch
            and write.place in known.partitions
        ):
            return None
        if not joins:
            self.check_partition(transactional_id, *write[1:], write.place)
        return self.add_partitions(
            AddPartitions(
                transactional_id=transactional_id,
                producer_id=write.producer_id,
                producer_epoch=write.producer_epoch,
                partitions=frozenset({write.place}),
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
        """End a producer's transaction in one partition that this node leads. Raises why not."""
        topic, index = place
        marker = EndTxnMarker(committed=committed, coordinator_epoch=coordinator_epoch)
        batch = marker.build(
            timestamp=self._services.runtime.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        durable = self._services.partitions.append(
            topic, index, batch, acks=-1, internal=True
        ).durable
        self._passes.revoke(place, producer_id)
        if topic == OFFSETS_TOPIC:
            self._groups.end_transaction(index, producer_id, committed=committed)
        return durable

    def check_abort(
        self, place: Place, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> bool:
        """Return whether there is something that an administrator may abort; raise why it may not be.

        A producer that is not known there has nothing to abort: as in Kafka that is no error, and no marker
        is written, which could shut out a producer that gets this id later. The marker must not shut out the
        producer by an epoch that was never given out, nor the coordinator by one that is above the last one
        seen from it in this partition (which DescribeProducers tells).
        """
        producer = self._services.partitions.partition(*place).log.producers.producers.get(
            producer_id
        )
        if producer is None:
            return False
        if producer_epoch != producer.epoch:
            raise ProducerFenced(
                f"producer {producer_id} is at epoch {producer.epoch} in {place[0]}-{place[1]}, not at "
                f"{producer_epoch}"
            )
        seen = max(producer.coordinator_epoch, 0)
        if coordinator_epoch > seen:
            raise MarkerFenced(
                f"the last coordinator that ended a transaction of producer {producer_id} in "
                f"{place[0]}-{place[1]} was at epoch {seen}; {coordinator_epoch} would shut it out"
            )
        return True

    # --- looking -----------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> TransactionStored:
        """Describe a transactional id. Raises ``TransactionNotFound``."""
        self._host.check_running()
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        known = self._host.get(transactional_id).state.transactions.get(transactional_id)
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
        """Yield the transactional ids that pass every filter that is given."""
        self._host.check_running()
        now_ms = self._services.runtime.clock.now_ms()
        for known in self._known():
            if statuses and known.status not in statuses:
                continue
            if producer_ids and known.producer_id not in producer_ids:
                continue
            # As in Kafka, one that was never open counts as open since the epoch.
            if open_ms_min >= 0 and now_ms - known.started_ms <= open_ms_min:
                continue
            if matches is not None and matches(known.transactional_id) is None:
                continue
            yield known

    # --- carrying out ------------------------------------------------------------------------------

    def _perform(self, command: Command[AnswerT]) -> tuple[AnswerT, Durable]:
        now_ms = self._services.runtime.clock.now_ms()
        return self._host.perform(
            command.transactional_id, lambda state: state.decide(command, now_ms)
        )

    def _end_when(
        self, durable: Durable, shard: Shard[TransactionCoordinator], transactional_id: str
    ) -> None:
        """Write the markers once the outcome is committed."""

        def end(error: MillpondError | None) -> None:
            known = shard.state.transactions.get(transactional_id)
            if (
                error is None
                and known is not None
                and known.is_prepared
                and self._host.holds(shard)
            ):
                self._completion.begin(known, shard.epoch)

        when_durable(durable, end)

    def _complete(self, transactional_id: str) -> bool:
        """Write that a transaction is complete. Return whether the log took it."""
        try:
            self._perform(MarkersWritten(transactional_id=transactional_id))
        except MillpondError:
            return False
        return True

    # --- looking up --------------------------------------------------------------------------------

    def _find(self, transactional_id: str) -> TransactionStored | None:
        """Return a transactional id that this node coordinates."""
        state = self._host.find(transactional_id)
        return None if state is None else state.transactions.get(transactional_id)

    def _known(self) -> Iterator[TransactionStored]:
        for state in self._host.states():
            yield from state.transactions.values()

    # --- time --------------------------------------------------------------------------------------

    def _plan(self, what: str, setting: str) -> None:
        def on_time() -> None:
            if what == "overdue":
                self.abort_overdue()
            else:
                self.forget_idle()
            self._plan(what, setting)

        interval_ms = self._services.settings.get(setting)
        loop = asyncio.get_running_loop()
        self._timers[what] = loop.call_later(interval_ms / 1000, on_time)

    def abort_overdue(self) -> None:
        """Abort transactions that are open for longer than their time-out."""
        now_ms = self._services.runtime.clock.now_ms()
        overdue = [
            state.transactions[name]
            for state in self._host.states()
            for name in state.overdue(now_ms)
        ]
        for known in overdue:
            transactional_id = known.transactional_id
            log.warning(
                "transaction=%s producer=%d epoch=%d: open for more than %d ms; aborting it",
                transactional_id,
                known.producer_id,
                known.producer_epoch,
                known.timeout_ms,
            )
            self._perform_or_leave(AbortOverdue(transactional_id=transactional_id))

    def forget_idle(self) -> None:
        """Delete transactional ids that were not used for the expiration time."""
        now_ms = self._services.runtime.clock.now_ms()
        idle = [name for state in self._host.states() for name in state.expired(now_ms)]
        for transactional_id in idle:
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

    def _on_image(self, before: Image, after: Image) -> None:
        if self._host.is_running and self._host.drop_if_deleted(before, after):
            abort_orphans(self._services, self._known(), self.write_marker)
