"""Records waiting to be sent, in batches, partition by partition. No clock, no sockets: time is an argument.

A batch is ready when it is full, when its oldest record has waited ``linger_s``, during a flush, when memory
is short, or when it is to be sent again and its backoff is over. Only the first batch of a partition is ever
ready: order within a partition is the order of this queue.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from millpond.base.ids import TopicPartition
from millpond.record import NewRecord

NO_SEQUENCE = -1

# The approximate size of a record beside its key and value: lengths, deltas, attributes.
RECORD_OVERHEAD = 12
_HEADER_OVERHEAD = 4


class Batch:
    """Records for one partition, and the result of sending them."""

    __slots__ = (
        "attempts",
        "base_offset",
        "callbacks",
        "created_s",
        "data",
        "error",
        "identity",
        "is_awaited",
        "is_done",
        "not_before_s",
        "on_wire",
        "partition",
        "parts",
        "records",
        "sequence",
        "size",
        "time_ms",
        "waiters",
        "was_sent",
    )

    def __init__(self, partition: TopicPartition, created_s: float) -> None:
        self.partition = partition
        self.records: list[NewRecord] = []
        self.size = 0
        self.created_s = created_s
        self.attempts = 0
        self.not_before_s = 0.0
        self.identity: tuple[int, int] | None = None  # producer id, epoch
        self.sequence = NO_SEQUENCE
        self.data: bytearray | None = None
        self.on_wire = False
        self.was_sent = False
        self.is_done = False
        self.is_awaited = False  # a caller waits for the result
        self.error: BaseException | None = None
        self.base_offset = -1
        self.time_ms = -1
        self.parts: list[tuple[int, Batch]] | None = None
        self.waiters: list[Callable[[], None]] = []
        self.callbacks: list[tuple[int, Callable[[Any, BaseException | None], None]]] = []

    def locate(self, index: int) -> "tuple[Batch, int]":
        """Return the batch that holds this record now: a batch that was too large is split."""
        batch = self
        while batch.parts is not None:
            start, batch = max(
                (part for part in batch.parts if part[0] <= index), key=lambda part: part[0]
            )
            index -= start
        return batch, index

    def settle(
        self, error: BaseException | None = None, *, base_offset: int = -1, time_ms: int = -1
    ) -> None:
        """Set the result, once; later calls are ignored."""
        if self.is_done:
            return
        self.is_done = True
        self.error = error
        self.base_offset = base_offset
        self.time_ms = time_ms
        self.wake()

    def wake(self) -> None:
        """Wake every waiting caller to check again."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter()


def record_size(record: NewRecord) -> int:
    """Return about how many bytes a record takes in a batch."""
    _, key, value, headers = record
    size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    if not headers:
        return size
    for name, content in headers:
        size += _HEADER_OVERHEAD + len(name) + (len(content) if content else 0)
    return size


class Accumulator:
    """The queues of all partitions and the memory that they take."""

    def __init__(self, *, batch_bytes: int, linger_s: float, memory_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._memory_bytes = memory_bytes
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        self._unfinished: dict[int, Batch] = {}  # by identity: batches without a result
        self.used_bytes = 0
        self.hurry = False  # flushing, closing, or short of memory: nothing lingers

    @property
    def unfinished(self) -> list[Batch]:
        """Return every batch without a result, oldest first."""
        return list(self._unfinished.values())

    def has_room(self, size: int) -> bool:
        """Return whether a record of this size fits into the buffer; the first one always does."""
        return self.used_bytes == 0 or self.used_bytes + size <= self._memory_bytes

    def append(
        self, partition: TopicPartition, record: NewRecord, size: int, now_s: float
    ) -> tuple[Batch, bool]:
        """Add a record to its partition's last batch. Return True if that began or filled a batch."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        changed = False
        batch = queue[-1] if queue else None
        if batch is None or batch.was_sent or batch.size + size > self._batch_bytes:
            batch = Batch(partition, now_s)
            queue.append(batch)
            self._unfinished[id(batch)] = batch
            changed = True
        batch.records.append(record)
        batch.size += size
        self.used_bytes += size
        return batch, changed or batch.size >= self._batch_bytes

    def append_batch(
        self, partition: TopicPartition, records: Iterable[NewRecord], now_s: float
    ) -> Batch:
        """Append records as one batch at the end of the queue; ready at once."""
        batch = Batch(partition, now_s)
        batch.records.extend(records)
        batch.size = max(self._batch_bytes, sum(map(record_size, batch.records)))
        self.used_bytes += batch.size
        self._queues.setdefault(partition, deque()).append(batch)
        self._unfinished[id(batch)] = batch
        return batch

    def loads(self, topic: str, partition_count: int) -> list[int]:
        """Return how many batches wait for each partition of a topic."""
        return [
            len(self._queues.get(TopicPartition(topic, number), ()))
            for number in range(partition_count)
        ]

    def first(self, partition: TopicPartition) -> Batch | None:
        """Return the next batch of a partition."""
        queue = self._queues.get(partition)
        return queue[0] if queue else None

    def ready(self, now_s: float) -> list[TopicPartition]:
        """Return the partitions whose first batch may be sent now; the least recently sent come first."""
        return [
            partition
            for partition, queue in self._queues.items()
            if queue and self.is_ready(partition, now_s)
        ]

    def is_ready(self, partition: TopicPartition, now_s: float) -> bool:
        """Return whether a partition's first batch may be sent now."""
        queue = self._queues.get(partition)
        return queue is not None and bool(queue) and self._ready_at(queue) <= now_s

    def next_time(self, now_s: float) -> float | None:
        """Return when the next batch becomes ready; None if there is none."""
        times = [self._ready_at(queue) for queue in self._queues.values() if queue]
        return min((time for time in times if time > now_s), default=None)

    def _ready_at(self, queue: deque[Batch]) -> float:
        batch = queue[0]
        if batch.attempts or batch.was_sent:
            return batch.not_before_s
        if self.hurry or len(queue) > 1 or batch.size >= self._batch_bytes:
            return 0.0
        return batch.created_s + self._linger_s

    def take(self, partition: TopicPartition) -> Batch:
        """Remove the first batch to send it; the partition goes to the end of the order."""
        queue = self._queues.pop(partition)
        batch = queue.popleft()
        self._queues[partition] = queue
        batch.was_sent = True
        return batch

    def put_back(self, batch: Batch, not_before_s: float) -> None:
        """Queue a batch again, not before this time; after those with lower sequences, before all others."""
        batch.not_before_s = not_before_s
        queue = self._queues.setdefault(batch.partition, deque())
        at = 0
        if batch.sequence != NO_SEQUENCE:
            while at < len(queue) and _goes_before(queue[at], batch):
                at += 1
        queue.insert(at, batch)

    def split(self, batch: Batch) -> bool:
        """Replace a batch that the broker finds too large by two halves. Return False if it has only one
        record.
        """
        count = len(batch.records)
        if count < 2:
            return False
        half = count // 2
        parts: list[tuple[int, Batch]] = []
        for start, stop in ((0, half), (half, count)):
            part = Batch(batch.partition, batch.created_s)
            part.records = batch.records[start:stop]
            part.size = sum(map(record_size, part.records))
            part.was_sent = True
            part.attempts = batch.attempts
            part.identity = batch.identity
            if batch.sequence != NO_SEQUENCE:
                part.sequence = (batch.sequence + start) & 0x7FFFFFFF
            part.callbacks = [
                (index - start, callback)
                for index, callback in batch.callbacks
                if start <= index < stop
            ]
            self._unfinished[id(part)] = part
            self.used_bytes += part.size
            parts.append((start, part))
        self._forget(batch)
        batch.parts = parts
        batch.callbacks = []
        for _, part in reversed(parts):
            self.put_back(part, 0.0)
        batch.wake()
        return True

    def drop(self, batch: Batch) -> None:
        """Remove a finished batch, wherever it is."""
        queue = self._queues.get(batch.partition)
        if queue is not None and batch in queue:
            queue.remove(batch)
        self._forget(batch)

    def late(self, before_s: float) -> list[Batch]:
        """Return batches created before this time and without a result, oldest first."""
        found = []
        for batch in self._unfinished.values():
            if batch.created_s > before_s:
                break
            found.append(batch)
        return found

    def oldest_s(self) -> float | None:
        """Return when the oldest unfinished batch was created, about: halves of a split batch are newer."""
        return next((batch.created_s for batch in self._unfinished.values()), None)

    def waiting(self) -> list[Batch]:
        """Return the batches that are not in flight."""
        return [batch for batch in self._unfinished.values() if not batch.on_wire]

    def _forget(self, batch: Batch) -> None:
        if self._unfinished.pop(id(batch), None) is not None:
            self.used_bytes -= batch.size


def _goes_before(other: Batch, batch: Batch) -> bool:
    """Return whether ``other`` stays before a batch that is queued again."""
    if other.sequence == NO_SEQUENCE or other.identity != batch.identity:
        return False
    return ((batch.sequence - other.sequence) & 0x7FFFFFFF) < 2**30
