"""The producer for code without an event loop.

``send`` runs interceptors and serializers in the caller's thread and queues the record; the producer's
background thread batches and sends (Kafka's Sender thread). Queueing costs a lock and, if the other thread
sleeps, a wake-up; nothing waits for a thread switch.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from millpond.base.ids import TopicPartition
from millpond.client._delivery import Appended, Delivery, OnDelivery
from millpond.client._intake import Prepared
from millpond.client._portal import Portal, blocking
from millpond.client._where import Where
from millpond.client.errors import BufferFull, ClientError, OutOfTime, TransactionBroken
from millpond.client.producer import Producer
from millpond.client.records import GroupMetadata, OffsetAndMetadata, RecordMetadata
from millpond.record import NewRecord

_HANDED_OVER_BYTES_MAX = 4 * 1024 * 1024  # between the threads, beside buffer.memory


class _Unheard:
    """The first failure that was not reported to a caller; reporting it later removes it."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: BaseException | None = None

    def add(self, error: BaseException) -> None:
        if self._first is None:
            self._first = error

    def remove(self, error: BaseException) -> None:
        if self._first is error:
            self._first = None

    def take(self) -> BaseException | None:
        first, self._first = self._first, None
        return first


class BlockingDelivery:
    """The pending result of one record: ``delivery.result()`` waits for it."""

    __slots__ = ("_callback", "_done", "_error", "_metadata", "_on_done", "_unheard")

    def __init__(self, callback: OnDelivery | None, unheard: _Unheard) -> None:
        self._callback = callback
        self._unheard = unheard
        self._metadata: RecordMetadata | None = None
        self._error: BaseException | None = None
        self._done = False
        self._on_done: threading.Event | None = None

    def done(self) -> bool:
        """Return whether the result is known."""
        return self._done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the result, up to ``timeout`` seconds; raises why the record could not be delivered."""
        if not self._done:
            waiter = self._on_done
            if waiter is None:
                waiter = self._on_done = threading.Event()
            # The result may have come in between; ``settle`` looks for the event after setting it.
            if not self.done() and not waiter.wait(timeout):
                raise OutOfTime(f"not delivered within {timeout:g} s; it may still be")
        if self._error is not None:
            self._unheard.remove(self._error)
            raise self._error
        assert self._metadata is not None
        return self._metadata

    def settle(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Set the result; called in the producer's thread."""
        self._metadata, self._error = metadata, error
        self._done = True
        if error is not None and self._callback is None and self._on_done is None:
            self._unheard.add(error)
        if self._on_done is not None:
            self._on_done.set()
        if self._callback is not None:
            self._callback(metadata, error)


class BlockingProducer:
    """Writes records. Use as ``with BlockingProducer("localhost:9092") as producer:``; leaving it flushes.

    Takes the arguments of ``Producer``. Thread-safe.
    """

    def __init__(self, where: Where = None, **settings: Any) -> None:
        self._portal = Portal()
        self._inner = self._portal.make(lambda: Producer(where, **settings))
        self.config = self._inner.config
        self._intake = self._inner.intake
        self._changed = threading.Condition()
        self._handed: deque[tuple[Prepared, BlockingDelivery]] = deque()
        self._handed_bytes = 0
        self._is_awake = False
        self._slow: asyncio.Task[None] | None = None
        self._unheard = _Unheard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> BlockingDelivery:
        """Queue a record; waits while the buffer is full. ``result()`` of the returned object waits for
        delivery.

        ``on_delivery(metadata, error)`` is called in the producer's thread.
        """
        prepared = self._intake.prepare(topic, value, key, headers, partition, timestamp_ms)
        delivery = BlockingDelivery(on_delivery, self._unheard)
        size = prepared[3]
        with self._changed:
            if self._intake.is_closed:
                raise ClientError("the producer is closed")
            if self._handed_bytes and self._handed_bytes + size > _HANDED_OVER_BYTES_MAX:
                self._wait_for_room(size)
            self._handed.append((prepared, delivery))
            self._handed_bytes += size
            wake = not self._is_awake
            self._is_awake = True
        if wake:
            self._portal.loop.call_soon_threadsafe(self._take_over)
        return delivery

    def flush(self) -> None:
        """Wait until everything sent is acknowledged. Raises the first failure that was not reported
        otherwise.
        """

        async def work() -> None:
            await self._all_taken_over()
            await self._inner.flush()

        self._portal.run(work())
        failure = self._unheard.take()
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Flush, then refuse further records."""
        if self._portal.is_closed:
            return
        try:
            self.flush()
            self._portal.run(self._inner.close())
        finally:
            self.abort()

    def abort(self) -> None:
        """Fail everything that is not acknowledged yet, and close."""
        if self._portal.is_closed:
            return
        try:
            self._portal.run(self._inner.abort())
        finally:
            self._portal.close()
            while self._handed:
                _, delivery = self._handed.popleft()
                delivery.settle(None, ClientError("the producer was closed before this was sent"))

    def send_batch(self, topic: str, partition: int, records: Sequence[NewRecord]) -> Appended:
        """See ``Producer.send_batch``."""
        return self._portal.run(self._inner.send_batch(topic, partition, records))

    partitions_for = blocking(Producer.partitions_for)
    init_transactions = blocking(Producer.init_transactions)
    begin_transaction = blocking(Producer.begin_transaction)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """``with producer.transaction():`` commits at the end, and aborts if an exception leaves it."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            self.abort_transaction()
            raise
        try:
            self.commit_transaction()
        except TransactionBroken:
            self.abort_transaction()
            raise

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | GroupMetadata
    ) -> None:
        """See ``Producer.send_offsets_to_transaction``."""
        self._portal.run(self._inner.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        """See ``Producer.commit_transaction``."""
        self._portal.run(self._after_handing_over(commit=True))

    def abort_transaction(self) -> None:
        """See ``Producer.abort_transaction``."""
        self._portal.run(self._after_handing_over(commit=False))

    async def _after_handing_over(self, *, commit: bool) -> None:
        await self._all_taken_over()
        if commit:
            await self._inner.commit_transaction()
        else:
            await self._inner.abort_transaction()
            self._unheard.take()  # an abort drops records on purpose

    def _wait_for_room(self, size: int) -> None:
        timeout_s = self.config.max_block_ms / 1000
        if not self._changed.wait_for(
            lambda: not self._handed_bytes or self._handed_bytes + size <= _HANDED_OVER_BYTES_MAX,
            timeout_s,
        ):
            raise BufferFull(
                f"no room for a record within {timeout_s:g} s (max.block.ms); write more slowly,"
                " or look why the broker is slow"
            )

    # --- in the producer's thread ---

    async def _all_taken_over(self) -> None:
        self._take_over()
        while self._slow is not None:
            await asyncio.wait([self._slow])

    def _take_over(self) -> None:
        while self._slow is None:
            with self._changed:
                taken, self._handed = self._handed, deque()
                self._handed_bytes = 0
                self._changed.notify_all()
                if not taken:
                    self._is_awake = False
                    return
            while taken:
                prepared, delivery = taken[0]
                try:
                    placed = self._intake.place(prepared, delivery.settle)
                except ClientError as error:
                    self._intake.lost(error)
                    delivery.settle(None, error)
                    taken.popleft()
                    continue
                if placed is None:
                    work = self._take_over_slowly(taken)
                    self._slow = self._portal.loop.create_task(work, name="hand over")
                    return
                taken.popleft()

    async def _take_over_slowly(self, taken: deque[tuple[Prepared, BlockingDelivery]]) -> None:
        """Queue records while one has to wait, and all after it with it."""
        while taken:
            prepared, delivery = taken.popleft()
            try:
                placed: Delivery | None = self._intake.place(prepared, delivery.settle)
                if placed is None:
                    await self._intake.place_slowly(prepared, delivery.settle)
            except ClientError as error:
                self._intake.lost(error)
                delivery.settle(None, error)
        self._slow = None
        self._take_over()
