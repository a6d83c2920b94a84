"""Writing: records gathered into batches, one batch at a time for each partition.

One batch in flight for a partition keeps its records in order whatever is retried, and makes idempotence
simple: a batch has its sequence numbers from the moment it is built until the broker has answered for good.
Partitions do not wait for one another. While a batch is under way the next one fills, so a slow broker
makes larger batches, and memory is bounded by ``buffer_bytes``.

Without idempotence a batch may be written twice when a connection breaks before its answer.
"""

import asyncio
import time
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from random import SystemRandom
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from millpond.base.ids import TopicPartition
from millpond.client._attempts import Attempts
from millpond.client._connection import Connection
from millpond.client.aio import Cluster
from millpond.client.errors import BrokerRefused, ClientError, ConnectionLost
from millpond.client.partitioner import StickyPartition, partition_for_key
from millpond.record import Compression, NewRecord, build_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ACKS_ALL = -1
ACKS_LEADER = 1
ACKS_NONE = 0

# Since this version topics are named by their id, which an old broker may not have told us.
_TOPIC_IDS_FROM = 13
_NO_ID = UUID(int=0)

# What a record takes beside its key and value, about: lengths, deltas, attributes.
_RECORD_OVERHEAD = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Where a batch went. ``base_offset`` is -1 with acks=0: nobody said."""

    partition: TopicPartition
    base_offset: int
    record_count: int
    append_time_ms: int = -1


class _Batch:
    """Records on their way to one partition."""

    __slots__ = ("done", "due", "records", "size")

    def __init__(self) -> None:
        self.records: list[NewRecord] = []
        self.size = 0
        self.due = False
        self.done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()


class Delivery:
    """The promise of one record: ``offset = await delivery``."""

    __slots__ = ("_batch", "_index", "partition")

    def __init__(self, batch: _Batch, index: int, partition: TopicPartition) -> None:
        self._batch = batch
        self._index = index
        self.partition = partition

    def __await__(self) -> Generator[Any, None, int]:
        # Shielded: others wait for the same batch, and one of them giving up must not cancel it.
        appended = yield from asyncio.shield(self._batch.done).__await__()
        return appended.base_offset + self._index if appended.base_offset >= 0 else -1


class _Lane:
    """One partition's batches in order, the task that sends them, and its sequence numbers."""

    __slots__ = ("open", "partition", "producer", "queue", "sender", "sequence", "timer")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.open: _Batch | None = None
        self.queue: deque[_Batch] = deque()
        self.sender: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.producer: tuple[int, int] | None = None
        self.sequence = 0


class Producer:
    """Writes records. Use as ``async with Producer(cluster) as producer:``; leaving it flushes.

    ``send`` takes single records and gathers them; ``send_batch`` writes what it is given as one batch.
    Both retry what may pass until ``delivery_s`` is over. Errors that no one awaited are raised by
    ``flush`` and on leaving.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        idempotent: bool = False,
        compression: Compression = Compression.NONE,
        linger_ms: int = 0,
        batch_bytes: int = 256 * 1024,
        buffer_bytes: int = 32 * 1024 * 1024,
        delivery_s: float = 120.0,
        request_s: float = 30.0,
    ) -> None:
        if idempotent and acks != ACKS_ALL:
            raise ClientError("an idempotent producer needs acks=all")
        self._cluster = cluster
        self._acks = acks
        self._idempotent = idempotent
        self._compression = compression
        self._linger_s = linger_ms / 1000
        self._batch_bytes = batch_bytes
        self._buffer_bytes = buffer_bytes
        self._delivery_s = delivery_s
        self._request_s = request_s
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._sticky: dict[str, tuple[StickyPartition, _Lane]] = {}
        self._rng = _SystemRng()
        self._producer: tuple[int, int] | None = None
        self._producer_lock = asyncio.Lock()
        self._buffered = 0
        self._room = asyncio.Event()
        self._room.set()
        self._failure: BaseException | None = None
        self._closed = False

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
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Add a record to its partition's next batch; waits while the buffer is full.

        The record is on its way when this returns; await the result to know that it arrived.
        """
        size = _RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        while self._buffered + size > self._buffer_bytes and self._buffered:
            self._room.clear()
            await self._room.wait()
        if self._closed:
            raise ClientError("the producer is closed")
        if partition is not None:
            lane = self._lane(TopicPartition(topic, partition))
        elif key is None:
            lane = await self._sticky_lane(topic, size)
        else:
            info = self._cluster.known_topic(topic) or await self._cluster.topic(topic, create=True)
            chosen = partition_for_key(key, len(info.partitions))
            lane = self._lane(TopicPartition(topic, chosen))
        batch = lane.open
        if batch is not None and batch.size + size > self._batch_bytes:
            self._close_batch(lane)
            batch = None
        if batch is None:
            batch = lane.open = self._open_batch(lane)
        now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        batch.records.append((now_ms, key, value, tuple(headers)))
        batch.size += size
        self._buffered += size
        delivery = Delivery(batch, len(batch.records) - 1, lane.partition)
        if batch.size >= self._batch_bytes:
            self._close_batch(lane)
            await asyncio.sleep(0)  # a caller in a tight loop must let the senders send
        return delivery

    async def flush(self) -> None:
        """Wait until all that was sent is acknowledged. Raises the first failure since the last flush."""
        for lane in self._lanes.values():
            if lane.open is not None:
                self._close_batch(lane)
        senders = [lane.sender for lane in self._lanes.values() if lane.sender is not None]
        if senders:
            await asyncio.wait(senders)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close(self) -> None:
        """Flush, then take no more."""
        self._closed = True
        try:
            await self.flush()
        finally:
            await self.abort()

    async def abort(self) -> None:
        """Give up what is not acknowledged yet."""
        self._closed = True
        senders = []
        for lane in self._lanes.values():
            if lane.timer is not None:
                lane.timer.cancel()
            if lane.sender is not None:
                lane.sender.cancel()
                senders.append(lane.sender)
            waiting = [*lane.queue, lane.open] if lane.open is not None else [*lane.queue]
            for batch in waiting:
                self._settle(batch, ClientError("the producer was closed before this was sent"))
            lane.queue.clear()
            lane.open = None
        if senders:
            await asyncio.wait(senders)
        self._failure = None

    # --- whole batches ---

    async def send_batch(
        self, topic: str, partition: int, records: Sequence[NewRecord]
    ) -> Appended:
        """Write records as one batch, behind what the partition's queue holds, and wait for the answer."""
        if self._closed:
            raise ClientError("the producer is closed")
        lane = self._lane(TopicPartition(topic, partition))
        if lane.open is not None:
            self._close_batch(lane)
        batch = _Batch()
        batch.records.extend(records)
        lane.queue.append(batch)
        self._start_sender(lane)
        try:
            return await asyncio.shield(batch.done)
        except ClientError as error:
            if self._failure is error:
                self._failure = None  # this caller has heard of it
            raise

    # --- inside ---

    async def _sticky_lane(self, topic: str, size: int) -> _Lane:
        """Where a record of this size without a key goes."""
        known = self._sticky.get(topic)
        if known is not None:
            open_batch = known[1].open
            if open_batch is not None and open_batch.size + size <= self._batch_bytes:
                return known[1]
        info = await self._cluster.topic(topic, create=True)
        count = len(info.partitions)
        if known is None:
            sticky = StickyPartition(self._rng)
        else:
            sticky = known[0]
            sticky.move(count)  # the batch that it stuck to is closed or full
        lane = self._lane(TopicPartition(topic, sticky.current(count)))
        self._sticky[topic] = (sticky, lane)
        return lane

    def _lane(self, partition: TopicPartition) -> _Lane:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = _Lane(partition)
        return lane

    def _open_batch(self, lane: _Lane) -> _Batch:
        batch = _Batch()
        if self._linger_s > 0:
            loop = asyncio.get_running_loop()
            lane.timer = loop.call_later(self._linger_s, self._close_batch, lane)
        else:
            batch.due = True
            lane.open = batch
            self._start_sender(lane)
        return batch

    def _close_batch(self, lane: _Lane) -> None:
        """Nothing more goes into the open batch; it may be sent."""
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        if lane.open is not None:
            lane.queue.append(lane.open)
            lane.open = None
            self._start_sender(lane)

    def _start_sender(self, lane: _Lane) -> None:
        if lane.sender is None:
            lane.sender = asyncio.get_running_loop().create_task(
                self._send_lane(lane), name=f"produce {lane.partition}"
            )

    async def _send_lane(self, lane: _Lane) -> None:
        """Send the lane's batches one after the other until there are none."""
        try:
            while True:
                if lane.queue:
                    batch = lane.queue.popleft()
                elif lane.open is not None and lane.open.due:
                    batch, lane.open = lane.open, None
                else:
                    return
                try:
                    result: Appended | BaseException = await self._deliver(lane, batch)
                except ClientError as error:
                    result = error
                except BaseException:
                    self._settle(batch, ClientError("the producer was closed before the answer"))
                    raise
                self._settle(batch, result)
        finally:
            lane.sender = None

    def _settle(self, batch: _Batch, result: Appended | BaseException) -> None:
        self._buffered -= batch.size
        if self._buffered < self._buffer_bytes:
            self._room.set()
        if batch.done.done():
            return
        if isinstance(result, BaseException):
            batch.done.set_exception(result)
            batch.done.exception()  # seen: flush raises it for those who never asked
            if self._failure is None:
                self._failure = result
        else:
            batch.done.set_result(result)

    async def _deliver(self, lane: _Lane, batch: _Batch) -> Appended:
        producer_id, producer_epoch, sequence = -1, -1, -1
        if self._idempotent:
            producer = await self._producer_identity()
            if lane.producer != producer:
                lane.producer = producer
                lane.sequence = 0
            producer_id, producer_epoch = producer
            sequence = lane.sequence
        data = build_batch(
            batch.records,
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        try:
            appended = await self._produce(lane.partition, data, len(batch.records))
        except BaseException:
            # Whether the broker has it is unknown, so the sequence cannot go on: begin a new one.
            self._producer = None
            raise
        if self._idempotent:
            lane.sequence = (sequence + len(batch.records)) & 0x7FFFFFFF
        return appended

    async def _producer_identity(self) -> tuple[int, int]:
        async with self._producer_lock:
            if self._producer is None:
                attempts = self._cluster.attempts("asking for a producer id", self._request_s)
                while True:
                    answer: InitProducerIdResponse = await self._cluster.ask_any(
                        ApiKey.INIT_PRODUCER_ID,
                        InitProducerIdRequest(
                            transactional_id=None, transaction_timeout_ms=2**31 - 1
                        ),
                        attempts=attempts,
                    )
                    if answer.error_code == ErrorCode.NONE:
                        break
                    await attempts.after(BrokerRefused(answer.error_code))
                self._producer = (answer.producer_id, answer.producer_epoch)
            return self._producer

    async def _produce(self, partition: TopicPartition, data: bytearray, count: int) -> Appended:
        attempts = self._cluster.attempts(
            f"writing to {partition}", self._delivery_s, request_s=self._request_s
        )

        async def ask(
            connection: Connection, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, Appended | BrokerRefused]:
            return {partition: await self._ask(connection, partition, data, count, attempts)}

        outcomes = await self._cluster.ask_leaders([partition], ask, attempts=attempts, create=True)
        outcome = outcomes[partition]
        if isinstance(outcome, BrokerRefused):
            raise outcome
        return outcome

    async def _ask(
        self,
        connection: Connection,
        partition: TopicPartition,
        data: bytearray,
        count: int,
        attempts: Attempts,
    ) -> Appended | BrokerRefused:
        topic = await self._cluster.topic(partition.topic, create=True, attempts=attempts)
        named_by_id = topic.topic_id != _NO_ID
        version = connection.version_of(
            ApiKey.PRODUCE, at_most=None if named_by_id else _TOPIC_IDS_FROM - 1
        )
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=min(attempts.left_ms(), int(self._request_s * 1000)),
            topic_data=[
                TopicProduceData(
                    name=partition.topic,
                    topic_id=topic.topic_id,
                    partition_data=[PartitionProduceData(index=partition.partition, records=data)],
                )
            ],
        )
        answer: ProduceResponse | None = await connection.request(
            ApiKey.PRODUCE,
            request,
            version=version,
            expect_response=self._acks != ACKS_NONE,
        )
        if answer is None:
            return Appended(partition=partition, base_offset=-1, record_count=count)
        if not answer.responses or not answer.responses[0].partition_responses:
            raise ConnectionLost(f"{connection.address} answered for no partition")
        [result] = answer.responses[0].partition_responses
        duplicate = result.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if result.error_code != ErrorCode.NONE and not duplicate:
            reason = result.error_message
            if result.record_errors:
                reason = result.record_errors[0].batch_index_error_message or reason
            return BrokerRefused(result.error_code, reason, subject=str(partition))
        return Appended(
            partition=partition,
            base_offset=result.base_offset,
            record_count=count,
            append_time_ms=result.log_append_time_ms,
        )


class _SystemRng:
    """Chance for the choice of partitions."""

    def __init__(self) -> None:
        self._random = SystemRandom()

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def uuid4(self) -> UUID:
        return uuid4()
