"""One segment: a file of batches and the indexes over it.

Rules:

* Batches are bytes. Appending and reading look at headers only, and at as few as possible.
* The position of a batch is found in three steps of growing cost: the last appended batches are remembered
  exactly; older ones are bracketed by the sparse index; between the brackets headers are read.
* An index is a hint. One that cannot be right is rebuilt from the batches.
* Known damage (``damage``) is never served and never skipped silently: ``CorruptLog``.

It does not decide when to roll, what to delete or which offsets are assigned; ``PartitionLog`` does.
"""

import contextlib
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from millpond.base.errors import BatchTooLarge, CorruptLog, StorageFailure
from millpond.base.ids import NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs
from millpond.base.limits import (
    LOOKED_AT_RECORDS_MAX,
    SEARCHED_DECOMPRESSED_BYTES_MAX,
)
from millpond.log.chain import BrokenChain, ChainRule, segment_bound
from millpond.log.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_name,
)
from millpond.log.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    CorruptIndex,
    IndexCache,
    OffsetIndex,
    TimeIndex,
)
from millpond.log.scan import find_batch, iter_data, iter_headers
from millpond.log.storage import Bytes, Storage, StorageFile
from millpond.log.txn_index import TxnIndex
from millpond.record.batch import HEADER_BYTES, LENGTH_MIN, LOG_OVERHEAD, MAGIC, BatchHeader
from millpond.record.records import UNREADABLE, Record, decode_batch

# base offset, length, (leader epoch), magic, (crc, attributes), last offset delta
_SHORT_HEADER = struct.Struct(">qi4xb6xi")
_SHORT_HEADER_BYTES = _SHORT_HEADER.size

# Exact positions of this many batches at the end of the segment stay in memory: enough for every reader that
# keeps up, and 8 KiB at most.
_RECENT_MAX = 512
_NEVER = 2**63 - 1

# The size of reads when searching a header between two index entries.
_SEARCH_BYTES = 8 * 1024

# The end of a cleanly closed log is checked if it is no longer than this.
_TAIL_CHECKED_BYTES = 64 * 1024


class Found(NamedTuple):
    """Where a batch begins and how many bytes it has."""

    position: int
    size: int


class TimedOffset(NamedTuple):
    """A record found by its time."""

    timestamp: TimestampMs
    offset: Offset
    leader_epoch: LeaderEpoch


class Damage(NamedTuple):
    """Bytes of a segment that are not the batches that were written there."""

    position: int
    end: int
    first_offset: Offset
    next_offset: Offset
    reason: str


class NewBatch(NamedTuple):
    """The fields of an appended batch that a segment needs."""

    position: int
    size: int
    last_offset: Offset
    max_timestamp: TimestampMs


class Segment:
    """The batches from ``base_offset`` up to the next segment's."""

    __slots__ = (
        "_bytes_since_index",
        "_cache",
        "_first_timestamp",
        "_index_interval_bytes",
        "_ready",
        "_recent_floor",
        "_recent_offsets",
        "_recent_positions",
        "_storage",
        "_timestamps_known",
        "base_offset",
        "created_ms",
        "damage",
        "directory",
        "is_suspect",
        "log",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "offset_index",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        storage: Storage,
        directory: str,
        base_offset: Offset,
        log: StorageFile,
        *,
        cache: IndexCache,
        index_interval_bytes: int,
        created_ms: TimestampMs,
        suffix: str = "",
    ) -> None:
        path = f"{directory}/{segment_name(base_offset)}"
        self._storage = storage
        self._cache = cache
        self.directory = directory
        self.base_offset = base_offset
        # One above the last offset, while the segment is active; before that, a lower bound.
        self.next_offset = base_offset
        self.log = log
        self.offset_index = OffsetIndex(storage, path + INDEX_SUFFIX + suffix, base_offset)
        self.time_index = TimeIndex(storage, path + TIME_INDEX_SUFFIX + suffix, base_offset)
        self.txn_index = TxnIndex(storage, path + TXN_INDEX_SUFFIX + suffix)
        self.created_ms = created_ms
        self.max_timestamp: TimestampMs = NO_TIMESTAMP
        self.max_timestamp_offset: Offset = base_offset
        self.damage: tuple[Damage, ...] = ()
        self.is_suspect = False  # something is wrong with it; a repair finds out what
        self._timestamps_known = False
        self._index_interval_bytes = index_interval_bytes
        self._bytes_since_index = 0
        self._first_timestamp: TimestampMs | None = None
        self._ready = False  # for appends
        self._recent_floor: Offset = _NEVER
        self._recent_offsets: array[int] = array("q")
        self._recent_positions: array[int] = array("q")

    @classmethod
    def create(
        cls,
        storage: Storage,
        directory: str,
        base_offset: Offset,
        *,
        cache: IndexCache,
        index_interval_bytes: int,
        now_ms: TimestampMs,
    ) -> "Segment":
        """Create a new, empty segment; existing files with its name are emptied."""
        path = f"{directory}/{segment_name(base_offset)}"
        storage.delete(path + TXN_INDEX_SUFFIX)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            index = storage.open(path + suffix, create=True)
            if index.size:
                index.truncate(0)
            index.close()
        log = storage.open(path + LOG_SUFFIX, create=True)
        if log.size:
            log.truncate(0)
        segment = cls(
            storage,
            directory,
            base_offset,
            log,
            cache=cache,
            index_interval_bytes=index_interval_bytes,
            created_ms=now_ms,
        )
        segment.offset_index.begin()
        segment.time_index.begin()
        segment._timestamps_known = segment._ready = True
        segment._recent_floor = base_offset
        return segment

    @classmethod
    def open(
        cls,
        storage: Storage,
        directory: str,
        base_offset: Offset,
        *,
        cache: IndexCache,
        index_interval_bytes: int,
        now_ms: TimestampMs,
    ) -> "Segment":
        """Use the existing files; nothing is read yet."""
        return cls(
            storage,
            directory,
            base_offset,
            storage.open(f"{directory}/{segment_name(base_offset)}{LOG_SUFFIX}"),
            cache=cache,
            index_interval_bytes=index_interval_bytes,
            created_ms=now_ms,
        )

    @property
    def size(self) -> int:
        """The bytes of batches."""
        return self.log.size

    @property
    def log_path(self) -> str:
        """The path of the batches' file, for messages and for other threads' own handles."""
        return f"{self.directory}/{segment_name(self.base_offset)}{LOG_SUFFIX}"

    # --- writing ------------------------------------------------------------------------------

    def append(self, data: Bytes, batches: Sequence[NewBatch]) -> int:
        """Write whole batches at the end, all or nothing. Return where they begin."""
        if not self._ready:
            self._prepare_append()
        start = self.log.append(data)
        for batch in batches:
            self.note(start + batch.position, batch.size, batch.last_offset, batch.max_timestamp)
        return start

    def note(
        self, position: int, size: int, last_offset: Offset, max_timestamp: TimestampMs
    ) -> None:
        """Index a batch that is in the file: newest batch, largest time, index entries."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._bytes_since_index > self._index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self._bytes_since_index = 0
        self._bytes_since_index += size
        self.next_offset = last_offset + 1
        recent = self._recent_offsets
        recent.append(last_offset)
        self._recent_positions.append(position)
        if len(recent) > _RECENT_MAX:
            half = _RECENT_MAX // 2
            self._recent_floor = recent[half - 1] + 1
            del recent[:half], self._recent_positions[:half]

    def begin_rebuild(self) -> None:
        """Clear the indexes; call ``note`` for every batch after this, then ``save_indexes``."""
        self.offset_index.reset()
        self.time_index.reset()
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._timestamps_known = self._ready = True
        self._bytes_since_index = 0
        self._first_timestamp = None
        self.next_offset = self._recent_floor = self.base_offset
        self._recent_offsets, self._recent_positions = array("q"), array("q")

    def rebuild_indexes(self) -> None:
        """Rebuild the offset and time index from the headers, up to the first invalid one."""
        was_ready, next_offset = self._ready, self.next_offset
        rule = self._index_rule()
        self.begin_rebuild()
        position = 0
        while 0 <= position < self.size:
            try:
                for at, header in iter_headers(self.log, position):
                    rule.check_place(at, header, self.next_offset)
                    self.note(at, header.size, header.last_offset, header.max_timestamp)
                break
            except BrokenChain as broken:
                position = self._damage_end(broken.position)
        if position < 0:
            # Not all batches are known, so the last ones are not known exactly.
            self._recent_floor = _NEVER
            self._recent_offsets, self._recent_positions = array("q"), array("q")
        self.next_offset = max(next_offset, self.next_offset)
        with contextlib.suppress(StorageFailure):  # They stay in memory; a later call saves them.
            self.save_indexes()
        if not was_ready:
            self._ready = False
            self.time_index.unload()

    def _index_rule(self) -> ChainRule:
        """Return what an index can hold; gaps between offsets do not matter to it."""
        return ChainRule(offset_bound=segment_bound(self.base_offset))

    def save_indexes(self) -> bool:
        """Rewrite stale index files, ending with the largest time, as a closed segment's must.

        Returns whether the offset or the time index was stale.
        """
        if self.time_index.loaded and self._timestamps_known:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        saved = [self.offset_index.save(), self.time_index.save()]
        self.txn_index.save()
        return any(saved)

    def truncate(self, offset: Offset) -> None:
        """Remove every batch that has the offset or a later one, and damage that may have held them."""
        cut_off = [damage for damage in self.damage if damage.next_offset > offset]
        cuts = [damage.position for damage in cut_off]
        try:
            found = self.find(offset)
            if found is not None:
                cuts.append(found.position)
        except BrokenChain as broken:
            cuts.append(broken.position)
        offset = min([offset, *(damage.first_offset for damage in cut_off)])
        if cuts:
            self.log.truncate(min(cuts))
            self.damage = tuple(damage for damage in self.damage if damage not in cut_off)
        if not self._ready:
            self._prepare_append()
        self.txn_index.truncate(offset)
        if cuts:
            self.offset_index.truncate(offset)
            self.time_index.truncate(offset)
            self._resume(from_position=self.offset_index.last_position)

    def close_for_writing(self) -> None:
        """Close the segment for appends: save its indexes and let the cache decide how long they stay."""
        with contextlib.suppress(StorageFailure):  # They stay in memory; the next flush saves them.
            self.save_indexes()
        self._ready = False
        self.time_index.unload()
        self._cache.admit(self.offset_index)

    def close(self) -> None:
        """Release descriptors and memory. Nothing is written."""
        self._cache.forget(self.offset_index)
        self.log.close()

    def _prepare_append(self) -> None:
        """Load the state that the next append extends."""
        self._load_offset_index()
        self._cache.forget(self.offset_index)
        try:
            if not self.time_index.loaded:
                self.time_index.load()
        except CorruptIndex:
            self.rebuild_indexes()
            self.time_index.load()
        self._resume(from_position=self.offset_index.last_position)
        self._ready = True

    def _resume(self, *, from_position: int) -> None:
        """Index the batches after the last index entry."""
        timestamp, offset = self.time_index.last_entry()
        last_offset = self.base_offset - 1
        since = 0
        for position, header in self._sound_headers(from_position):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
            last_offset = header.last_offset
            since = position + header.size - from_position
        self.max_timestamp, self.max_timestamp_offset = timestamp, offset
        self._timestamps_known = True
        self._bytes_since_index = since
        lost = [damage.next_offset for damage in self.damage]
        self.next_offset = max([last_offset + 1, *lost])
        self._recent_floor = self.next_offset
        self._recent_offsets, self._recent_positions = array("q"), array("q")

    def _sound_headers(self, start: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield headers from a known position on, skipping known damage."""
        for damage in sorted(self.damage):
            if damage.position >= start:
                yield from iter_headers(self.log, start, damage.position)
            start = max(start, damage.end)
        yield from iter_headers(self.log, start)

    # --- reading ------------------------------------------------------------------------------

    def find(self, offset: Offset) -> Found | None:
        """Return the first batch whose last offset is not below the one given."""
        if offset >= self._recent_floor:
            recent = self._recent_offsets
            slot = bisect_left(recent, offset)
            if slot == len(recent):
                return None
            positions = self._recent_positions
            position = positions[slot]
            end = positions[slot + 1] if slot + 1 < len(recent) else self.log.size
            return Found(position, end - position)
        if not self.offset_index.loaded:
            self._load_offset_index()
        low, high = self.offset_index.bracket(offset)
        if high - low > _SEARCH_BYTES:
            # Batches are long here, and most have an entry: try the likely one before walking to it.
            found = self._probe(high, offset)
            if found is not None:
                return found
        return self._search(low, offset, high - low + _SHORT_HEADER_BYTES)

    def batch_start(self, offset: Offset) -> Offset:
        """Return the first offset of the batch that holds the one given; that one itself if none does."""
        lost = [one.first_offset for one in self.damage if one.next_offset > offset]
        try:
            found = self.find(offset)
        except BrokenChain:
            return self.base_offset  # at least not higher
        if found is None:
            return min([offset, *lost])
        first = int.from_bytes(self.log.read(found.position, 8), "big")
        return max(self.base_offset, min([offset, first, *lost]))

    def iter_data(self, start: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield every batch from a known position on, skipping known damage."""
        for damage in sorted(self.damage):
            if damage.position >= start:
                yield from iter_data(self.log, start, damage.position)
            start = max(start, damage.end)
        yield from iter_data(self.log, start)

    def read_next_offset(self) -> Offset:
        """Return one above the last offset in the file, found from the last index entry on.

        Raises ``BrokenChain`` if the file does not end with a whole batch, or with one whose checksum is
        wrong; the latter is checked only where it costs little.
        """
        if not self.offset_index.loaded:
            self._load_offset_index()
        start = self.offset_index.last_position
        rule = self._index_rule()
        next_offset = self.base_offset
        if self.size - start > _TAIL_CHECKED_BYTES:
            for position, header in iter_headers(self.log, start):
                rule.check_place(position, header, next_offset)
                next_offset = header.next_offset
            return next_offset
        for position, header, data in iter_data(self.log, start):
            rule.check(position, header, data, next_offset)
            next_offset = header.next_offset
        return next_offset

    def expected_at(self, position: int, offset: Offset) -> Offset:
        """Return the offset that must follow at the position of a batch that holds the offset, from the batch
        before it; -1 if it is unknown.
        """
        if not self.offset_index.loaded:
            self._load_offset_index()
        start, _ = self.offset_index.bracket(offset)
        expected = NO_OFFSET if start else self.base_offset
        if any(damage.end > start and damage.position < position for damage in self.damage):
            return NO_OFFSET
        try:
            for _, header in iter_headers(self.log, start, position):
                expected = header.next_offset
        except BrokenChain:
            return NO_OFFSET
        return expected

    def find_time(self, timestamp: TimestampMs, start_offset: Offset) -> TimedOffset | None:
        """Return the first record not earlier than the timestamp and not below the offset."""
        floor = self._times().floor(timestamp)
        found = self.find(max(floor, start_offset))
        if found is None:
            return None
        for _, header, data in self.iter_data(found.position):
            if header.max_timestamp < timestamp:
                continue
            try:
                records = _decode_some(header, data)
            except UNREADABLE:
                # Its producer's fault. The record is in there: a reader that begins here does not miss it.
                first = max(header.base_offset, start_offset)
                return TimedOffset(header.max_timestamp, first, header.leader_epoch)
            for record in records:
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimedOffset(record.timestamp, record.offset, header.leader_epoch)
        return None

    def largest_timestamp(self) -> TimestampMs:
        """Return the largest time of any record; -1 for none. A closed segment's time index ends with it."""
        if not self._timestamps_known:
            try:
                last = self.time_index.read_last()
            except CorruptIndex:
                last = self._times().last_entry()
            self.max_timestamp, self.max_timestamp_offset = last
            self._timestamps_known = True
        return self.max_timestamp

    def first_timestamp(self) -> TimestampMs:
        """Return the largest time in the first batch, which is when the segment began; -1 if it is empty."""
        if self._first_timestamp is None:
            if self.size == 0:
                return NO_TIMESTAMP
            _, header = next(iter_headers(self.log, chunk_bytes=HEADER_BYTES))
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    def index_full(self, bytes_max: int) -> bool:
        """Return whether an index has as many entries as ``segment.index.bytes`` allows.

        The time index reserves space for the entry that closes the segment.
        """
        return (
            self.offset_index.entries >= bytes_max // OFFSET_ENTRY_BYTES
            or self.time_index.entries >= bytes_max // TIME_ENTRY_BYTES - 1
        )

    def check_damage(self, offset: Offset, position: int, end: int) -> int:
        """Return how far to read from ``position``. Raises ``CorruptLog`` if the offset itself is damaged."""
        for damage in self.damage:
            if damage.first_offset <= offset < damage.next_offset:
                raise CorruptLog(
                    f"{self.log_path} is damaged: offsets {damage.first_offset} to "
                    f"{damage.next_offset - 1} cannot be served (bytes {damage.position} to {damage.end}: "
                    f"{damage.reason}). Read on from offset {damage.next_offset}, restore the file from a "
                    "replica or a backup, or give the range up with DeleteRecords",
                    next_offset=damage.next_offset,
                )
            if position < damage.position < end:
                end = damage.position
        return end

    def note_damage(self, broken: BrokenChain, offset_bound: Offset) -> Damage:
        """Record damage that begins at a position, and find out which offsets it concerns."""
        first_offset = self.base_offset
        position = 0
        while 0 <= position < broken.position:
            try:
                for _, header in iter_headers(self.log, position, broken.position):
                    first_offset = header.next_offset
                break
            except BrokenChain as earlier:
                position = self._damage_end(earlier.position)
        sound = find_batch(
            self.log, broken.position + 1, offset_min=first_offset, offset_bound=offset_bound
        )
        end, next_offset = sound if sound is not None else (self.size, offset_bound)
        damage = Damage(broken.position, end, first_offset, next_offset, broken.reason)
        if damage not in self.damage:
            self.damage = (*self.damage, damage)
        return damage

    def forget_damage(self, offset: Offset) -> None:
        """Forget damage behind the offset, because the log ends there now."""
        self.damage = tuple(
            damage._replace(next_offset=min(damage.next_offset, offset))
            for damage in self.damage
            if damage.first_offset < offset
        )

    def modified_ms(self) -> TimestampMs:
        """Return when the batches were last written to."""
        return self._storage.modified_ms(self.log_path)

    def _load_offset_index(self) -> None:
        if self.offset_index.loaded:
            return
        try:
            self.offset_index.load(self.log.size)
        except CorruptIndex:
            self.rebuild_indexes()
        self._cache.admit(self.offset_index)

    def _times(self) -> TimeIndex:
        """Return the time index with its entries; those of a closed segment are not kept."""
        if self.time_index.loaded:
            return self.time_index
        times = self.time_index.copy()
        try:
            times.load()
        except CorruptIndex:
            self.rebuild_indexes()
            times.load()
        return times

    def _probe(self, position: int, offset: Offset) -> Found | None:
        """Return the batch at a position, if it is one and holds the offset."""
        header = self.log.read(position, _SHORT_HEADER_BYTES)
        if len(header) < _SHORT_HEADER_BYTES:
            return None
        base_offset, length, magic, delta = _SHORT_HEADER.unpack(header)
        if (
            magic == MAGIC
            and LENGTH_MIN <= length <= self.log.size - position - LOG_OVERHEAD
            and base_offset <= offset <= base_offset + delta
        ):
            return Found(position, length + LOG_OVERHEAD)
        return None

    def _search(
        self, low: int, offset: Offset, window: int, *, rebuilt: bool = False
    ) -> Found | None:
        """Walk headers from ``low`` on, ``window`` bytes at a time, to the batch with the offset."""
        try:
            if not 0 <= low < max(self.log.size, 1):
                raise BrokenChain(low, "the index points out of the file")
            found = self._walk(low, offset, min(max(window, HEADER_BYTES), _SEARCH_BYTES))
            # The batch that the index points to is below the offset; otherwise the index is wrong.
            if found is None or found.position != low or low == 0:
                return found
            if rebuilt:
                raise BrokenChain(
                    low, f"no way to offset {offset}: the index points behind the batch"
                )
        except BrokenChain:
            if rebuilt or low == 0:
                raise
        self.rebuild_indexes()
        self._cache.admit(self.offset_index)
        low, high = self.offset_index.bracket(offset)
        return self._search(low, offset, high - low + _SHORT_HEADER_BYTES, rebuilt=True)

    def _walk(self, position: int, offset: Offset, window: int) -> Found | None:
        log = self.log
        end = log.size
        unpack = _SHORT_HEADER.unpack_from
        while position < end:
            chunk = log.read(position, window)
            at, last = 0, len(chunk) - _SHORT_HEADER_BYTES
            while at <= last:
                if self.damage and (resume := self._damage_end(position + at)) >= 0:
                    if resume >= end:
                        return None
                    at = resume - position
                    continue
                base_offset, length, magic, delta = unpack(chunk, at)
                size = length + LOG_OVERHEAD
                if magic != MAGIC or length < LENGTH_MIN or position + at + size > end:
                    raise BrokenChain(position + at, "no batch begins here")
                if base_offset + delta >= offset:
                    return Found(position + at, size)
                at += size
            if at == 0:
                raise BrokenChain(position, f"{len(chunk)} bytes are no batch")
            position += at
        return None

    def _damage_end(self, position: int) -> int:
        """Return where sound batches begin again after known damage at the position; -1 if none is known."""
        for damage in self.damage:
            if damage.position <= position < damage.end:
                return damage.end
        return -1


def _decode_some(header: BatchHeader, data: memoryview) -> list[Record]:
    """Decode a batch's records, unless there are too many for the event loop."""
    if header.record_count > LOOKED_AT_RECORDS_MAX:
        raise BatchTooLarge(f"batch of {header.record_count} records")
    return decode_batch(data, limit=SEARCHED_DECOMPRESSED_BYTES_MAX)
