"""Compaction: keeps the last record of each key, in order, at its offset.

Three steps, so that appends and reads never wait:

1. ``PartitionLog.plan_compaction`` (on the log's thread) decides whether and how far (``cleanable``), and
   copies the state that the run needs.
2. ``CompactionPlan.run`` (on any thread, or in another process) reads closed segments through its own
   descriptors and writes ``.cleaned`` files beside them. It shares nothing with the log.
3. ``PartitionLog.install_compaction`` (on the log's thread) swaps the files; ``recovery`` finishes or undoes
   a swap that a crash interrupted.

What is kept, as in Apache Kafka:

* of each key the last record below the bound; every record above it;
* a tombstone (a key without a value) until ``delete.retention.ms`` after the first pass that saw it. That
  time is written into the batch (attribute bit 6; the base timestamp then holds it; KIP-534);
* a transaction's marker likewise, but only once no record of the transaction is left; never records of an
  aborted transaction;
* the last batch of an active producer, and the last batch of the pass, if need be without records, so that
  sequences and offsets are not forgotten. Records without a key are not allowed in such a topic; they are
  removed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from millpond.base.errors import (
    CorruptLog,
    ShuttingDown,
)
from millpond.base.ids import NO_OFFSET, Offset, ProducerId, TimestampMs, TopicPartition
from millpond.base.limits import COMPACTION_KEYS_MAX, SEGMENT_OFFSET_SPAN_MAX
from millpond.log.chain import BrokenChain, ChainRule
from millpond.log.cleanable import Source
from millpond.log.config import LogConfig
from millpond.log.files import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    segment_name,
)
from millpond.log.index import IndexCache
from millpond.log.scan import iter_data
from millpond.log.segment import Segment
from millpond.log.storage import Storage
from millpond.log.txn_index import AbortedTransaction
from millpond.record.batch import BatchHeader, read_header
from millpond.record.builder import rebuild_batch
from millpond.record.compression import Compression
from millpond.record.control import MarkerType, marker_type
from millpond.record.records import UNREADABLE, Record, decode_batch

# Keys longer than this are remembered by a digest one byte longer, which no short key can equal.
_KEY_BYTES_MAX = 32
_WRITE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """Segments that are merged into one."""

    base_offset: Offset
    sources: tuple[Offset, ...]


@dataclass(slots=True, kw_only=True)
class CompactionResult:
    """The result of ``run``, for ``install_compaction`` and for the log message."""

    plan: "CompactionPlan"
    groups: list[CleanedGroup]
    end_offset: Offset  # compacted up to here
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_kept: int


@dataclass(slots=True, kw_only=True)
class CompactionPlan:
    """Everything that a pass over the closed segments needs."""

    storage: Storage
    directory: str
    topic_partition: TopicPartition
    config: LogConfig
    now_ms: TimestampMs
    sources: list[Source]
    first_dirty: Offset
    bound: Offset  # the pass ends here
    last_offsets: dict[
        ProducerId, tuple[int, Offset]
    ]  # epoch and last data offset of active producers
    aborted: list[AbortedTransaction]
    generation: int
    keys_max: int = COMPACTION_KEYS_MAX
    stopped: bool = False  # set from another thread to end a run early

    def run(self) -> CompactionResult:
        """Read, decide, write ``.cleaned`` files, sync them. Raises ``CorruptLog`` or ``StorageFailure``."""
        return _Pass(self).run()

    def discard(self) -> None:
        """Remove the files of ``run``, complete or not."""
        for source in self.sources:
            name = f"{self.directory}/{segment_name(source.base_offset)}"
            for suffix in SEGMENT_SUFFIXES:
                self.storage.delete(name + suffix + CLEANED_SUFFIX)


def decide_swap(storage: Storage, directory: str, base_offset: Offset) -> list[str]:
    """Decide the swap: from here on the compacted files count. Return the suffixes of the existing files.

    The batches' file is renamed first: while another file is called ``.cleaned``, nothing has been decided.
    """
    name = f"{directory}/{segment_name(base_offset)}"
    suffixes = [
        suffix for suffix in SEGMENT_SUFFIXES if storage.exists(name + suffix + CLEANED_SUFFIX)
    ]
    for suffix in suffixes:
        storage.rename(name + suffix + CLEANED_SUFFIX, name + suffix + SWAP_SUFFIX)
    storage.sync_dir(directory)
    return suffixes


def finish_swap(
    storage: Storage, directory: str, base_offset: Offset, suffixes: Sequence[str]
) -> None:
    """Rename the compacted files to the names of the old ones, which are gone."""
    name = f"{directory}/{segment_name(base_offset)}"
    for suffix in suffixes:
        storage.rename(name + suffix + SWAP_SUFFIX, name + suffix)


class _Pass:
    """One run of a plan."""

    def __init__(self, plan: CompactionPlan) -> None:
        self._plan = plan
        self._latest: dict[bytes, Offset] = {}  # key → its last offset in the dirty part
        self._mapped_to: Offset = plan.first_dirty  # the map contains everything below
        self._records_read = 0
        self._records_kept = 0
        self._bytes_read = 0
        self._bytes_kept = 0

    def run(self) -> CompactionResult:
        self._map_keys()
        transactions = _Transactions(self._plan.aborted)
        groups = [
            self._clean_group(group, transactions)
            for group in _group(self._sources(), self._plan.config)
        ]
        return CompactionResult(
            plan=self._plan,
            groups=groups,
            end_offset=self._mapped_to,
            records_read=self._records_read,
            records_kept=self._records_kept,
            bytes_read=self._bytes_read,
            bytes_kept=self._bytes_kept,
        )

    def _sources(self) -> list[Source]:
        return [source for source in self._plan.sources if source.base_offset < self._mapped_to]

    def _map_keys(self) -> None:
        """Remember the last offset of each key in the dirty part, until the map is full."""
        plan = self._plan
        dirty = [source for source in plan.sources if source.next_base > plan.first_dirty]
        # Transactions that ended before are not tracked: their markers do not occur here.
        begin = dirty[0].base_offset if dirty else plan.bound
        transactions = _Transactions([one for one in plan.aborted if one.last_offset >= begin])
        for source in dirty:
            for header, data in self._batches(source):
                if header.is_control:
                    transactions.on_marker(header, data)
                elif not transactions.on_batch(header) and header.last_offset >= plan.first_dirty:
                    if len(self._latest) + header.record_count > plan.keys_max and self._latest:
                        return
                    for record in _decode(data) or ():
                        if record.key is not None and record.offset >= plan.first_dirty:
                            self._latest[_short_key(record.key)] = record.offset
                self._mapped_to = max(self._mapped_to, header.next_offset)
            self._mapped_to = source.next_base

    def _clean_group(self, group: list[Source], transactions: "_Transactions") -> CleanedGroup:
        plan = self._plan
        base_offset = group[0].base_offset
        path = f"{plan.directory}/{segment_name(base_offset)}"
        log = plan.storage.open(path + LOG_SUFFIX + CLEANED_SUFFIX, create=True, private=True)
        try:
            log.truncate(0)
            cleaned = Segment(
                plan.storage,
                plan.directory,
                base_offset,
                log,
                cache=IndexCache(),
                index_interval_bytes=plan.config.index_interval_bytes,
                created_ms=plan.now_ms,
                suffix=CLEANED_SUFFIX,
            )
            cleaned.begin_rebuild()
            pending = bytearray()
            for source in group:
                for kept in self._clean(source, transactions):
                    header = read_header(kept)
                    position = log.size + len(pending)
                    cleaned.note(position, header.size, header.last_offset, header.max_timestamp)
                    pending += kept
                    if len(pending) >= _WRITE_BYTES:
                        log.append(pending)
                        pending = bytearray()
            if pending:
                log.append(pending)
            cleaned.save_indexes()
            cleaned.txn_index.rewrite(transactions.take_aborted())
            log.sync()
            self._bytes_kept += log.size
        finally:
            log.close()
        for suffix in SEGMENT_SUFFIXES[1:]:
            plan.storage.sync_file(path + suffix + CLEANED_SUFFIX)
        return CleanedGroup(base_offset, tuple(source.base_offset for source in group))

    def _clean(
        self, source: Source, transactions: "_Transactions"
    ) -> Iterator[bytes | bytearray | memoryview]:
        """Yield the batches of a segment that are kept, rewritten where needed."""
        self._bytes_read += source.size
        for header, data in self._batches(source):
            if header.is_control:
                gone = transactions.on_marker(header, data)
                kept = self._clean_marker(header, data, gone=gone)
            else:
                kept = self._clean_batch(header, data, aborted=transactions.on_batch(header))
            if kept is not None:
                yield kept

    def _clean_marker(
        self, header: BatchHeader, data: memoryview, *, gone: bool
    ) -> bytearray | memoryview | None:
        """Return a marker, which is kept as long as tombstones after its transaction's last record; None to
        drop it.
        """
        self._records_read += header.record_count
        horizon = header.delete_horizon_ms
        if gone and horizon is not None and horizon <= self._plan.now_ms:
            return self._empty(header) if self._must_stay(header) else None
        self._records_kept += header.record_count
        if gone and horizon is None and header.record_count:
            return rebuild_batch(header, decode_batch(data), delete_horizon_ms=self._horizon())
        return data

    def _clean_batch(
        self, header: BatchHeader, data: memoryview, *, aborted: bool
    ) -> bytearray | memoryview | None:
        records = _decode(data)
        if records is None and not aborted:
            self._records_read += header.record_count
            self._records_kept += header.record_count
            return data
        records = records or []
        kept = [] if aborted else [record for record in records if self._keeps(header, record)]
        self._records_read += len(records)
        self._records_kept += len(kept)
        if not kept:
            return self._empty(header) if self._must_stay(header) else None
        horizon = None
        if header.delete_horizon_ms is None and any(record.value is None for record in kept):
            horizon = self._horizon()
        if horizon is None and len(kept) == len(records):
            return data
        return rebuild_batch(header, kept, delete_horizon_ms=horizon)

    def _keeps(self, header: BatchHeader, record: Record) -> bool:
        if record.offset >= self._mapped_to:
            return True
        if record.key is None:
            return False
        if record.offset < self._latest.get(_short_key(record.key), NO_OFFSET):
            return False
        horizon = header.delete_horizon_ms
        return record.value is not None or horizon is None or self._plan.now_ms < horizon

    def _must_stay(self, header: BatchHeader) -> bool:
        """Return whether the batch's header holds state that is nowhere else in the log."""
        if header.next_offset == self._plan.bound:
            return True
        last = self._plan.last_offsets.get(header.producer_id)
        if header.producer_id < 0 or last is None:
            return False
        epoch, last_offset = last
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    def _empty(self, header: BatchHeader) -> bytearray:
        return rebuild_batch(header, [], compression=Compression.NONE)

    def _horizon(self) -> TimestampMs:
        return self._plan.now_ms + self._plan.config.delete_retention_ms

    def _batches(self, source: Source) -> Iterator[tuple[BatchHeader, memoryview]]:
        path = f"{self._plan.directory}/{segment_name(source.base_offset)}{LOG_SUFFIX}"
        rule = ChainRule(offset_bound=source.next_base)
        expected = source.base_offset
        file = self._plan.storage.open(path, private=True)
        try:
            for position, header, data in iter_data(file, 0, source.size):
                if self._plan.stopped:
                    raise ShuttingDown(f"{path}: the node stops; the compaction is given up")
                rule.check(position, header, data, expected)
                expected = header.next_offset
                yield header, data
        except BrokenChain as broken:
            raise CorruptLog(
                f"{path} {broken}; the partition is not compacted until that is repaired"
            ) from broken
        finally:
            file.close()


@dataclass(slots=True)
class _Transactions:
    """Tracks transactions through a pass: which batches are aborted, which markers are no longer needed."""

    aborted: list[AbortedTransaction]
    _waiting: list[AbortedTransaction] = field(init=False)
    _open_aborted: dict[ProducerId, AbortedTransaction] = field(default_factory=dict)
    _seen: set[ProducerId] = field(default_factory=set)  # aborted, and with batches in the log
    _committing: set[ProducerId] = field(default_factory=set)
    _kept: list[AbortedTransaction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._waiting = sorted(self.aborted, key=lambda entry: entry.first_offset, reverse=True)

    def on_batch(self, header: BatchHeader) -> bool:
        """Return whether the batch belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._open_aborted:
            self._seen.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def on_marker(self, header: BatchHeader, data: memoryview) -> bool:
        """Return whether no record of the marker's transaction is left in the log."""
        self._advance(header.last_offset)
        if not header.record_count:
            return True
        records = _decode(data)
        kind = marker_type(records[0]) if records else None
        if kind == MarkerType.ABORT:
            entry = self._open_aborted.pop(header.producer_id, None)
            if entry is not None and header.producer_id in self._seen:
                self._seen.discard(header.producer_id)
                self._kept.append(entry)
                return False
            return True
        if kind == MarkerType.COMMIT:
            if header.producer_id in self._committing:
                self._committing.discard(header.producer_id)
                return False
            return True
        return False

    def take_aborted(self) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers were kept since the last call."""
        kept, self._kept = self._kept, []
        return kept

    def _advance(self, offset: Offset) -> None:
        while self._waiting and self._waiting[-1].first_offset <= offset:
            entry = self._waiting.pop()
            self._open_aborted.setdefault(entry.producer_id, entry)


def _group(sources: list[Source], config: LogConfig) -> list[list[Source]]:
    """Return groups of adjacent segments that together have at most ``segment.bytes``."""
    groups: list[list[Source]] = []
    size = 0
    for source in sources:
        fits = (
            groups
            and size + source.size <= config.segment_bytes
            and source.next_base - 1 - groups[-1][0].base_offset <= SEGMENT_OFFSET_SPAN_MAX
        )
        if fits:
            groups[-1].append(source)
            size += source.size
        else:
            groups.append([source])
            size = source.size
    return groups


def _decode(data: memoryview) -> list[Record] | None:
    """Return a batch's records; None if they do not decode despite a right checksum: the batch is kept
    unchanged.
    """
    try:
        return decode_batch(data)
    except UNREADABLE:
        return None


def _short_key(key: bytes) -> bytes:
    if len(key) <= _KEY_BYTES_MAX:
        return key
    return blake2b(key, digest_size=_KEY_BYTES_MAX + 1).digest()
