"""The producer's sender: takes ready batches, sends them to their leaders, handles the responses.

Everything is decided in ``_pump``, which never waits: it runs when a batch is ready, a response comes, or a
timer is due. Slow work (connecting, fetching metadata, a producer id, the transaction's coordinator) is a
task that wakes the pump at its end. Requests to one broker are written in the order of their batches and up
to ``max.in.flight`` of them wait for responses.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any

from millpond.base.errors import MillpondError
from millpond.base.ids import TopicPartition
from millpond.client._accumulator import Accumulator, Batch
from millpond.client._connection import Connection
from millpond.client._produce_request import produce_request, results_of
from millpond.client._sequences import Sequences, Verdict
from millpond.client._transaction import Transaction
from millpond.client._transaction_calls import TransactionCalls, ask_identity
from millpond.client.aio import Cluster
from millpond.client.config import ACKS_NONE, ProducerConfig
from millpond.client.errors import (
    BrokerRefused,
    ClientError,
    NotSerializable,
    OutOfTime,
    ProducerFenced,
)
from millpond.record import Compression, build_batch
from millpond.wire.kafka.api import RETRIABLE, ApiKey, ErrorCode
from millpond.wire.kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)

_log = logging.getLogger("millpond.client.producer")

_REQUEST_OVERHEAD = 128  # a request's own fields beside its batches

_SEQUENCE_REFUSED = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)


class _Node:
    """One broker: its connection, and the number of requests in flight."""

    __slots__ = ("connection", "in_flight", "not_before_s")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.in_flight = 0
        self.not_before_s = 0.0


class Sender:
    """Sends the accumulator's batches. ``on_settled`` is called with every finished batch."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        *,
        transaction: Transaction | None,
        calls: TransactionCalls | None,
        on_settled: Callable[[Batch], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._transaction = transaction
        self._calls = calls
        self._on_settled = on_settled
        self.sequences: Sequences | None = None
        if config.is_idempotent:
            self.sequences = Sequences(transactional=transaction is not None)
        self._codec = Compression.named(config.compression_type)
        self._in_flight_max = config.max_in_flight_requests_per_connection
        self._nodes: dict[int, _Node] = {}
        self._busy: set[TopicPartition] = set()
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._lane = f"produce {id(self)}"
        self._woken = False
        self._answer_came = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._obstacle = "no broker was asked yet"

    def wake(self) -> None:
        """Run the pump soon; any number of calls until then count as one."""
        if not self._woken:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._pump)

    async def close(self) -> None:
        """Stop at once; the caller has set the results of all batches."""
        if self._timer is not None:
            self._timer.cancel()
        self._woken = True  # for ever: the pump is not started again
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._cluster.close_lane(self._lane)

    def give_up(self, batch: Batch, error: BaseException) -> None:
        """Fail a batch without sending it (again)."""
        self._accumulator.drop(batch)
        if self.sequences is not None:
            self.sequences.given_up(batch)
        if self._transaction is not None:
            self._transaction.fail(error)
        if not batch.is_done:
            batch.settle(error)
            self._on_settled(batch)

    async def quiet(self, error: BaseException) -> None:
        """Fail the batches that are not in flight, and wait for the responses of those that are."""
        while True:
            for batch in self._accumulator.waiting():
                self.give_up(batch, error)
            adding = self._tasks.get("add partitions")
            if adding is not None:
                await asyncio.wait([adding])
            elif self._accumulator.unfinished:
                self._answer_came.clear()
                await self._answer_came.wait()
            else:
                return

    # --- deciding what to send ---

    def _pump(self) -> None:
        self._woken = False
        now_s = asyncio.get_running_loop().time()
        self._expire(now_s)
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in self._accumulator.ready(now_s):
            leader = self._leader_of(partition)
            if leader is not None:
                by_leader.setdefault(leader, []).append(partition)
        for leader, partitions in by_leader.items():
            self._send_to(leader, partitions, now_s)
        self._set_timer(now_s)

    def _expire(self, now_s: float) -> None:
        timeout_s = self._config.delivery_timeout_ms / 1000
        for batch in self._accumulator.late(now_s - timeout_s):
            error = OutOfTime(
                f"writing to {batch.partition}: not done in {timeout_s:g} s"
                f" (delivery.timeout.ms): {self._obstacle}"
            )
            if not batch.on_wire:
                self.give_up(batch, error)
            elif not batch.is_done:  # its response still matters to the sequence numbers
                batch.settle(error)
                if self._transaction is not None:
                    self._transaction.fail(error)
                self._on_settled(batch)

    def _leader_of(self, partition: TopicPartition) -> int | None:
        info = self._cluster.known_topic(partition.topic)
        if info is not None and partition.partition < len(info.partitions):
            leader = info.partitions[partition.partition].leader
            if leader >= 0:
                return leader
        self._once(("topic", partition.topic), self._learn, partition.topic)
        return None

    def _send_to(self, leader: int, partitions: list[TopicPartition], now_s: float) -> None:
        node = self._nodes.get(leader)
        if node is None:
            node = self._nodes[leader] = _Node()
        if node.not_before_s > now_s:
            return
        connection = node.connection
        if connection is None or not connection.is_open:
            self._once(("connect", leader), self._connect, leader, node, partitions)
            return
        while node.in_flight < self._in_flight_max:
            if not connection.is_writable:
                self._once(("drain", leader), connection.writable)
                return
            batches = self._collect(partitions, now_s)
            if not batches:
                return
            self._send(node, connection, batches)

    def _collect(self, partitions: list[TopicPartition], now_s: float) -> list[Batch]:
        """Return one batch of each partition that has one to send, as many as a request may carry."""
        batches: list[Batch] = []
        size = _REQUEST_OVERHEAD
        for partition in partitions:
            batch = self._accumulator.first(partition)
            if batch is None or not self._accumulator.is_ready(partition, now_s):
                continue
            if batches and size + batch.size > self._config.max_request_size:
                break
            if not self._may_send(batch):
                continue
            self._accumulator.take(partition)
            if self.sequences is not None:
                self.sequences.number(batch)
            batches.append(batch)
            size += batch.size
        return batches

    def _may_send(self, batch: Batch) -> bool:
        transaction = self._transaction
        if transaction is not None and not transaction.may_send(batch.partition):
            self._once("add partitions", self._add_partitions)
            return False
        if self.sequences is not None:
            allowed = self.sequences.may_send(batch)
            if self.sequences.identity is None and transaction is None:
                self._once("identity", self._identify)
            return allowed
        return self._in_flight_max > 1 or batch.partition not in self._busy

    def _set_timer(self, now_s: float) -> None:
        times = [self._accumulator.next_time(now_s)]
        oldest_s = self._accumulator.oldest_s()
        if oldest_s is not None:
            times.append(oldest_s + self._config.delivery_timeout_ms / 1000)
        times.extend(node.not_before_s for node in self._nodes.values())
        due = min((time for time in times if time is not None and time > now_s), default=None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self.wake)

    # --- sending and responses ---

    def _send(self, node: _Node, connection: Connection, batches: list[Batch]) -> None:
        batches = [batch for batch in batches if self._encode(batch)]
        if not batches:
            return
        for batch in batches:
            batch.on_wire = True
        request, at_most = produce_request(batches, self._cluster, self._config, self._transaction)
        expected = self._config.acks != ACKS_NONE
        try:
            version = connection.version_of(ApiKey.PRODUCE, at_most)
            answer = connection.submit(
                ApiKey.PRODUCE, request, version=version, expect_response=expected
            )
        except ClientError as error:
            for batch in batches:
                self._back(batch)
                self._unanswered(batch, error)
            return
        if answer is None:
            for batch in batches:
                self._back(batch)
                self._arrived(batch, -1, -1)
            return
        node.in_flight += 1
        self._busy.update(batch.partition for batch in batches)
        limit_s = self._config.request_timeout_ms / 1000
        limit = asyncio.get_running_loop().call_later(
            limit_s, connection.close, f"no answer to a write within {limit_s:g} s"
        )
        answer.add_done_callback(partial(self._answered, node, batches, request, limit))

    def _encode(self, batch: Batch) -> bool:
        """Encode the batch. Return False if that fails; the batch has failed then."""
        if batch.data is not None:
            return True
        producer_id, epoch = batch.identity or (-1, -1)
        try:
            batch.data = build_batch(
                batch.records,
                compression=self._codec,
                level=self._config.compression_level,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=batch.sequence,
                transactional=self._transaction is not None,
            )
        except (TypeError, ValueError, OverflowError, MillpondError) as error:
            problem = NotSerializable(f"writing to {batch.partition}: {error!r}")
            self.give_up(batch, problem)
            return False
        return True

    def _answered(
        self,
        node: _Node,
        batches: list[Batch],
        request: ProduceRequest,
        limit: asyncio.TimerHandle,
        answer: "asyncio.Future[ProduceResponse]",
    ) -> None:
        limit.cancel()
        node.in_flight -= 1
        for batch in batches:
            self._back(batch)
        error = None if answer.cancelled() else answer.exception()
        if answer.cancelled() or error is not None:
            reason = error if isinstance(error, ClientError) else ClientError("it was cancelled")
            for batch in batches:
                self._unanswered(batch, reason)
        else:
            response = answer.result()
            if response.throttle_time_ms > 0:
                now_s = asyncio.get_running_loop().time()
                node.not_before_s = now_s + response.throttle_time_ms / 1000
            self._judge_all(batches, request, response)
        self._answer_came.set()
        self.wake()

    def _back(self, batch: Batch) -> None:
        batch.on_wire = False
        self._busy.discard(batch.partition)

    def _judge_all(
        self, batches: list[Batch], request: ProduceRequest, response: ProduceResponse
    ) -> None:
        results = results_of(request, response)
        for batch in batches:
            result = results.get(batch.partition)
            if result is None:
                self._unanswered(batch, ClientError(f"the broker left {batch.partition} out"))
            else:
                self._judge(batch, result)

    def _judge(self, batch: Batch, result: PartitionProduceResponse) -> None:
        code = result.error_code
        if code in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
            self._arrived(batch, result.base_offset, result.log_append_time_ms)
            return
        reason = result.error_message
        if result.record_errors:
            reason = result.record_errors[0].batch_index_error_message or reason
        refusal = BrokerRefused(code, reason, subject=str(batch.partition))
        if code in _SEQUENCE_REFUSED and self.sequences is not None:
            if self.sequences.refused(batch) is Verdict.SEND_AGAIN:
                self._again(batch, refusal, is_its_own_fault=False)
            else:
                self.give_up(batch, refusal)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and self._split(batch):
            pass
        elif code == ErrorCode.PRODUCER_FENCED and self._transaction is not None:
            fenced = ProducerFenced(f"{self._transaction.transactional_id}: {refusal}")
            self._transaction.fence(fenced)
            self.give_up(batch, fenced)
        elif code in RETRIABLE:
            self._cluster.forget_topic(batch.partition.topic)
            self._again(batch, refusal)
        else:
            self.give_up(batch, refusal)

    def _arrived(self, batch: Batch, base_offset: int, time_ms: int) -> None:
        self._accumulator.drop(batch)
        if self.sequences is not None:
            self.sequences.taken(batch)
        if not batch.is_done:
            batch.settle(base_offset=base_offset, time_ms=time_ms)
            self._on_settled(batch)

    def _unanswered(self, batch: Batch, error: ClientError) -> None:
        """Handle a batch without a response: whether the leader has it is unknown."""
        self._cluster.forget_topic(batch.partition.topic)
        self._again(batch, error)

    def _again(self, batch: Batch, error: ClientError, *, is_its_own_fault: bool = True) -> None:
        """Retry a batch. A failure caused by the batch before it does not count against ``retries``."""
        self._obstacle = str(error)
        batch.attempts += is_its_own_fault
        if batch.is_done or batch.attempts > self._config.retries:
            self.give_up(batch, error)
            return
        self._accumulator.put_back(batch, asyncio.get_running_loop().time() + self._pause_s(batch))

    def _split(self, batch: Batch) -> bool:
        if batch.is_done or not self._accumulator.split(batch):
            return False
        if self.sequences is not None:
            self.sequences.split(batch)
        return True

    def _pause_s(self, batch: Batch) -> float:
        doubled: int = self._config.retry_backoff_ms << min(max(batch.attempts - 1, 0), 16)
        return min(doubled, self._config.retry_backoff_max_ms) / 1000

    # --- slow work ---

    def _once(
        self, key: Hashable, work: Callable[..., Coroutine[Any, Any, None]], *args: Any
    ) -> None:
        """Run this unless it runs already; then run the pump again."""
        if key in self._tasks:
            return

        async def run() -> None:
            try:
                await work(*args)
            except ClientError as error:
                self._obstacle = str(error)
                await asyncio.sleep(self._config.retry_backoff_ms / 1000)
            finally:
                self._tasks.pop(key, None)
                self.wake()

        self._tasks[key] = asyncio.get_running_loop().create_task(run(), name=f"produce: {key}")

    async def _learn(self, topic: str) -> None:
        try:
            info = await self._cluster.topic(topic, create=True, refresh=True)
            for batch in self._accumulator.waiting():
                name, number = batch.partition
                if name == topic and number >= len(info.partitions):
                    self.give_up(batch, _no_such(batch.partition, len(info.partitions)))
                elif name == topic and info.partitions[number].leader < 0:
                    raise BrokerRefused(
                        ErrorCode.LEADER_NOT_AVAILABLE, subject=str(batch.partition)
                    )
        except BrokerRefused as refusal:
            if not refusal.is_final:
                raise
            for batch in self._accumulator.waiting():
                if batch.partition.topic == topic:
                    self.give_up(batch, refusal)

    async def _connect(self, leader: int, node: _Node, partitions: list[TopicPartition]) -> None:
        try:
            node.connection = await self._cluster.connection_to(leader, lane=self._lane)
        except ClientError:
            for partition in partitions:  # the broker may not lead them any more
                self._cluster.forget_topic(partition.topic)
            raise

    async def _identify(self) -> None:
        assert self.sequences is not None
        try:
            self.sequences.adopt(await ask_identity(self._cluster))
        except BrokerRefused as refusal:
            for batch in self._accumulator.waiting():
                self.give_up(batch, refusal)

    async def _add_partitions(self) -> None:
        assert self._transaction is not None
        assert self._calls is not None
        assert self.sequences is not None
        wanted = self._transaction.to_add()
        if not wanted or self.sequences.identity is None:
            return
        try:
            await self._calls.add_partitions(
                self.sequences.identity, wanted, self._config.max_block_ms / 1000
            )
        except ClientError as error:
            if isinstance(error, ProducerFenced):
                self._transaction.fence(error)
            else:
                self._transaction.fail(error)
            for batch in self._accumulator.waiting():
                self.give_up(batch, error)
            return
        self._transaction.added(wanted)


def _no_such(partition: TopicPartition, count: int) -> BrokerRefused:
    return BrokerRefused(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"the topic has {count} partitions",
        subject=str(partition),
    )
