"""The path of a record into the producer: interceptors, serializers, partitioner, the partition's queue."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeAlias

from millpond.base.ids import TopicPartition
from millpond.base.murmur2 import partition_for_key
from millpond.client._accumulator import Accumulator, Batch, record_size
from millpond.client._delivery import Delivery, OnDelivery, metadata_of
from millpond.client._random import SystemRng
from millpond.client._transaction import Transaction
from millpond.client.aio import Cluster
from millpond.client.config import ProducerConfig
from millpond.client.errors import BufferFull, ClientError, NotSerializable, RecordTooLarge
from millpond.client.interceptors import Chain
from millpond.client.partitioner import (
    StickyPartition,
    checked_partition,
    partitioner_of,
)
from millpond.client.records import ProducerRecord
from millpond.client.serializers import plain_bytes, serializer_of
from millpond.record import NewRecord

_log = logging.getLogger("millpond.client.producer")

# The topic, the partition if given, the record, its approximate size.
Prepared: TypeAlias = tuple[str, int | None, NewRecord, int]

_TIME_MS_MAX = 2**63 - 1


class Intake:
    """Processes a record before it is sent. ``wake`` is called when a batch may be ready."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        accumulator: Accumulator,
        transaction: Transaction | None,
        wake: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._transaction = transaction
        self._wake = wake
        named = {name.replace("_", "."): value for name, value in asdict(config).items()}
        self._rng = SystemRng()
        self._chain = Chain(config.interceptor_classes, named)
        self._partitioner = partitioner_of(config.partitioner_class, named, self._rng)
        self._serialize_key = serializer_of(config.key_serializer)
        self._serialize_value = serializer_of(config.value_serializer)
        self._size_max = min(config.max_request_size, config.buffer_memory)
        self._ignores_keys = config.partitioner_ignore_keys
        self._sticky: dict[str, StickyPartition] = {}
        self._places: dict[str, list[TopicPartition]] = {}
        self._room: deque[asyncio.Future[None]] = deque()
        self._flushing = 0
        self._filled = False
        self.failure: BaseException | None = (
            None  # the first failure that was not reported to a caller
        )
        self.is_closed = False

    def close(self) -> None:
        """Close interceptors and the partitioner; callers that wait for buffer space get an error."""
        self.is_closed = True
        while self._room:
            waiter = self._room.popleft()
            if not waiter.done():
                waiter.set_result(None)
        chain, self._chain = self._chain, Chain((), {})
        chain.close()
        partitioner, self._partitioner = self._partitioner, None
        close = getattr(partitioner, "close", None)
        if close is not None:
            close()

    def is_due_for_a_break(self) -> bool:
        """Return whether a batch was filled since the last call."""
        due, self._filled = self._filled, False
        return due

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Iterable[tuple[str, bytes | None]],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Prepared:
        """Run interceptors and serializers. Return the topic, the partition if given, the record, its
        size.
        """
        try:
            if self._chain.sends:
                record = self._chain.on_send(
                    ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
                )
                topic, value, key = record.topic, record.value, record.key
                partition, timestamp_ms = record.partition, record.timestamp_ms
                headers = record.headers
            key = self._to_bytes("key", self._serialize_key, topic, key)
            value = self._to_bytes("value", self._serialize_value, topic, value)
            if timestamp_ms is None:
                timestamp_ms = int(time.time() * 1000)
            elif not 0 <= timestamp_ms <= _TIME_MS_MAX:
                raise NotSerializable(
                    f"{timestamp_ms!r} is no time in milliseconds since 1970; give one from 0 on"
                )
            new: NewRecord = (timestamp_ms, key, value, _plain_headers(headers) if headers else ())
            size = record_size(new)
            if size > self._size_max:
                self._refuse_size(topic, size)
        except ClientError as error:
            self._chain.on_acknowledgement(None, error)
            raise
        return topic, partition, new, size

    def place(self, prepared: Prepared, on_delivery: OnDelivery | None) -> Delivery | None:
        """Put a prepared record into its queue; return None if that has to wait (``place_slowly``)."""
        topic, partition, record, size = prepared
        if self.is_closed:
            raise ClientError("the producer is closed")
        if self._room or not self._accumulator.has_room(size):
            return None
        now_s = asyncio.get_running_loop().time()
        info = self._cluster.known_topic(topic, now_s)
        if info is None:
            return None
        places = self._places.get(topic)
        if places is None or len(places) != len(info.partitions):
            places = [TopicPartition(topic, item.partition) for item in info.partitions]
            self._places[topic] = places
        count = len(places)
        if partition is None:
            partition = self._choose(topic, record, size, count)
        elif not 0 <= partition < count:
            return None
        place = places[partition]
        if self._transaction is not None:
            self._transaction.touch(place)
        batch, changed = self._accumulator.append(place, record, size, now_s)
        if changed:
            self._filled = True
            self._wake()
        index = len(batch.records) - 1
        if on_delivery is not None:
            batch.callbacks.append((index, on_delivery))
        return Delivery(batch, index)

    async def place_slowly(self, prepared: Prepared, on_delivery: OnDelivery | None) -> Delivery:
        """As ``place``, after waiting for buffer space and for the topic's metadata."""
        topic, partition, _, size = prepared
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                while (delivery := self.place(prepared, on_delivery)) is None:
                    if self._cluster.known_topic(topic) is None:
                        await self._cluster.topic(topic, create=True)
                    elif partition is not None:
                        await self._cluster.leader_of(TopicPartition(topic, partition), create=True)
                    await self._wait_for_room(size)
        except TimeoutError:
            error = BufferFull(
                f"no room for a record within {self._config.max_block_ms / 1000:g} s (max.block.ms):"
                f" {self._accumulator.used_bytes} bytes wait to be acknowledged (buffer.memory is"
                f" {self._config.buffer_memory}); write more slowly, or look why the broker is slow"
            )
            self._chain.on_acknowledgement(None, error)
            self.lost(error)
            raise error from None
        except ClientError as error:
            self._chain.on_acknowledgement(None, error)
            self.lost(error)
            raise
        return delivery

    def lost(self, error: ClientError) -> None:
        """Note a record that was not queued: its transaction must not be committed without it."""
        if self._transaction is not None:
            self._transaction.fail(error)

    async def _wait_for_room(self, size: int) -> None:
        while not self._accumulator.has_room(size):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(waiter)
            self.hurry()
            try:
                await waiter
            finally:
                if waiter in self._room:
                    self._room.remove(waiter)

    def _choose(self, topic: str, record: NewRecord, size: int, count: int) -> int:
        _, key, value, _ = record
        if self._partitioner is not None:
            try:
                chosen = self._partitioner.partition(topic, key, value, count)
            except Exception as error:
                raise ClientError(f"the partitioner failed: {error!r}") from error
            return checked_partition(chosen, topic, count)
        if key is not None and not self._ignores_keys:
            return partition_for_key(key, count)
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = StickyPartition(self._rng, self._config.batch_size)
        if not sticky.is_full(size):
            return sticky.take(size, count)
        adaptive = self._config.partitioner_adaptive_partitioning_enable
        return sticky.take(size, count, self._accumulator.loads(topic, count) if adaptive else None)

    def _to_bytes(self, what: str, serialize: Any, topic: str, given: Any) -> bytes | None:
        if serialize is None:
            return given if type(given) is bytes else plain_bytes(what, given)
        try:
            made: bytes | None = serialize(topic, given)
        except Exception as error:
            raise NotSerializable(f"the {what} serializer failed: {error!r}") from error
        return plain_bytes(what, made)

    def _refuse_size(self, topic: str, size: int) -> None:
        for name in ("max_request_size", "buffer_memory"):
            limit = getattr(self._config, name)
            if size > limit:
                raise RecordTooLarge(
                    f"{topic}: a record of {size} bytes is over {name.replace('_', '.')} ({limit})"
                )

    def on_settled(self, batch: Batch) -> None:
        """Release the batch's memory, and call interceptors and callbacks."""
        while self._room:
            waiter = self._room.popleft()
            if not waiter.done():
                waiter.set_result(None)
        unheard = not batch.callbacks and not batch.is_awaited
        if batch.error is not None and unheard and self.failure is None:
            self.failure = batch.error
        if self._chain.acknowledgements:
            for index in range(len(batch.records)):
                found = None if batch.error is not None else metadata_of(batch, index)
                self._chain.on_acknowledgement(found, batch.error)
        for index, callback in batch.callbacks:
            try:
                callback(
                    None if batch.error is not None else metadata_of(batch, index), batch.error
                )
            except Exception:  # noqa: BLE001  (other people's code)
                _log.exception("a delivery callback failed")

    def hurry(self, by: int = 0) -> None:
        """Send without lingering during a flush (``by`` counts them) or while a caller waits for buffer
        space.
        """
        self._flushing += by
        self._accumulator.hurry = self._flushing > 0 or bool(self._room)
        if self._accumulator.hurry:
            self._wake()


def _plain_headers(
    headers: Iterable[tuple[str, bytes | None]],
) -> tuple[tuple[str, bytes | None], ...]:
    """Refuse invalid headers here: a batch holds the records of many callers."""
    plain = []
    for name, value in headers:
        if not isinstance(name, str):
            raise NotSerializable(f"a header's name is {type(name).__name__}, not text")
        plain.append((name, plain_bytes("header", value)))
    return tuple(plain)
