"""The work of tasks and driver when a query writes, without Spark: begin, write, mark, end.

Exactly once, by these steps (``docs/spark-sink.md`` has the limits):

1. A task takes its transactional id, which fences every earlier attempt and aborts its open transaction.
2. Then it reads its marker. If that names this batch, an earlier run committed it: the rows are read and not
   written.
3. Otherwise it writes its rows and passes the open transaction to the driver.
4. The driver, when all tasks are done, puts a marker into every transaction, and commits when all are in. The
   first transaction also carries the query's marker, with the number of tasks, and is committed alone:
   whenever anything of a batch is committed, that marker is, so that a replay in another shape is detected
   before it does harm.

After a crash at any point the batch is replayed: what was committed is skipped, the rest is written again.
"""

import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused, ClientError
from millpond.spark.errors import SparkError, WrongOption, waiting_for_brokers
from millpond.spark.sink_options import SinkOptions
from millpond.spark.sink_rows import RowEncoder
from millpond.spark.sink_sender import Sender, unknown_topic
from millpond.spark.transactions import Transactions, all_of
from millpond.spark.transactions_model import (
    Marker,
    Transaction,
    check_rows,
    check_tasks,
    is_written,
)
from millpond.wire.kafka.api import ErrorCode

T = TypeVar("T")
Submit = Callable[[Coroutine[Any, Any, Any]], "Future[Any]"]

_ABORT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskName:
    """Identifies a writer: a query's task, or a task of a single write (``batch`` is None)."""

    query: str
    task: int
    batch: int | None

    @property
    def transactional_id(self) -> str:
        """Return the transactional id: one for each task of a query, the same in every batch and every
        run.
        """
        return f"{self.query}-{self.task}"

    @property
    def marker_group(self) -> str:
        """Return the group whose offset is the task's marker."""
        return f"{self.query}-{self.task}"

    @property
    def query_marker_group(self) -> str:
        """Return the same for the whole query. No task's group has such a suffix, whatever the application's
        name is.
        """
        return f"{self.query}-batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A task's result for the driver."""

    name: TaskName
    rows: int
    topic: str | None = None
    transaction: Transaction | None = None
    skipped: bool = False


class SinkTask:
    """The sink's work in one process of Spark: ``submit`` runs coroutines on the loop of ``cluster``."""

    def __init__(
        self,
        options: SinkOptions,
        cluster: Cluster,
        submit: Submit,
        *,
        second_generation: bool | None = None,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._submit = submit
        self._transactions = Transactions(
            cluster,
            timeout_s=options.delivery_timeout_ms / 1000,
            second_generation=second_generation,
        )
        self._quick = Transactions(cluster, timeout_s=_ABORT_S, second_generation=second_generation)

    # --- on an executor ---

    def write(self, name: TaskName, batches: Iterable[Any]) -> Written:
        """Write a task's rows; the transaction, if there is one, stays open."""
        with self._named():
            return self._write(name, batches)

    def _write(self, name: TaskName, batches: Iterable[Any]) -> Written:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return Written(name=name, rows=0)
        rows = chain([first], filled)
        if not self._options.is_exactly_once:
            producer_id, epoch = self._wait(self._transactions.producer())
            topic, count = self._send(None, producer_id, epoch, rows)
            return Written(name=name, rows=count, topic=topic)
        transaction = self._begin(name)
        if name.batch is not None:
            marker = self._wait(self._transactions.marker(name.marker_group))
            if is_written(marker, name.batch, what=name.query):
                assert marker is not None
                count = sum(batch.num_rows for batch in rows)
                check_rows(marker, count, what=name.marker_group)
                return Written(name=name, rows=count, skipped=True)
        try:
            topic, count = self._send(
                transaction, transaction.producer_id, transaction.producer_epoch, rows
            )
        except BaseException:
            self._abort([transaction])
            raise
        return Written(name=name, rows=count, topic=topic, transaction=transaction)

    def _begin(self, name: TaskName) -> Transaction:
        try:
            return self._wait(
                self._transactions.begin(
                    name.transactional_id,
                    transaction_timeout_ms=self._options.transaction_timeout_ms,
                )
            )
        except BrokerRefused as error:
            if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise WrongOption(
                    f"option kafka.transaction.timeout.ms={self._options.transaction_timeout_ms} is more"
                    " than the broker's transaction.max.timeout.ms allows"
                ) from None
            raise

    def _send(
        self, transaction: Transaction | None, producer_id: int, epoch: int, rows: Iterator[Any]
    ) -> tuple[str, int]:
        """Encode one Arrow batch while the one before is being sent."""
        encoder = RowEncoder(
            self._options, self._partitions_of, producer_id=producer_id, producer_epoch=epoch
        )
        sender = Sender(
            self._cluster,
            self._transactions,
            transaction=transaction,
            delivery_s=self._options.delivery_timeout_ms / 1000,
            request_s=self._options.request_timeout_ms / 1000,
        )
        topic: str | None = None
        count = 0
        under_way: Future[None] | None = None
        try:
            for batch in rows:
                topic = topic or encoder.topic_of(batch)
                work = list(encoder.encode(batch, now_ms=int(time.time() * 1000)))
                if under_way is not None:
                    under_way.result()
                under_way = self._submit(sender.send(work))
                count += batch.num_rows
            assert under_way is not None
            under_way.result()
        finally:
            # A batch that arrives after its transaction was aborted would begin another one.
            if under_way is not None:
                under_way.exception()
        assert topic is not None
        return topic, count

    def _partitions_of(self, topic: str) -> int:
        try:
            return self._wait(self._ask_partitions(topic))
        except BrokerRefused as error:
            if error.code in {
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            }:
                raise unknown_topic(topic, error) from None
            raise

    async def _ask_partitions(self, topic: str) -> int:
        known = self._cluster.known_topic(topic)
        if known is None:
            attempts = self._cluster.attempts(
                f"asking for topic {topic}", self._options.delivery_timeout_ms / 1000
            )
            await self._transactions.reach(attempts)
            known = await self._cluster.topic(topic, create=True, attempts=attempts)
        return len(known.partitions)

    # --- on the driver ---

    def commit(self, written: Sequence[Written], batch: int | None) -> None:
        """Commit a batch: markers into all transactions, then commit the first one, then the others."""
        open_ones = [one for one in written if one.transaction is not None]
        with self._named():
            if open_ones:
                self._wait(self._commit(open_ones, batch, len(written)))
            elif batch is not None and any(one.skipped for one in written):
                self._wait(self._check(written[0].name, batch, len(written)))

    async def _check(self, name: TaskName, batch: int, tasks: int) -> None:
        marker = await self._transactions.marker(name.query_marker_group)
        is_written(marker, batch, what=name.query)
        check_tasks(marker, batch, tasks, what=name.query)

    async def _commit(self, written: Sequence[Written], batch: int | None, tasks: int) -> None:
        first = written[0]
        transactions = [one.transaction for one in written if one.transaction is not None]
        if batch is not None:
            await self._check(first.name, batch, tasks)
            markers = [self._mark(one, one.name.marker_group, batch, tasks) for one in written]
            group = first.name.query_marker_group
            await all_of([self._mark(first, group, batch, tasks), *markers])
        await self._transactions.end(transactions[0], commit=True)
        await all_of([self._transactions.end(one, commit=True) for one in transactions[1:]])

    async def _mark(self, written: Written, group: str, batch: int, tasks: int) -> None:
        assert written.transaction is not None
        assert written.topic is not None
        marker = Marker(batch=batch, tasks=tasks, rows=written.rows)
        await self._transactions.put_marker(written.transaction, group, written.topic, marker)

    def abort(self, written: Sequence[Written | None], query: str | None = None) -> None:
        """Abort a batch: its tasks' open transactions are aborted, so that consumers need not wait for them.

        A failed task (None) has no result; its transaction is ended by taking its transactional id, if the
        query's is known. Transactions that cannot be reached now end with their time-out or with the next
        attempt.
        """
        known = [one for one in written if one is not None]
        self._abort([one.transaction for one in known if one.transaction is not None])
        if query is None and known:
            query = known[0].name.query
        if query is not None and self._options.is_exactly_once:
            silent = [number for number, one in enumerate(written) if one is None]
            names = [TaskName(query=query, task=number, batch=None) for number in silent]
            self._wait(all_of([self._fence(name) for name in names]))

    async def _fence(self, name: TaskName) -> None:
        with contextlib.suppress(ClientError, SparkError):
            await self._quick.begin(
                name.transactional_id, transaction_timeout_ms=self._options.transaction_timeout_ms
            )

    def _abort(self, transactions: Sequence[Transaction]) -> None:
        async def abort(transaction: Transaction) -> None:
            # Committed, fenced or out of reach: it cannot be ended here.
            with contextlib.suppress(ClientError, SparkError):
                await self._quick.end(transaction, commit=False)

        self._wait(all_of([abort(one) for one in transactions]))

    def _named(self) -> contextlib.AbstractContextManager[None]:
        """Add the target of the rows to errors of brokers that are away."""
        return waiting_for_brokers(
            f"topic={self._options.topic}" if self._options.topic else "the topics of the rows",
            "kafka.delivery.timeout.ms",
            self._options.delivery_timeout_ms / 1000,
        )

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = self._submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
