"""Verifies every byte of a log and reports what is wrong. Nothing is changed, nothing is trusted.

A finding is a ``PROBLEM`` (data or a guarantee is broken; an operator must act) or a ``NOTICE`` (something
unusual that the next start handles, or that is normal for some topics). It can run beside a broker: then the
end of the last segment may be half written, which is a notice.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from millpond.base.errors import StorageFailure
from millpond.base.ids import NO_EPOCH, NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs
from millpond.log import checkpoint
from millpond.log.chain import BrokenChain, ChainRule, WrongChecksum, segment_bound
from millpond.log.checkpoint import CorruptCheckpoint
from millpond.log.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Listing,
    segment_name,
)
from millpond.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, CorruptIndex
from millpond.log.producer_state import CorruptSnapshot, decode_snapshot
from millpond.log.scan import find_batch, iter_data
from millpond.log.storage import Storage, StorageFile
from millpond.log.txn_index import TxnIndex
from millpond.record.batch import BatchHeader

_ENTRIES_NAMED_MAX = 3  # of the same kind; beyond that only their number is reported


class Severity(StrEnum):
    """The severity of a finding."""

    PROBLEM = "problem"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One deviation from the expected state."""

    severity: Severity
    path: str
    text: str
    advice: str = ""
    first_offset: Offset | None = None
    next_offset: Offset | None = None


@dataclass(slots=True)
class Verified:
    """What was verified, and the findings."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether there is no problem."""
        return not any(finding.severity is Severity.PROBLEM for finding in self.findings)

    def problem(self, path: str, text: str, advice: str = "", **offsets: Offset) -> None:
        """Add a problem: something is broken."""
        self.findings.append(
            Finding(severity=Severity.PROBLEM, path=path, text=text, advice=advice, **offsets)
        )

    def notice(self, path: str, text: str, advice: str = "", **offsets: Offset) -> None:
        """Add a notice: something is unusual."""
        self.findings.append(
            Finding(severity=Severity.NOTICE, path=path, text=text, advice=advice, **offsets)
        )


Progress = Callable[[int], None]
"""Called with the number of bytes that have been read."""

_RESTORE = "restore the file from a replica or a backup, or give the range up with DeleteRecords"
_REBUILD = "delete the file: it is rebuilt from the batches when it is needed"
_CUT = "the next start of the broker cuts it off"


def verify_partition(
    storage: Storage,
    directory: str,
    *,
    recovery_point: Offset | None = None,
    progress: Progress = lambda size: None,
) -> Verified:
    """Verify every file of a partition. Bytes above the recovery point may be a torn tail."""
    verified = Verified()
    files = Listing(storage.list(directory))
    bases = files.offsets(LOG_SUFFIX)
    epoch = NO_EPOCH
    for slot, base in enumerate(bases):
        last = slot + 1 == len(bases)
        segment = _SegmentVerifier(
            storage,
            directory,
            base,
            verified,
            next_base=None if last else bases[slot + 1],
            recovery_point=recovery_point,
            progress=progress,
            leader_epoch=epoch,
        )
        segment.run()
        epoch = segment.leader_epoch
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
        for orphan in sorted(set(files.offsets(suffix)) - set(bases)):
            verified.problem(
                f"{directory}/{segment_name(orphan)}{suffix}",
                "the segment it belongs to is missing",
                _RESTORE,
            )
    for offset in files.offsets(SNAPSHOT_SUFFIX):
        _verify_snapshot(storage, f"{directory}/{segment_name(offset)}{SNAPSHOT_SUFFIX}", verified)
    _verify_small_files(storage, directory, files, verified)
    return verified


def verify_segment(
    storage: Storage, path: str, *, progress: Progress = lambda size: None
) -> Verified:
    """Verify one ``.log`` file and the indexes beside it."""
    directory, _, name = path.rpartition("/")
    verified = Verified()
    _SegmentVerifier(
        storage,
        directory,
        int(name.partition(".")[0]),
        verified,
        next_base=None,
        recovery_point=None,
        progress=progress,
    ).run()
    return verified


class _SegmentVerifier:
    """One pass over a segment, and then a comparison of its indexes with the batches."""

    def __init__(
        self,
        storage: Storage,
        directory: str,
        base_offset: Offset,
        verified: Verified,
        *,
        next_base: Offset | None,
        recovery_point: Offset | None,
        progress: Progress,
        leader_epoch: LeaderEpoch = NO_EPOCH,
    ) -> None:
        self.leader_epoch = leader_epoch  # of the batch before
        self._storage = storage
        self._stem = f"{directory}/{segment_name(base_offset)}".lstrip("/")
        self._base_offset = base_offset
        self._verified = verified
        self._next_base = next_base
        self._recovery_point = recovery_point
        self._progress = progress
        self._rule = ChainRule(offset_bound=segment_bound(base_offset))
        self._next_offset = base_offset
        self._max_timestamp: TimestampMs = NO_TIMESTAMP
        # Where batches are missing, entries of the indexes cannot be compared with any.
        self._lost_positions: list[range] = []
        self._lost_offsets: list[range] = []
        # One entry for each batch: enough to verify the indexes.
        self._positions: list[int] = []
        self._last_offsets: list[Offset] = []
        self._timestamps: list[TimestampMs] = []

    def run(self) -> None:
        path = self._stem + LOG_SUFFIX
        file = self._storage.open(path, private=True)
        try:
            self._verify_batches(path, file)
        finally:
            file.close()
        self._verified.segments += 1
        self._verified.bytes += file.size
        self._verify_end(path)
        self._verify_offset_index()
        self._verify_time_index()
        self._verify_txn_index()

    # --- batches --------------------------------------------------------------------------------

    def _verify_batches(self, path: str, file: StorageFile) -> None:
        position = 0
        while position < file.size:
            try:
                for at, header, data in iter_data(file, position):
                    position = at
                    self._verify_batch(path, at, header, data)
                    self._progress(header.size)
                return
            except BrokenChain as broken:
                position = self._step_over(path, file, broken)

    def _verify_batch(
        self, path: str, position: int, header: BatchHeader, data: memoryview
    ) -> None:
        expected = self._next_offset
        self._rule.check(position, header, data, expected)
        if header.base_offset > expected:
            self._verified.notice(
                path,
                f"no records at offsets {expected} to {header.base_offset - 1}: as it should be in a topic "
                "that is or was compacted, a loss in any other",
                first_offset=expected,
                next_offset=header.base_offset,
            )
        self._verify_epoch(path, header)
        self._next_offset = header.next_offset
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        self._positions.append(position)
        self._last_offsets.append(header.last_offset)
        self._timestamps.append(header.max_timestamp)
        self._verified.batches += 1
        self._verified.records += header.record_count

    def _verify_epoch(self, path: str, header: BatchHeader) -> None:
        """Check that epochs only grow. They are under no checksum, so of two that do not, either may be
        wrong.
        """
        epoch = header.leader_epoch
        if NO_EPOCH < epoch < self.leader_epoch:
            self._verified.problem(
                path,
                f"leader epoch {epoch} at offset {header.base_offset}, behind {self.leader_epoch}: "
                "one of the two has changed; the records are as they were",
                "nothing is lost; copy the file from a replica if followers cannot agree with this one",
                first_offset=header.base_offset,
                next_offset=header.next_offset,
            )
        self.leader_epoch = epoch

    def _step_over(self, path: str, file: StorageFile, broken: BrokenChain) -> int:
        """Report what is wrong at a position where no batch begins. Return where the next one does."""
        first_offset = self._next_offset
        bound = segment_bound(self._base_offset, self._next_base)
        found = find_batch(file, broken.position + 1, offset_min=first_offset, offset_bound=bound)
        end = file.size if found is None else found[0]
        self._progress(end - broken.position)
        self._lost_positions.append(range(broken.position, end))
        self._lost_offsets.append(range(first_offset, bound if found is None else found[1]))
        if found is not None:
            self._next_offset = found[1]
            lost = f"offsets {first_offset} to {found[1] - 1}"
            text = f"bytes {broken.position} to {end} are no batches, {lost} are lost ({broken.reason})"
            if isinstance(broken, WrongChecksum):
                text = f"wrong checksum at byte {broken.position}, {lost}"
            self._damage(path, text, first_offset=first_offset, next_offset=found[1])
            return end
        text = f"the last {end - broken.position} bytes are no whole batch ({broken.reason})"
        recovery_point = self._recovery_point
        if (
            self._next_base is None
            and recovery_point is not None
            and first_offset >= recovery_point
        ):
            self._verified.notice(path, text, _CUT, first_offset=first_offset)
        else:
            self._damage(path, text, first_offset=first_offset)
        return end

    def _damage(self, path: str, text: str, **offsets: Offset) -> None:
        self._verified.problem(path, text, _RESTORE, **offsets)

    def _verify_end(self, path: str) -> None:
        following = self._next_base
        if following is None:
            recovery_point = self._recovery_point
            if recovery_point is not None and self._next_offset < recovery_point:
                self._damage(
                    path,
                    f"the log ends at offset {self._next_offset}, but was flushed up to {recovery_point}",
                    first_offset=self._next_offset,
                    next_offset=recovery_point,
                )
        elif self._next_offset > following:
            self._damage(path, f"it runs into the next segment, which begins at offset {following}")
        elif self._next_offset < following:
            self._verified.notice(
                path,
                f"no records at offsets {self._next_offset} to {following - 1}, before the next segment: as "
                "it should be in a topic that is or was compacted, a loss in any other",
                first_offset=self._next_offset,
                next_offset=following,
            )

    # --- indexes --------------------------------------------------------------------------------

    def _verify_offset_index(self) -> None:
        path = self._stem + INDEX_SUFFIX
        wrong = []
        last = -1
        for relative, position in self._entries(path, OFFSET_ENTRY_BYTES, ">ii"):
            batch = bisect_right(self._positions, position) - 1
            known = batch >= 0 and self._positions[batch] == position
            first = self._last_offsets[batch - 1] + 1 if batch > 0 else self._base_offset
            lost = any(position in lost for lost in self._lost_positions)
            if relative <= last or not (lost or (known and self._base_offset + relative >= first)):
                wrong.append(f"offset {self._base_offset + relative} at byte {position}")
            last = relative
        self._tell(path, wrong)

    def _verify_time_index(self) -> None:
        path = self._stem + TIME_INDEX_SUFFIX
        wrong = []
        last = NO_TIMESTAMP
        for timestamp, relative in self._entries(path, TIME_ENTRY_BYTES, ">qi"):
            offset = self._base_offset + relative
            batch = bisect_right(self._last_offsets, offset - 1)
            known = batch < len(self._timestamps) and self._timestamps[batch] == timestamp
            lost = any(offset in lost for lost in self._lost_offsets)
            if timestamp <= last or not (known or lost):
                wrong.append(f"time {timestamp} at offset {offset}")
            last = timestamp
        self._tell(path, wrong)
        complete = self._next_base is not None and not self._lost_positions
        if complete and not wrong and last != self._max_timestamp:
            self._verified.problem(
                path,
                f"it ends with time {last}, but the segment's largest is {self._max_timestamp}: "
                "retention and searches by time would be misled",
                _REBUILD,
            )

    def _entries(self, path: str, size: int, form: str) -> Iterator[tuple[int, int]]:
        data = self._storage.read_all(path)
        if data is None:
            self._verified.notice(path, "it is missing; it is rebuilt when it is needed")
            return
        whole = len(data) - len(data) % size
        used = len(data.rstrip(b"\0"))
        if used + size <= whole and self._next_base is None:
            # Kafka preallocates the file while the segment is active; only a clean shutdown trims it.
            whole = -(-used // size) * size
            self._verified.notice(path, f"{len(data) - whole} bytes of it are reserved, not used")
        elif whole != len(data):
            self._verified.problem(path, f"{len(data)} bytes are no whole entries", _REBUILD)
        yield from struct.iter_unpack(form, data[:whole])

    def _tell(self, path: str, wrong: list[str]) -> None:
        if not wrong:
            return
        named = ", ".join(wrong[:_ENTRIES_NAMED_MAX])
        more = len(wrong) - _ENTRIES_NAMED_MAX
        text = f"entries that no batch bears out: {named}" + (
            f" and {more} more" if more > 0 else ""
        )
        self._verified.problem(path, text, _REBUILD)

    def _verify_txn_index(self) -> None:
        path = self._stem + TXN_INDEX_SUFFIX
        try:
            entries = TxnIndex(self._storage, path).entries()
        except CorruptIndex as corrupt:
            self._verified.problem(path, str(corrupt), _REBUILD)
            return
        for entry in entries:
            lost = any(entry.last_offset in lost for lost in self._lost_offsets)
            if not lost and not self._base_offset <= entry.last_offset < self._next_offset:
                self._verified.problem(path, f"its marker is not in the segment: {entry}", _REBUILD)


def _verify_snapshot(storage: Storage, path: str, verified: Verified) -> None:
    try:
        decode_snapshot(storage.read_all(path) or b"")
    except CorruptSnapshot as corrupt:
        verified.problem(path, f"a producer snapshot that cannot be read: {corrupt}", _REBUILD)


def _verify_small_files(
    storage: Storage, directory: str, files: Listing, verified: Verified
) -> None:
    readers: dict[str, Callable[[Storage, str], object]] = {
        checkpoint.LEADER_EPOCHS_FILE: checkpoint.read_epochs,
        checkpoint.PARTITION_METADATA_FILE: checkpoint.read_topic_id,
    }
    for name, read in readers.items():
        if name not in files.others:
            continue
        try:
            read(storage, f"{directory}/{name}")
        except CorruptCheckpoint as corrupt:
            verified.problem(f"{directory}/{name}", str(corrupt), "the next start rewrites it")
    for name in files.names_ending(".cleaned") + files.names_ending(".swap"):
        verified.notice(f"{directory}/{name}", "left by a compaction; the next start deals with it")


def recovery_points(storage: Storage, path: str) -> dict[str, Offset]:
    """Return the recovery point of each partition of a data directory, by the name of its directory."""
    try:
        found = checkpoint.read_offsets(storage, path)
    except (CorruptCheckpoint, StorageFailure):
        return {}
    return {str(topic_partition): offset for topic_partition, offset in found.items()}
