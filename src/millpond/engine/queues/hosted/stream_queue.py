"""One stream on the node that leads its topic: any topic, read by AMQP's consumers without being emptied.

What consumers may read is what Kafka's readers of committed records may: below the last stable offset,
without what was aborted. Each consumer has a reader with a position in each partition and the records of its
last read; several partitions are read in turns. Records that were handed out are kept for a while for those
who are to send them, and read again if that was too long.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from millpond.base.errors import NotSupported, StorageFailure
from millpond.base.fields import Long
from millpond.cursor.ack import Range
from millpond.engine.partitions.publish import Appended
from millpond.engine.queues.hosted.decisions import Decisions
from millpond.engine.queues.hosted.handouts import Handouts
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.engine.queues.hosted.message_store import MessageStore
from millpond.engine.queues.hosted.outbox import Outbox
from millpond.engine.queues.hosted.publishing import Publishing
from millpond.engine.queues.hosted.queue_log import QueueLog
from millpond.engine.queues.hosted.turn import Surroundings, Turn
from millpond.engine.queues.queue_handle import Counts, Got, Sink
from millpond.message.hub import Message
from millpond.queue.consumers import Consumer
from millpond.queue.queue_state import QueueState
from millpond.queue.settings import QueueSettings
from millpond.queue.steps import Step
from millpond.queue.streams import At, Filter, First, Found, Last, Next, Since, Start, StreamState
from millpond.rabbit.records import Queue
from millpond.rabbit.stream_arguments import (
    FILTER_VALUE,
    OFFSET_HEADER,
    check_stream_consumer,
    filter_of,
    start_of,
)
from millpond.record.records import Record
from millpond.replication.partition import Partition

if TYPE_CHECKING:
    from millpond.engine.queues.queues import Queues

# How often a consumer's messages are looked for in one turn; each time costs one read of the log.
_LOOKS_A_TURN = 8
# Bytes of records that were handed out and may be asked for.
_KEPT_BYTES_MAX = 4 * 1024 * 1024
_KEPT_OVERHEAD = 256


class _Reader:
    """A consumer's position in one partition."""

    def __init__(self, log: QueueLog, start: Start, wanted: Filter | None) -> None:
        self._log = log
        self.position = -1
        # Where to begin, until it is known which position that is.
        self._start: Start | None = start
        self._wanted = wanted
        self._records: list[Record] = []

    @property
    def has_more(self) -> bool:
        return bool(self._records) or self.position < self._log.reader.stable_offset

    def begin(self) -> None:
        """Find the position. Raises ``StorageFailure``: then it is found when something is taken."""
        if self._start is not None:
            self.position = _position(self._log, self._start)
            self._start = None

    @property
    def next_offset(self) -> int:
        """Of the next record that is taken; -1 if that is not known yet."""
        return self._records[-1].offset if self._records else self.position

    def take(self, count: int) -> list[Record]:
        """Up to so many of the next records; perhaps none although there are more.

        Raises ``StorageFailure``: then the position is the same.
        """
        self.begin()
        if not self._records and self.has_more:
            records, self.position = self._log.reader.chunk(self.position)
            self._records = [record for record in reversed(records) if self._wants(record)]
        taken = self._records[-count:]
        del self._records[-count:]
        taken.reverse()
        return taken

    def _wants(self, record: Record) -> bool:
        if self._wanted is None:
            return True
        said = next((value for name, value in record.headers if name == FILTER_VALUE), None)
        return self._wanted.wants(None if said is None else said.decode("utf-8", "replace"))


class _StreamTurn(Turn):
    """What differs in a stream: nothing is written, called redelivered or lost by being read."""

    state: StreamState

    def __init__(
        self,
        state: QueueState,
        store: MessageStore,
        handouts: Handouts,
        decisions: Decisions,
        outbox: Outbox,
        around: Surroundings,
        take: Callable[[str, int], Found],
    ) -> None:
        """``take`` reads the next messages at a consumer's position, which moves behind them."""
        super().__init__(state, store, handouts, decisions, outbox, around)
        self._take = take
        # Whether some consumer could have more at once.
        self._has_more = False
        # Where damage ends that was counted, by lane.
        self._counted: set[tuple[int, int]] = set()

    def take_in(self) -> None:
        self._repeated.clear()
        for number, lane in enumerate(self._lanes):
            lane.forget_own()
            if lane.reader.damaged:
                self._count_damaged(number, lane)

    def follow(self, step: Step) -> None:
        self._handouts.add(step.handouts)

    def _deliver(self, now_ms: int) -> None:
        self._has_more = False
        given: dict[tuple[str, bool], int] = {}
        for consumer in tuple(self.state.consumers):
            for _look in range(_LOOKS_A_TURN):
                free = self.state.free(consumer, self._handouts.room, given)
                if free <= 0:
                    break
                found = self._take(consumer.owner, free)
                self._handouts.add(self.state.took(consumer, found, given))
                if not found.has_more:
                    break
            else:
                is_free = self.state.free(consumer, self._handouts.room, given) > 0
                self._has_more = self._has_more or is_free

    def _hand_out(self, sinks: dict[Sink, None]) -> None:
        self._handouts.hand_out_all(self._queue, sinks)

    def _keep_log(self) -> None:
        self._handouts.forget_cancelled()
        if self._has_more:
            self.wake()

    def _count_damaged(self, number: int, lane: QueueLog) -> None:
        """Once, whichever consumer reads it."""
        damaged, lane.reader.damaged = lane.reader.damaged, []
        for first, next_ in damaged:
            if (number, next_) not in self._counted:
                self._counted.add((number, next_))
                self._count_lost(next_ - first, f"offsets {first} to {next_ - 1} cannot be read")


class _StreamPublishing(Publishing):
    """Lanes in turns; nothing is kept in memory for deliveries."""

    _turns = 0

    def _lane_for(self, message: Message) -> int:
        self._turns += 1
        return self._turns % len(self._store.lanes)

    def _append(self, lane: int, messages: Sequence[Message]) -> Appended:
        is_synced = any(message.is_persistent for message in messages)
        appended = self._store.append_plain(lane, messages, synced=is_synced)
        self._turn.wake()
        return appended


class StreamQueue(LocalQueue):
    """One stream."""

    def __init__(
        self,
        queues: "Queues",
        queue: Queue,
        settings: QueueSettings,
        partitions: Sequence[Partition],
    ) -> None:
        super().__init__(queues, queue, settings, partitions)
        # By owner: one for each partition, the one whose turn it is in front.
        self._readers: dict[str, deque[tuple[int, _Reader]]] = {}
        self._kept: OrderedDict[tuple[int, int], Record] = OrderedDict()
        self._handed_bytes = 0

    def _new_state(self, settings: QueueSettings, starts: Sequence[int]) -> QueueState:
        self._stream = StreamState(settings, now_ms=self._clock.now_ms())
        return self._stream

    def _new_turn(self, around: Surroundings) -> Turn:
        return _StreamTurn(
            self._stream,
            self.store,
            self.handouts,
            self.decisions,
            self.outbox,
            around,
            self.take,
        )

    def _new_publishing(self, is_memory_low: Callable[[], bool]) -> Publishing:
        return _StreamPublishing(
            self.state,
            self.store,
            self.decisions,
            self.turn,
            is_durable=self.queue.durable,
            is_memory_low=is_memory_low,
            refuse=self.refuse,
        )

    def load(self) -> None:
        """Nothing has to be read before a consumer wants it."""
        for lane in self._lanes:
            lane.skip_to(lane.partition.last_stable_offset)
            lane.partition.watchers[self] = None

    # --- messages out --------------------------------------------------------------------------------

    def consume(self, consumer: Consumer, sink: Sink) -> None:
        resource = self.queue.resource
        check_stream_consumer(resource, consumer)
        start = start_of(resource, consumer.arguments, self._clock.now_ms())
        wanted = filter_of(consumer.arguments)
        super().consume(consumer, sink)
        readers = [_Reader(lane, start, wanted) for lane in self._lanes]
        self._readers[consumer.owner] = deque(enumerate(readers))
        with suppress(StorageFailure):
            # What comes from now on is behind ``next``.
            for reader in readers:
                reader.begin()

    def cancel(self, owner: str) -> None:
        self._readers.pop(owner, None)
        super().cancel(owner)

    def lose_channel(self, channel: str) -> None:
        for consumer in self.state.consumers.of_channel(channel):
            self._readers.pop(consumer.owner, None)
        super().lose_channel(channel)

    def position_of(self, consumer: Consumer, sink: Sink) -> int:
        """Behind the last record that left for the client, if there is one partition."""
        readers = self._readers.get(consumer.owner)
        if readers is None or len(readers) != 1:
            return -1
        return min(readers[0][1].next_offset, sink.unread(self, 0))

    def take(self, owner: str, count: int) -> Found:
        ranges: list[tuple[int, Range]] = []
        readers = self._readers[owner]
        readers.rotate(-1)
        for number, reader in readers:
            try:
                records = reader.take(count)
            except StorageFailure as error:
                self.handouts.keep_waiting(owner, error)
                return Found(ranges, has_more=False)
            for record in records:
                self._keep(number, record)
                _join(ranges, number, record.offset)
                count -= 1
            if count <= 0:
                break
        if self.handouts.retries.is_needed:
            self.handouts.retries.worked(owner)
        return Found(ranges, any(reader.has_more for _number, reader in readers))

    def message(self, lane: int, offset: int) -> Message:
        """With its offset among its headers."""
        record = self._kept.get((lane, offset)) or self.store.record(lane, offset)
        found = self._queues.read(record)
        headers = {**found.headers, OFFSET_HEADER: Long(offset)}
        return self._queues.codec.with_headers(found, headers=headers, now_ms=found.received_ms)

    def settle(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        """There is room for more."""
        self._stream.settle(lane, ranges, owner, self._clock.now_ms())
        self.wake()

    def requeue(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self.settle(lane, ranges, owner)

    def reject(self, lane: int, ranges: Iterable[Range], owner: str) -> None:
        self.settle(lane, ranges, owner)

    async def got(self, consumer: Consumer) -> Got | None:
        raise NotSupported(f"basic.get not supported by stream queues {self.queue.resource}")

    async def glance(self) -> Counts:
        """What can be read counts as ready, as in RabbitMQ's lists; consumers do not remove it."""
        length = sum(
            lane.reader.stable_offset - lane.partition.log.start_offset for lane in self._lanes
        )
        return self._counts()._replace(ready=length)

    async def purged(self) -> int:
        raise NotSupported(f"queue.purge not supported by stream queues {self.queue.resource}")

    # --- helpers -------------------------------------------------------------------------------------

    def _keep(self, lane: int, record: Record) -> None:
        if (lane, record.offset) not in self._kept:
            self._kept[lane, record.offset] = record
            self._handed_bytes += _weight(record)
        while self._handed_bytes > _KEPT_BYTES_MAX:
            _place, oldest = self._kept.popitem(last=False)
            self._handed_bytes -= _weight(oldest)


def _position(lane: QueueLog, start: Start) -> int:
    first, stable = lane.partition.log.start_offset, lane.reader.stable_offset
    match start:
        case First():
            return first
        case Last():
            return lane.reader.last_batch()
        case Next():
            return stable
        case At(offset=offset):
            return min(max(first, offset), stable)
        case Since(time_ms=time_ms):
            return lane.reader.since(time_ms)


def _weight(record: Record) -> int:
    return len(record.value or b"") + _KEPT_OVERHEAD


def _join(ranges: list[tuple[int, Range]], lane: int, offset: int) -> None:
    if ranges and ranges[-1][0] == lane and ranges[-1][1][1] == offset:
        ranges[-1] = lane, (ranges[-1][1][0], offset + 1)
    else:
        ranges.append((lane, (offset, offset + 1)))
