"""One partition of a queue on the node that leads it: messages in, facts between them, messages out.

A message is in the queue when the partition's last stable offset has passed it: it is confirmed, and no
transaction in front of it is undecided. What was aborted is never in the queue. What this node appends it
knows without reading; what others appended (Kafka's producers, an earlier life of the queue) is read.

How a queue is loaded: from the last snapshot on, if there is one, otherwise from the log's beginning. A
snapshot is written when the log has grown by much since the last one, so that a load reads little of a long
queue; what is found behind it is applied in the log's order, facts up to the very end of the log.

What cannot be read is passed over (``log_reader.py``). Facts may be among it, so that at a load what lies
before may have been handed out. A log that has copies is told ahead what may be handed out (``marks.py``).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from millpond.base import limits
from millpond.base.errors import (
    CorruptBatch,
    MillpondError,
    NotLeader,
    RequestTimedOut,
)
from millpond.cursor.runs import Run
from millpond.engine.partitions.publish import Appended, both
from millpond.engine.queues.hosted.log_reader import LogReader
from millpond.engine.queues.hosted.marks import Marks
from millpond.engine.queues.services import LogServices
from millpond.queue.log_facts import (
    LaneSnapshot,
    LogFacts,
    build_facts,
    build_snapshot,
    read_facts,
    read_snapshot,
)
from millpond.record.batch import BatchHeader
from millpond.record.records import (
    decode_batch,
)
from millpond.replication.partition import Confirmation, Partition

log = logging.getLogger(__name__)

# A log that grew by so much, in bytes or in batches, gets another snapshot; one that is long, less often.
_SNAPSHOT_BYTES = 16 * 1024 * 1024
_SNAPSHOT_BATCHES = 20_000
_SNAPSHOT_SHARE = 8
# The last snapshot is looked for in so many offsets at the end, then in four times as many before them.
_LOOK_BACK_OFFSETS = 4_096


class Loader(Protocol):
    """Is told what a log says, in its order."""

    def on_snapshot(self, snapshot: LaneSnapshot) -> None:
        """This holds of everything before."""
        ...

    def on_messages(self, first: int, next_: int) -> None: ...

    def on_facts(self, facts: LogFacts) -> None: ...

    def on_damage(self, first: int, next_: int) -> None:
        """What is here cannot be read: messages, or facts about earlier ones."""
        ...


class _Own(NamedTuple):
    """What this node appended, until it is in the queue."""

    first: int
    next: int
    sizes: Sequence[int] | None  # of messages; None for facts
    has_ttl: bool


class Arrival(NamedTuple):
    """Messages that are in the queue now. ``size`` is their sum, if it is known without reading them."""

    first: int
    next: int
    has_ttl: bool
    size: int | None = None


class QueueLog:
    """A partition and how far it is known."""

    def __init__(self, services: LogServices, partition: Partition, *, lasts: bool) -> None:
        """``lasts``: the queue is there after a restart."""
        self._services = services
        self.partition = partition
        self.reader = LogReader(partition, services.partitions, services.repairs)
        self.marks = Marks(partition)
        self._lasts = lasts
        # Messages below are in the queue.
        self.taken = partition.log.start_offset
        # Facts that are decided and not written.
        self.facts: list[Run] = []
        self._own: deque[_Own] = deque()
        # Since the last snapshot.
        self._grown_bytes = self._grown_batches = 0
        self._snapshot_bytes = 0
        # After loading: below, something may have been damaged.
        self._damaged_below = 0
        # What publishers wait for, where other replicas have to say that they have it.
        self._awaited: set[asyncio.Future[None]] = set()

    # --- loading -------------------------------------------------------------------------------------

    def load(self, loader: Loader) -> None:
        """Tell ``loader`` everything that the log says."""
        facts_from = self._load_snapshot(loader)
        # What lies behind the snapshot is read again, and what lies before it is not needed.
        self.reader.damaged.clear()
        partition = self.partition
        stable = partition.last_stable_offset
        for position, header, data, is_message in self.reader.committed(self.taken, stable):
            self._count(header)
            self._load_damage(loader)
            if is_message:
                loader.on_messages(max(header.base_offset, self.taken), header.next_offset)
            elif header.is_control and header.base_offset >= facts_from:
                self._load_facts(loader, header, data, position)
            self.taken = header.next_offset
        self._load_damage(loader)
        self.taken = max(self.taken, stable)
        # What comes next is undecided or unconfirmed; what is said there of earlier messages is true.
        for position, header, data in self.reader.raw(max(stable, facts_from)):
            self._count(header)
            if header.is_control and header.base_offset >= facts_from:
                self._load_facts(loader, header, data, position)
        # It is read again when it is decided.
        self.reader.damaged.clear()

    def _load_damage(self, loader: Loader) -> None:
        damaged, self.reader.damaged = self.reader.damaged, []
        for first, next_ in damaged:
            self._damaged_below = next_
            loader.on_damage(first, next_)

    def _load_facts(
        self, loader: Loader, header: BatchHeader, data: bytes | memoryview, position: int
    ) -> None:
        try:
            facts = read_facts(decode_batch(data, position))
        except CorruptBatch as error:
            self.reader.pass_damage(header.base_offset, header.next_offset, error)
            self._damaged_below = header.next_offset
            return
        if facts.mark is not None:
            self.marks.load(facts.mark, header.base_offset)
        loader.on_facts(facts)

    def _load_snapshot(self, loader: Loader) -> int:
        """From where on facts count."""
        log = self.partition.log
        high, span = log.end_offset, _LOOK_BACK_OFFSETS
        while high > log.start_offset:
            low = max(log.start_offset, high - span)
            found: tuple[int, LaneSnapshot] | None = None
            for position, header, data in self.reader.raw(low, high):
                if header.is_control and header.base_offset >= low:
                    snapshot = _snapshot_in(data, position)
                    if snapshot is not None:
                        found = header.next_offset, snapshot
                        self.marks.load(snapshot.mark, header.base_offset)
                        self._snapshot_bytes = header.size
            if found is not None:
                loader.on_snapshot(found[1])
                self.taken = max(found[1].taken, log.start_offset)
                return found[0]
            high, span = low, span * 4
        return 0

    def _count(self, header: BatchHeader) -> None:
        self._grown_batches += 1
        self._grown_bytes += header.size

    # --- messages in ---------------------------------------------------------------------------------

    @property
    def coming(self) -> list[int]:
        """Sizes of messages that were appended and are not in the queue."""
        return [size for own in self._own for size in own.sizes or ()]

    @property
    def is_taken_in(self) -> bool:
        """Whether everything that can be in the queue is."""
        high = self.partition.high_watermark
        return self.taken >= self.partition.last_stable_offset and not any(
            own.sizes is not None and own.next > high for own in self._own
        )

    async def confirmed(self) -> None:
        """Wait until all that was appended is. Raises why it is not, or never will be."""
        if not self._own:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.partition.confirm_at(self._own[-1].next, _answering(future))
        self._services.flusher.request(self.partition)
        try:
            async with asyncio.timeout(limits.QUEUE_SETTLE_MS_MAX / 1000):
                await future
        except TimeoutError:
            raise RequestTimedOut(
                f"timed out waiting for the in-sync replicas of {self.partition.topic}-"
                f"{self.partition.index}; 'millpond partition list' shows which are there"
            ) from None

    def append(
        self, batch: bytearray, sizes: Sequence[int], *, has_ttl: bool, synced: bool
    ) -> Appended:
        """Write messages. ``durable`` is done when all in-sync replicas have them and, if they are to be
        ``synced``, when this node has flushed them. Raises what the log does.
        """
        partition = self.partition
        if self._services.membership.is_cut_off:
            raise self._cut_off()
        appended = self._services.partitions.append_to(partition, batch, acks=-1, internal=True)
        info = appended.info
        if not synced:
            partition.spare(info.first_offset, info.last_offset + 1)
        self._own.append(_Own(info.first_offset, info.last_offset + 1, sizes, has_ttl))
        self._grown_batches += 1
        self._grown_bytes += info.bytes
        if synced and not partition.flushes_first:
            flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            partition.confirm_flushed_at(info.last_offset + 1, _answering(flushed))
            self._services.flusher.request(partition)
            durable = appended.durable
            appended = Appended(info, flushed if durable is None else both(flushed, durable))
        if appended.durable is not None and partition.leadership is not None:
            self._awaited.add(appended.durable)
            appended.durable.add_done_callback(self._awaited.discard)
        return appended

    def send_away(self) -> None:
        """Another node may lead this log by now: publishers that wait for replicas would wait in vain. What
        they wrote may be lost or not.
        """
        for awaited in tuple(self._awaited):
            if not awaited.done():
                awaited.set_exception(self._cut_off())

    def _cut_off(self) -> NotLeader:
        return NotLeader(
            f"this node has had no answer of the controller for too long to lead "
            f"{self.partition.topic}-{self.partition.index}"
        )

    def arrivals(self) -> Iterator[Arrival]:
        """Messages that came into the queue since the last time, in order.

        What its taker could not take comes again the next time.
        """
        own, stable = self._own, self.partition.last_stable_offset
        while own and own[0].next <= stable:
            one = own[0]
            yield from self._strange(one.first)
            if one.sizes is not None and one.next > self.taken:
                first = max(one.first, self.taken)
                size = sum(one.sizes) if first == one.first else None
                yield Arrival(first, one.next, one.has_ttl, size)
            self.taken = max(self.taken, one.next)
            own.popleft()
        yield from self._strange(min(stable, own[0].first) if own else stable)

    def _strange(self, upto: int) -> Iterator[Arrival]:
        """What others appended."""
        if self.taken >= upto:
            return
        for _position, header, _data, is_message in self.reader.committed(self.taken, upto):
            self._count(header)
            if is_message:
                first = max(header.base_offset, self.taken)
                yield Arrival(first, header.next_offset, has_ttl=False)
            self.taken = header.next_offset
        self.taken = max(self.taken, upto)

    def forget_own(self) -> None:
        """For a queue that keeps no state: what is in the log is in the queue."""
        while self._own and self._own[0].next <= self.partition.high_watermark:
            self._own.popleft()
        self.taken = max(self.taken, self.reader.stable_offset)

    def skip_to(self, start: int) -> None:
        """The log lost its beginning."""
        self.taken = max(self.taken, start)

    # --- facts ---------------------------------------------------------------------------------------

    def write_facts(self) -> None:
        """Write what was decided."""
        if self.marks.is_due:
            self.write(LogFacts(tuple(self.facts), mark=self.marks.mark))
            self.marks.written(self._own[-1].next)
        elif self.facts:
            self.write(LogFacts(tuple(self.facts)))
        else:
            return
        # Not before: what could not be written is still to be said.
        self.facts = []

    def say_last_facts(self) -> None:
        """The queue is not hosted here any longer; if its log still is, what was decided is not forgotten."""
        partition = self.partition
        if self._services.runtime.running and partition.is_leader and not partition.is_retired:
            self.marks.release()
            with suppress(MillpondError):
                self.write_facts()

    @property
    def doubtful_below(self) -> int:
        """After loading: what is below may have been handed out, whatever the log says."""
        return min(self.marks.doubtful_below(self._damaged_below), self.taken)

    def cuttable(self, start: int) -> int:
        """How much of what is over may go: not the mark that holds. It is said again nearer to the end."""
        found = self.marks.cuttable(start)
        if self.marks.is_in_the_way(start):
            self.marks.is_due = True
            self.write_facts()
        return found

    async def covered(self, next_: int) -> None:
        """Wait until all copies know that what is below may be handed out. Raises why they never will."""
        if not self.marks.is_covered(next_):
            # The mark was written last, or what came behind it is confirmed with it.
            await self.confirmed()

    def write(self, facts: LogFacts) -> None:
        batch = build_facts(facts, now_ms=self._services.runtime.clock.now_ms())
        # What is said of transient messages alone is as transient as they are.
        first, next_ = self.partition.unhurried
        is_spared = next_ == self.partition.log.end_offset and facts.mark is None
        is_spared = is_spared and all(run.first >= first for run in facts.runs)
        self._write(batch, is_spared=is_spared)

    @property
    def wants_snapshot(self) -> bool:
        """Whether the log has grown by so much that a load would take long."""
        is_long = self._grown_batches >= _SNAPSHOT_BATCHES or self._grown_bytes >= _SNAPSHOT_BYTES
        return is_long and self._grown_bytes >= _SNAPSHOT_SHARE * self._snapshot_bytes

    def write_snapshot(self, snapshot: LaneSnapshot) -> None:
        """Say all that is so, with what was decided and not written yet."""
        self.write_facts()
        snapshot = snapshot._replace(mark=self.marks.mark)
        batch = build_snapshot(snapshot, now_ms=self._services.runtime.clock.now_ms())
        self._snapshot_bytes = len(batch)
        self._write(batch)
        self._grown_bytes = self._grown_batches = 0

    def _write(self, batch: bytearray, *, is_spared: bool = False) -> None:
        size = len(batch)
        info = self.partition.append(batch, now_ms=self._services.runtime.clock.now_ms())
        if is_spared or not self._lasts:
            self.partition.spare(info.first_offset, info.last_offset + 1)
        self._services.partitions.mark_dirty(self.partition)
        self._own.append(_Own(info.first_offset, info.last_offset + 1, None, False))
        self._grown_batches += 1
        self._grown_bytes += size

    def cut(self, start: int) -> None:
        """Everything below is over and may go."""
        partition = self.partition
        self._services.partitions.delete_records(partition.topic, partition.index, start)


def _snapshot_in(data: bytes | memoryview, position: int) -> LaneSnapshot | None:
    try:
        return read_snapshot(decode_batch(data, position))
    except CorruptBatch:
        return None


def _answering(future: "asyncio.Future[None]") -> Confirmation:
    def answer(error: MillpondError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    return answer
