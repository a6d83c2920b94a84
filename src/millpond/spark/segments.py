"""Reads closed segment files of a data directory, without a broker: for backfills, backups and tests.

A closed segment does not change, so files are read while a broker runs on them. The active segment counts
only when the broker has stopped cleanly. Files of Apache Kafka are the same. Nothing is written, locked or
repaired here; read access to the directory is enough.

With ``read_committed`` a partition ends where its first open transaction begins, according to the producer
snapshot beside the segments; the transaction indexes list the aborted ones.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from struct import Struct

from millpond.base.errors import CorruptBatch, CorruptLog
from millpond.base.ids import TopicPartition
from millpond.log import FileStorage
from millpond.log.checkpoint import read_offsets
from millpond.log.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Listing,
    segment_name,
)
from millpond.log.producer_state import CorruptSnapshot, decode_snapshot
from millpond.log.txn_index import AbortedTransaction, TxnIndex
from millpond.record import BatchHeader, decode_batch, iter_batches
from millpond.record.records import UNREADABLE
from millpond.spark.errors import WrongOption
from millpond.spark.loss import LossPolicy
from millpond.spark.options import (
    FetchSettings,
    Isolation,
    Partitions,
    Subscription,
    TopicPattern,
    Topics,
)
from millpond.spark.pieces import Fetched
from millpond.spark.plan import Bounds, Lost, Range, Reason

_PARTITION_DIR = re.compile(r"([A-Za-z0-9._-]{1,249})-(\d{1,10})")
_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_START_OFFSETS = "log-start-offset-checkpoint"
_INDEX_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_WALK_BYTES = 1024 * 1024


class SegmentPlace:
    """A data directory as the driver's tracker uses it."""

    def __init__(self, directory: str, isolation: Isolation) -> None:
        self._root = Path(directory)
        self._isolation = isolation
        if not self._root.is_dir():
            raise WrongOption(f"segments={directory}: there is no such directory")

    def topics(self, subscription: Subscription) -> Mapping[str, Collection[int]]:
        """Return the topics of the subscription, with the partitions that have a directory."""
        found = self._found()
        match subscription:
            case Topics(names):
                wanted = set(names)
            case Partitions(places):
                wanted = {place.topic for place in places}
            case TopicPattern():
                wanted = {
                    topic
                    for topic in found
                    if subscription.matches(topic) and not topic.startswith("__")
                }
        return {topic: numbers for topic, numbers in found.items() if topic in wanted}

    def all_topics(self) -> Collection[str]:
        """Return every topic that has a directory."""
        return self._found().keys()

    def bounds(self, places: Iterable[TopicPartition]) -> Bounds:
        """Return the start and end of the readable part of these logs."""
        starts = read_offsets(FileStorage(str(self._root)), _START_OFFSETS)
        earliest: dict[TopicPartition, int] = {}
        latest: dict[TopicPartition, int] = {}
        for place in places:
            files = _PartitionFiles(self._root, place)
            if not files.bases:
                continue
            end = files.end()
            first = max(files.bases[0], starts.get(place, 0))
            if self._isolation is Isolation.READ_COMMITTED:
                end = files.stable_end(end)
            earliest[place] = min(first, end)
            latest[place] = end
        return Bounds(earliest=earliest, latest=latest)

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of the first readable record at or after each time."""
        bounds = self.bounds(times.keys())
        found: dict[TopicPartition, int | None] = {}
        for place, time in times.items():
            first, end = bounds.earliest.get(place, 0), bounds.latest.get(place, 0)
            offset = _PartitionFiles(self._root, place).offset_at(time, first)
            found[place] = offset if offset is not None and offset < end else None
        return found

    def _found(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for path in self._root.iterdir():
            match = _PARTITION_DIR.fullmatch(path.name)
            if match is not None and path.is_dir():
                found.setdefault(match[1], []).append(int(match[2]))
        return found


def read_segments(
    directory: str, wanted: Range, fetch: FetchSettings, lose: LossPolicy
) -> Iterator[Fetched]:
    """Yield the batches of a range from its files. A file that was deleted meanwhile is a loss."""
    files = _PartitionFiles(Path(directory), wanted.place)
    aborted = files.aborted() if fetch.isolation is Isolation.READ_COMMITTED else []
    position = wanted.first
    for base, bound in files.spans():
        if bound <= position:
            continue
        if base >= wanted.end or position >= wanted.end:
            break
        if base > position:
            lose([_lost(wanted, position, min(base, wanted.end))])
            position = base
        try:
            for fetched in _read_file(files, base, position, fetch.partition_bytes, aborted):
                position = max(position, fetched.next_offset)
                yield fetched
                if position >= wanted.end:
                    return
        except FileNotFoundError:
            lose([_lost(wanted, position, min(bound, wanted.end))])
        position = bound
    if position < wanted.end:
        lose([_lost(wanted, position, wanted.end)])


def _lost(wanted: Range, first: int, end: int) -> Lost:
    return Lost(
        topic=wanted.topic,
        partition=wanted.partition,
        first=first,
        end=end,
        reason=Reason.DELETED,
    )


def _read_file(
    files: "_PartitionFiles",
    base: int,
    offset: int,
    piece_bytes: int,
    aborted: list[AbortedTransaction],
) -> Iterator[Fetched]:
    for piece, headers in files.walk(base, offset, piece_bytes):
        first, next_offset = headers[0].base_offset, headers[-1].next_offset
        yield Fetched(
            data=piece,
            aborted=tuple(
                (entry.producer_id, entry.first_offset)
                for entry in aborted
                if entry.first_offset < next_offset and entry.last_offset >= first
            ),
            next_offset=next_offset,
        )


class _PartitionFiles:
    """The segments of one partition."""

    def __init__(self, root: Path, place: TopicPartition) -> None:
        self._root = root
        self._directory = root / str(place)
        directory = self._directory
        names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
        self.bases = Listing(names).offsets(LOG_SUFFIX)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the base offset of each segment and its largest possible end."""
        return zip(self.bases, [*self.bases[1:], 2**63 - 1], strict=True)

    def end(self) -> int:
        """Return the end of the part that does not change any more."""
        last = self.bases[-1]
        if not (self._root / _CLEAN_SHUTDOWN).exists():
            return last
        end = last
        for _, headers in self.walk(last, 2**63 - 1, _WALK_BYTES):
            end = headers[-1].next_offset
        return end

    def stable_end(self, end: int) -> int:
        """Return the same, limited by the first transaction that was open there."""
        try:
            data = self._file(end, SNAPSHOT_SUFFIX).read_bytes()
            opened = [item.txn_first_offset for item in decode_snapshot(data)]
        except (FileNotFoundError, CorruptSnapshot):
            opened = self._undecided(end)
        return min((offset for offset in opened if offset >= 0), default=end)

    def _undecided(self, end: int) -> list[int]:
        """Return the first offsets of open transactions, from the batches themselves."""
        opened: dict[int, int] = {}
        for base in self.bases:
            for _, headers in self.walk(base, base, _WALK_BYTES):
                for header in headers:
                    if header.base_offset >= end:
                        return [*opened.values()]
                    if header.is_control:
                        opened.pop(header.producer_id, None)
                    elif header.is_transactional:
                        opened.setdefault(header.producer_id, header.base_offset)
        return [*opened.values()]

    def aborted(self) -> list[AbortedTransaction]:
        """Return every aborted transaction whose end is known."""
        storage = FileStorage(str(self._directory))
        return [
            entry
            for base in self.bases
            for entry in TxnIndex(storage, segment_name(base) + TXN_INDEX_SUFFIX).entries()
        ]

    def offset_at(self, time: int, first: int) -> int | None:
        """Return the first record from ``first`` on that is not earlier than a time."""
        for base, bound in self.spans():
            if bound <= first or self._all_before(base, time):
                continue
            for piece, headers in self.walk(base, max(base, first), _WALK_BYTES):
                if all(header.max_timestamp < time for header in headers):
                    continue
                for at, header in iter_batches(piece):
                    if header.max_timestamp < time or header.is_control:
                        continue
                    try:
                        records = decode_batch(piece[at : at + header.size])
                    except UNREADABLE:
                        # A record of that time may be in there: a reader that begins here does not miss it.
                        return max(header.base_offset, first)
                    for record in records:
                        if record.timestamp >= time and record.offset >= first:
                            return record.offset
        return None

    def _all_before(self, base: int, time: int) -> bool:
        """Return whether a closed segment's time index, which ends with the largest time, excludes it."""
        if base == self.bases[-1]:
            return False
        try:
            data = self._file(base, TIME_INDEX_SUFFIX).read_bytes()
        except FileNotFoundError:
            return False
        if not data or len(data) % _TIME_ENTRY.size:
            return False
        return bool(_TIME_ENTRY.unpack_from(data, len(data) - _TIME_ENTRY.size)[0] < time)

    def walk(
        self, base: int, offset: int, piece_bytes: int
    ) -> Iterator[tuple[memoryview, list[BatchHeader]]]:
        """Yield pieces of a segment's file with whole batches, from about the position of an offset."""
        with _opened(self._file(base, LOG_SUFFIX)) as descriptor:
            position = self._position(base, offset, descriptor)
            wanted = piece_bytes
            while data := os.pread(descriptor, wanted, position):
                piece, headers = self._whole_batches(base, position, data)
                if headers:
                    yield piece, headers
                    position += len(piece)
                    wanted = piece_bytes
                elif len(data) < wanted:
                    if base == self.bases[-1]:
                        return  # being written
                    raise CorruptLog(
                        f"{self._file(base, LOG_SUFFIX)} ends in the middle of a batch (byte {position})"
                    )
                else:
                    wanted *= 2  # a batch that is longer than a piece

    def _whole_batches(
        self, base: int, position: int, data: bytes
    ) -> tuple[memoryview, list[BatchHeader]]:
        view = memoryview(data)
        headers: list[BatchHeader] = []
        end = 0
        try:
            for at, header in iter_batches(view):
                headers.append(header)
                end = at + header.size
        except CorruptBatch as error:
            path = self._file(base, LOG_SUFFIX)
            raise CorruptLog(f"{path}, after byte {position + end}: {error}") from None
        return view[:end], headers

    def _position(self, base: int, offset: int, descriptor: int) -> int:
        """Return the file position to begin at: the last index entry that is not behind the offset."""
        try:
            data = self._file(base, INDEX_SUFFIX).read_bytes()
        except FileNotFoundError:
            return 0
        entries = list(_INDEX_ENTRY.iter_unpack(data[: len(data) // 8 * 8]))
        slot = bisect_right(entries, (offset - base, 2**31)) - 1
        if slot < 0:
            return 0
        position = int(entries[slot][1])
        header = os.pread(descriptor, 8, position)
        # A wrong index is no reason to fail: the file can be read from its start.
        believable = len(header) == 8 and base <= int.from_bytes(header, "big") <= offset
        return position if believable else 0

    def _file(self, offset: int, suffix: str) -> Path:
        return self._directory / (segment_name(offset) + suffix)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
