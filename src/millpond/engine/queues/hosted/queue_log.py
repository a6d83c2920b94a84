"""One partition of a queue on the node that leads it: messages in, facts between them, messages out.

A message is in the queue when the partition's last stable offset has passed it: it is confirmed, and no
transaction in front of it is undecided. What was aborted is never in the queue. What this node appends it
knows without reading; what others appended (Kafka's producers, an earlier life of the queue) is read.

How a queue is loaded: from the last snapshot on, if there is one, otherwise from the log's beginning. A
snapshot is written when the log has grown by much since the last one, so that a load reads little of a long
queue; what is found behind it is applied in the log's order, facts up to the very end of the log.

What the disk has damaged, and what cannot be decoded, is passed over and remembered (``damaged``): it is for
the queue to count it. Facts may be among it, so that at a load what lies before may have been handed out.
What another replica may have is not passed over: whoever reads it is told to wait (``RecordsAwaited``).

A log that has copies on other nodes is told ahead what may be handed out (a *mark*, ``log_facts.py``): what
is handed out before the fact of it is copied is not called new by the next host.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from millpond.base import limits
from millpond.base.errors import (
    BatchTooLarge,
    CorruptBatch,
    CorruptLog,
    MessageLost,
    MillpondError,
    NotLeader,
    OffsetOutOfRange,
    RecordsAwaited,
    RequestTimedOut,
)
from millpond.cursor.ack import Range
from millpond.cursor.runs import Run
from millpond.engine.partitions.publish import Appended, both
from millpond.queue.log_facts import (
    LaneSnapshot,
    LogFacts,
    build_facts,
    build_snapshot,
    read_facts,
    read_snapshot,
)
from millpond.record.batch import BatchHeader, iter_batches
from millpond.record.control import MarkerType, marker_type
from millpond.record.inspection import decode_slice
from millpond.record.records import (
    UNREADABLE,
    Record,
    batch_payload,
    decode_batch,
)
from millpond.replication.partition import Confirmation, Partition

if TYPE_CHECKING:
    from millpond.engine.node.node import Engine

log = logging.getLogger(__name__)

_READ_BYTES = 256 * 1024
# A log that grew by so much, in bytes or in batches, gets another snapshot; one that is long, less often.
_SNAPSHOT_BYTES = 16 * 1024 * 1024
_SNAPSHOT_BATCHES = 20_000
_SNAPSHOT_SHARE = 8
# A mark is so far ahead of what is handed out, and moved on when half of that is left: the way to the copies
# is shorter, so that hardly anything waits for it.
_MARK_AHEAD_OFFSETS = 2_048
# The last snapshot is looked for in so many offsets at the end, then in four times as many before them.
_LOOK_BACK_OFFSETS = 4_096
# So many batches that are no messages may lie behind the last message of a stream.
_LOOKS_FOR_LAST = 64


class Loader(Protocol):
    """Who learns what a log says, in its order."""

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

    def __init__(self, engine: "Engine", partition: Partition, *, lasts: bool) -> None:
        """``lasts``: the queue is there after a restart."""
        self._engine = engine
        self.partition = partition
        self._lasts = lasts
        # Messages below are in the queue.
        self.taken = partition.log.start_offset
        # Facts that are decided and not written.
        self.facts: list[Run] = []
        self._own: deque[_Own] = deque()
        # Records of the last read.
        self._window: dict[int, Record] = {}
        # Since the last snapshot.
        self._grown_bytes = self._grown_batches = 0
        self._snapshot_bytes = 0
        # What is below the mark may have been handed out; whether that is still to be written.
        self._mark = 0
        self._is_mark_due = False
        # Marks that the copies may not have, each with the offset behind it; and the last that they have.
        self._marks: deque[tuple[int, int]] = deque()
        self._covered = 0
        self._covered_at = 0
        # What could not be read since the queue last looked; all that is known; of a load, where it ends.
        self.damaged: list[Range] = []
        self._known_damage: set[int] = set()  # where it ends
        self._damaged_below = 0
        # What publishers wait for, where other replicas have to say that they have it.
        self._awaited: set[asyncio.Future[None]] = set()

    # --- loading -------------------------------------------------------------------------------------

    def load(self, loader: Loader) -> None:
        """Tell everything that the log says."""
        facts_from = self._load_snapshot(loader)
        # What lies behind the snapshot is read again, and what lies before it is needed by nobody.
        self.damaged.clear()
        partition = self.partition
        stable = partition.last_stable_offset
        for position, header, data, is_message in self._committed(self.taken, stable):
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
        for position, header, data in self._raw(max(stable, facts_from)):
            self._count(header)
            if header.is_control and header.base_offset >= facts_from:
                self._load_facts(loader, header, data, position)
        # It is read again when it is decided.
        self.damaged.clear()

    def _load_damage(self, loader: Loader) -> None:
        damaged, self.damaged = self.damaged, []
        for first, next_ in damaged:
            self._damaged_below = next_
            loader.on_damage(first, next_)

    def _load_facts(
        self, loader: Loader, header: BatchHeader, data: bytes | memoryview, position: int
    ) -> None:
        try:
            facts = read_facts(decode_batch(data, position))
        except CorruptBatch as error:
            self._pass_damage(header.base_offset, header.next_offset, error)
            self._damaged_below = header.next_offset
            return
        if facts.mark is not None:
            self._note_mark(facts.mark, header.base_offset)
        loader.on_facts(facts)

    def _note_mark(self, mark: int, offset: int) -> None:
        self._mark = self._covered = mark
        self._covered_at = offset

    def _load_snapshot(self, loader: Loader) -> int:
        """From where on facts count."""
        log = self.partition.log
        high, span = log.end_offset, _LOOK_BACK_OFFSETS
        while high > log.start_offset:
            low = max(log.start_offset, high - span)
            found: tuple[int, LaneSnapshot] | None = None
            for position, header, data in self._raw(low, high):
                if header.is_control and header.base_offset >= low:
                    snapshot = _snapshot_in(data, position)
                    if snapshot is not None:
                        found = header.next_offset, snapshot
                        self._note_mark(snapshot.mark, header.base_offset)
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
        self._engine.flusher.request(self.partition)
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
        if self._engine.membership.is_cut_off:
            raise self._cut_off()
        appended = self._engine.append_to(
            partition, batch, acks=-1, produce_version=13, internal=True
        )
        info = appended.info
        if not synced:
            partition.spare(info.first_offset, info.last_offset + 1)
        self._own.append(_Own(info.first_offset, info.last_offset + 1, sizes, has_ttl))
        self._grown_batches += 1
        self._grown_bytes += info.bytes
        if synced and not partition.flushes_first:
            flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            partition.confirm_flushed_at(info.last_offset + 1, _answering(flushed))
            self._engine.flusher.request(partition)
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
        for _position, header, _data, is_message in self._committed(self.taken, upto):
            self._count(header)
            if is_message:
                first = max(header.base_offset, self.taken)
                yield Arrival(first, header.next_offset, has_ttl=False)
            self.taken = header.next_offset
        self.taken = max(self.taken, upto)

    def skip_to(self, start: int) -> None:
        """The log lost its beginning."""
        self.taken = max(self.taken, start)

    # --- facts ---------------------------------------------------------------------------------------

    def write_facts(self) -> None:
        """Write what was decided."""
        if self._is_mark_due:
            self.write(LogFacts(tuple(self.facts), mark=self._mark))
            self._marks.append((self._own[-1].next, self._mark))
        elif self.facts:
            self.write(LogFacts(tuple(self.facts)))
        else:
            return
        # Not before: what could not be written is still to be said.
        self.facts, self._is_mark_due = [], False

    def say_last_facts(self) -> None:
        """The queue is not hosted here any longer; if its log still is, what was decided is not forgotten."""
        partition = self.partition
        if self._engine.running and partition.is_leader and not partition.is_retired:
            if self._mark:
                # All that was handed out is said.
                self._mark, self._is_mark_due = 0, True
            with suppress(MillpondError):
                self.write_facts()

    # --- marks ---------------------------------------------------------------------------------------

    @property
    def doubtful_below(self) -> int:
        """After loading: what is below may have been handed out, whatever the log says."""
        unknown = self._damaged_below
        if unknown and self.partition.leadership is not None:
            unknown += _MARK_AHEAD_OFFSETS
        return min(max(self._mark, unknown), self.taken)

    def cover(self, next_: int) -> None:
        """What is below is to be handed out: say that with the next facts, unless it was said."""
        if self.partition.leadership is not None and next_ + _MARK_AHEAD_OFFSETS // 2 > self._mark:
            self._mark, self._is_mark_due = next_ + _MARK_AHEAD_OFFSETS, True

    def is_covered(self, next_: int) -> bool:
        """Whether all copies know that what is below may have been handed out; then it may be."""
        if self.partition.leadership is None:
            return True
        while self._marks and self._marks[0][0] <= self.partition.high_watermark:
            self._covered_at, self._covered = self._marks.popleft()
        return next_ <= self._covered

    def cuttable(self, start: int) -> int:
        """How much of what is over may go: not the mark that holds. It is said again nearer to the end."""
        if not self._mark or self.partition.leadership is None:
            return start
        self.is_covered(0)
        if start > self._covered_at and not self._marks:
            self._is_mark_due = True
            self.write_facts()
        return min(start, self._covered_at)

    async def covered(self, next_: int) -> None:
        """Wait until that is so. Raises why it never will be."""
        if not self.is_covered(next_):
            # The mark was written last, or what came behind it is confirmed with it.
            await self.confirmed()

    def write(self, facts: LogFacts) -> None:
        batch = build_facts(facts, now_ms=self._engine.clock.now_ms())
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
        snapshot = snapshot._replace(mark=self._mark)
        batch = build_snapshot(snapshot, now_ms=self._engine.clock.now_ms())
        self._snapshot_bytes = len(batch)
        self._write(batch)
        self._grown_bytes = self._grown_batches = 0

    def _write(self, batch: bytearray, *, is_spared: bool = False) -> None:
        size = len(batch)
        info = self.partition.append(batch, now_ms=self._engine.clock.now_ms())
        if is_spared or not self._lasts:
            self.partition.spare(info.first_offset, info.last_offset + 1)
        self._engine.dirty[self.partition] = None
        self._own.append(_Own(info.first_offset, info.last_offset + 1, None, False))
        self._grown_batches += 1
        self._grown_bytes += size

    def cut(self, start: int) -> None:
        """Everything below is over and may go."""
        partition = self.partition
        self._engine.delete_records(partition.topic, partition.index, start)

    # --- messages out --------------------------------------------------------------------------------

    def record(self, offset: int) -> Record:
        """A message in the log. Raises ``MessageLost``."""
        record = self._window.get(offset)
        if record is None:
            self._window = self._read_window(offset)
            record = self._window.get(offset)
            if record is None:
                raise MessageLost(f"{self.partition!r} has no record at offset {offset}")
        return record

    def _read_window(self, offset: int) -> dict[int, Record]:
        """Messages from this one on. Raises ``MessageLost``."""
        try:
            read = self._engine.read_now(self.partition, offset, bytes_max=_READ_BYTES).records
        except OffsetOutOfRange as error:
            raise MessageLost(str(error)) from None
        except CorruptLog as error:
            self._pass_damage(offset, error.next_offset, error)
            raise MessageLost(str(error)) from None
        window: dict[int, Record] = {}
        most = limits.QUEUE_WINDOW_RECORDS_MAX
        room = limits.QUEUE_WINDOW_BYTES_MAX
        for position, header in iter_batches(read):
            if header.is_control:
                continue
            is_wanted = header.base_offset <= offset < header.next_offset
            limit = limits.DECOMPRESSED_BYTES_MAX if is_wanted else room
            try:
                payload = batch_payload(read, position, header, limit=limit)
                if not is_wanted and len(window) + header.record_count > most:
                    break
                first = max(offset - header.base_offset, 0)
                window.update(
                    (one.offset, one) for one in decode_slice(payload, header, first, most)
                )
                room -= len(payload)
            except UNREADABLE as error:
                if is_wanted:
                    self._pass_damage(offset, header.next_offset, error)
                    raise MessageLost(str(error)) from None
                if isinstance(error, BatchTooLarge):
                    break  # small batches that grow: they are read when they are wanted
            if room <= 0:
                break
        return window

    def _pass_damage(self, offset: int, next_: int, error: MillpondError) -> int:
        """What begins here cannot be read: it is remembered, said once, and passed over. Where to go on.

        Raises ``RecordsAwaited`` if it may be repaired.
        """
        if isinstance(error, CorruptLog):
            self._check_hopeless(offset, error)
        next_ = max(next_, offset + 1)
        self.damaged.append((offset, next_))
        if next_ not in self._known_damage:
            self._known_damage.add(next_)
            log.error(
                "partition=%s-%d: the queue goes on without offsets %d to %d: %s",
                self.partition.topic,
                self.partition.index,
                offset,
                next_ - 1,
                error,
            )
        return next_

    def _check_hopeless(self, offset: int, error: CorruptLog) -> None:
        """Raises ``RecordsAwaited`` if another replica may have what is damaged here."""
        if self._engine.repairs.may_come_back(self.partition, offset):
            raise RecordsAwaited(f"another replica may have it: {error}") from error

    def forget_window(self) -> None:
        """Messages that were read are read again when they are wanted."""
        self._window = {}

    # --- streams -------------------------------------------------------------------------------------

    @property
    def stable_offset(self) -> int:
        """Messages below are confirmed and decided."""
        return self.partition.last_stable_offset

    def forget_own(self) -> None:
        """For a queue that keeps no state: what is in the log is in the queue."""
        while self._own and self._own[0].next <= self.partition.high_watermark:
            self._own.popleft()
        self.taken = max(self.taken, self.stable_offset)

    def chunk(self, offset: int) -> tuple[list[Record], int]:
        """The messages of one read from an offset on, and where to go on."""
        offset, stable = max(offset, self.partition.log.start_offset), self.stable_offset
        found: list[Record] = []
        most = limits.QUEUE_WINDOW_RECORDS_MAX
        room = limits.QUEUE_WINDOW_BYTES_MAX
        try:
            for position, header, data, is_message in self._one_read(offset, stable):
                if room <= 0 or (found and len(found) + header.record_count > most):
                    return found, header.base_offset
                stable = header.next_offset
                if not is_message:
                    continue
                try:
                    payload = batch_payload(data, position, header)
                    room -= len(payload)
                    first = max(offset - header.base_offset, 0)
                    some = decode_slice(payload, header, first, most)
                    found += [one for one in some if one.offset >= offset]
                    if header.record_count > most and some and some[-1].offset + 1 < stable:
                        return found, some[-1].offset + 1  # the rest of a large batch comes next
                except UNREADABLE as error:
                    self._pass_damage(max(offset, header.base_offset), stable, error)
        except CorruptLog as error:
            return [], self._pass_damage(offset, error.next_offset, error)
        return found, stable

    def last_batch(self) -> int:
        """Where the newest messages begin that were written together; the end if there are none."""
        first, offset = self.partition.log.start_offset, self.stable_offset
        for _step in range(_LOOKS_FOR_LAST):
            if offset <= first:
                break
            base = offset - 1
            try:
                for _position, header, _data, is_message in self._one_read(base, offset):
                    if is_message:
                        return max(first, header.base_offset)
                    base = min(base, header.base_offset)
            except CorruptLog as error:
                self._check_hopeless(base, error)
            offset = base
        return self.stable_offset

    def since(self, time_ms: int) -> int:
        """Where messages of a time and later begin; the end if there are none."""
        try:
            found = self._engine.find_offset(self.partition, time_ms, committed=True)
        except CorruptLog:
            # Which offsets are damaged is not known. Rather too much than too little.
            return self.partition.log.start_offset
        return found.offset if found.offset >= 0 else self.stable_offset

    # --- reading -------------------------------------------------------------------------------------

    def _committed(
        self, offset: int, upto: int
    ) -> Iterator[tuple[int, BatchHeader, bytes | memoryview, bool]]:
        """Batches below an offset that is stable, and whether each holds messages."""
        while offset < upto:
            before = offset
            try:
                for one in self._one_read(offset, upto):
                    yield one
                    offset = one[1].next_offset
            except CorruptLog as error:
                offset = self._pass_damage(offset, min(upto, error.next_offset), error)
            if offset == before:
                return

    def _one_read(
        self, offset: int, upto: int
    ) -> Iterator[tuple[int, BatchHeader, bytes | memoryview, bool]]:
        if offset < upto:
            read = self._engine.read_now(
                self.partition, offset, bytes_max=_READ_BYTES, committed=True
            )
            aborted = sorted(read.aborted, key=lambda one: one.first_offset, reverse=True)
            hidden: set[int] = set()
            for position, header in iter_batches(read.records):
                if header.base_offset >= upto:
                    return
                while aborted and aborted[-1].first_offset <= header.last_offset:
                    hidden.add(aborted.pop().producer_id)
                if (
                    header.is_control
                    and header.producer_id in hidden
                    and _is_abort(read.records, position)
                ):
                    hidden.discard(header.producer_id)
                is_hidden = header.is_transactional and header.producer_id in hidden
                yield position, header, read.records, not header.is_control and not is_hidden

    def _raw(
        self, offset: int, upto: int | None = None
    ) -> Iterator[tuple[int, BatchHeader, bytes | memoryview]]:
        """All batches up to the end of the log, confirmed or not."""
        log = self.partition.log
        upto = log.end_offset if upto is None else upto
        offset = max(offset, log.start_offset)
        while offset < upto:
            try:
                data = log.read(offset, _READ_BYTES, upto=upto).data
            except CorruptLog as error:
                offset = self._pass_damage(offset, min(upto, error.next_offset), error)
                continue
            before = offset
            for position, header in iter_batches(data):
                yield position, header, data
                offset = header.next_offset
            if offset == before:
                return


def _snapshot_in(data: bytes | memoryview, position: int) -> LaneSnapshot | None:
    try:
        return read_snapshot(decode_batch(data, position))
    except CorruptBatch:
        return None


def _is_abort(data: bytes | memoryview, position: int) -> bool:
    records = decode_batch(data, position)
    return bool(records) and marker_type(records[0]) == MarkerType.ABORT


def _answering(future: "asyncio.Future[None]") -> Confirmation:
    def answer(error: MillpondError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    return answer
