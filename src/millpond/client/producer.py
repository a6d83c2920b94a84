"""The producer: records are collected into batches and sent concurrently, in order, exactly once.

The path of a record: interceptors, serializers, partitioner, its partition's queue (``_intake``,
``_accumulator``), a request to the leader (``_sender``), and the result for the caller (``_delivery``). All
of it runs in the caller's event loop; ``BlockingProducer`` has a loop in a background thread.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from millpond.base.ids import TopicPartition
from millpond.client._accumulator import Accumulator, Batch
from millpond.client._delivery import Appended, Delivery, OnDelivery, wait_until_done
from millpond.client._intake import Intake
from millpond.client._sender import Sender
from millpond.client._sequences import Sequences
from millpond.client._transaction import Transaction, TxnState
from millpond.client._transaction_calls import TransactionCalls
from millpond.client._where import Where, cluster_for, settings_of
from millpond.client.config import ACKS_ALL, ACKS_LEADER, ACKS_NONE, producer_config
from millpond.client.errors import ClientError, ProducerFenced, TransactionBroken, WrongState
from millpond.client.records import GroupMetadata, OffsetAndMetadata, RecordMetadata
from millpond.record import NewRecord

__all__ = ["ACKS_ALL", "ACKS_LEADER", "ACKS_NONE", "Appended", "Delivery", "Producer"]

T = TypeVar("T")


class Producer:
    """Writes records. Use as ``async with Producer("localhost:9092") as producer:``; leaving it flushes.

    The first argument is the brokers' addresses, a dictionary of Kafka's settings, or a ``Cluster`` to share.
    Settings are also taken as keywords: ``linger_ms=20`` is ``{"linger.ms": 20}``.

    A failure that was not reported through a delivery or a callback is raised by ``flush`` and on leaving.
    """

    def __init__(self, where: Where = None, **settings: Any) -> None:
        self.config = config = producer_config(settings_of(where), settings)
        self._cluster, self._owns_cluster = cluster_for(
            where, config, timeout_ms=config.max_block_ms
        )
        self._accumulator = Accumulator(
            batch_bytes=config.batch_size,
            linger_s=config.linger_ms / 1000,
            memory_bytes=config.buffer_memory,
        )
        self._transaction: Transaction | None = None
        self._calls: TransactionCalls | None = None
        if config.transactional_id is not None:
            self._transaction = Transaction(config.transactional_id)
            self._calls = TransactionCalls(
                self._cluster, config.transactional_id, config.transaction_timeout_ms
            )
        self._sender = Sender(
            self._cluster,
            config,
            self._accumulator,
            transaction=self._transaction,
            calls=self._calls,
            on_settled=self._on_settled,
        )
        self.intake = Intake(
            self._cluster, config, self._accumulator, self._transaction, self._sender.wake
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.close()
        else:
            await self.abort()

    # --- single records ---

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Add a record to its partition's next batch; waits while the buffer is full.

        The record is queued when this returns; await the result to know that it was delivered.
        ``on_delivery(metadata, error)`` is called then too. Raises ``NotSerializable``, ``RecordTooLarge``,
        ``BufferFull`` after ``max.block.ms``, and the errors of fetching the topic's metadata.
        """
        intake = self.intake
        prepared = intake.prepare(topic, value, key, headers, partition, timestamp_ms)
        delivery = intake.place(prepared, on_delivery)
        if delivery is None:
            delivery = await intake.place_slowly(prepared, on_delivery)
        elif intake.is_due_for_a_break():
            await asyncio.sleep(0)  # a caller in a tight loop must let requests be written
        return delivery

    async def send_and_wait(self, topic: str, value: Any = None, **options: Any) -> RecordMetadata:
        """``send``, and wait until the record is delivered."""
        return await (await self.send(topic, value, **options))

    async def flush(self) -> None:
        """Wait until everything sent is acknowledged. Raises the first failure that was not reported
        otherwise.
        """
        self.intake.hurry(+1)
        try:
            for batch in self._accumulator.unfinished:
                await wait_until_done(batch)
        finally:
            self.intake.hurry(-1)
        failure, self.intake.failure = self.intake.failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Flush, then refuse further records."""
        if self.intake.is_closed:
            return
        self.intake.is_closed = True
        try:
            await self.flush()
        finally:
            await self.abort()

    async def abort(self) -> None:
        """Fail everything that is not acknowledged yet, and close."""
        self.intake.is_closed = True
        for batch in self._accumulator.unfinished:
            self._sender.give_up(batch, ClientError("the producer was closed before this arrived"))
        await self._sender.close()
        self.intake.failure = None
        self.intake.close()
        if self._owns_cluster:
            await self._cluster.close()

    async def partitions_for(self, topic: str) -> int:
        """Return the number of partitions of a topic."""
        return len((await self._cluster.topic(topic, create=True)).partitions)

    # --- whole batches ---

    async def send_batch(
        self, topic: str, partition: int, records: Sequence[NewRecord]
    ) -> Appended:
        """Write ``(timestamp_ms, key, value, headers)`` records as one batch, and wait for the response.

        Nothing is intercepted or serialized. The batch goes to the end of the partition's queue.
        """
        self._require_open()
        place = TopicPartition(topic, partition)
        await self._cluster.topic(topic, create=True)
        if self._transaction is not None:
            self._transaction.touch(place)
        batch = self._accumulator.append_batch(place, records, asyncio.get_running_loop().time())
        batch.callbacks.append(
            (0, lambda metadata, error: None)
        )  # this caller gets failures itself
        self._sender.wake()
        await wait_until_done(batch)
        first, _ = batch.locate(0)
        last, _ = batch.locate(len(batch.records) - 1)
        for part in (first, last):
            if part.error is not None:
                raise part.error
        return Appended(
            partition=place,
            base_offset=first.base_offset,
            record_count=len(batch.records),
            append_time_ms=first.time_ms,
        )

    # --- transactions ---

    async def init_transactions(self) -> None:
        """Take over the transactional id: older producers with it are fenced, their open transactions
        aborted.
        """
        transaction, calls = self._transactional()
        if transaction.state is not TxnState.NEW:
            raise WrongState("init_transactions() was called before")
        timeout_s = self.config.max_block_ms / 1000
        self._sequences().adopt(await calls.init(timeout_s))
        transaction.second_generation = await calls.is_second_generation(timeout_s)
        transaction.initialised()

    async def begin_transaction(self) -> None:
        """Begin a transaction with the records that are sent from now on."""
        self._transactional()[0].begin()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """``async with producer.transaction():`` commits at the end, and aborts if an exception leaves it."""
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            if self._transactional()[0].state is not TxnState.FENCED:
                await self.abort_transaction()
            raise
        try:
            await self.commit_transaction()
        except TransactionBroken:  # a record of it has failed
            await self.abort_transaction()
            raise

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | GroupMetadata
    ) -> None:
        """Commit offsets of ``consumer.group_metadata()`` (or of a group's id) with the transaction."""
        transaction, calls = self._transactional()
        transaction.require(TxnState.OPEN, "send offsets")
        if isinstance(group, str):
            group = GroupMetadata(group_id=group)
        identity = self._sequences().identity
        assert identity is not None
        transaction.has_offsets = True
        await self._in_transaction(
            calls.send_offsets(
                identity,
                group,
                {
                    place: OffsetAndMetadata(at) if isinstance(at, int) else at
                    for place, at in offsets.items()
                },
                second_generation=transaction.second_generation,
                timeout_s=self.config.max_block_ms / 1000,
            )
        )

    async def commit_transaction(self) -> None:
        """Flush, then commit. Raises ``TransactionBroken`` if a record of it has failed."""
        transaction, _ = self._transactional()
        transaction.commit_begins()
        try:
            try:
                await self.flush()
            except ClientError as error:
                transaction.fail(error)
            transaction.require(TxnState.COMMITTING, "commit")
            await self._end_transaction(commit=True)
        except BaseException:
            transaction.commit_failed()
            raise

    async def abort_transaction(self) -> None:
        """Abort the transaction: ``read_committed`` consumers will not see any of it."""
        transaction, calls = self._transactional()
        if transaction.state is not TxnState.BROKEN:
            transaction.require(TxnState.OPEN, "abort")
        reason = TransactionBroken("the transaction was aborted")
        transaction.fail(reason)  # nothing may be sent while the abort is in progress
        await self._sender.quiet(reason)
        self.intake.failure = None
        sequences = self._sequences()
        assert sequences.identity is not None
        if transaction.second_generation or not sequences.has_gap:
            await self._end_transaction(commit=False)
        else:  # the first generation's abort keeps the epoch; a new one ends the transaction too
            identity = await self._in_transaction(
                calls.init(self.config.max_block_ms / 1000, sequences.identity)
            )
            sequences.forget()
            sequences.adopt(identity)
            transaction.ended()

    async def _end_transaction(self, *, commit: bool) -> None:
        transaction, calls = self._transactional()
        sequences = self._sequences()
        assert sequences.identity is not None
        if transaction.has_work:
            identity = await self._in_transaction(
                calls.end(
                    sequences.identity,
                    commit=commit,
                    second_generation=transaction.second_generation,
                    timeout_s=self.config.max_block_ms / 1000,
                )
            )
            if identity != sequences.identity:
                sequences.forget()
                sequences.adopt(identity)
        transaction.ended()

    async def _in_transaction(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._transaction is not None
        try:
            return await work
        except ProducerFenced as error:
            self._transaction.fence(error)
            raise
        except TransactionBroken as error:
            self._transaction.fail(error)
            raise

    def _transactional(self) -> tuple[Transaction, TransactionCalls]:
        if self._transaction is None or self._calls is None:
            raise WrongState("this producer has no transactions; give it a transactional_id")
        self._require_open()
        return self._transaction, self._calls

    def _on_settled(self, batch: Batch) -> None:
        self.intake.on_settled(batch)

    def _sequences(self) -> Sequences:
        assert self._sender.sequences is not None
        return self._sender.sequences

    def _require_open(self) -> None:
        if self.intake.is_closed:
            raise ClientError("the producer is closed")
