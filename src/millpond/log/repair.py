"""Repair: replaces damaged bytes with sound batches of another replica.

Three steps, as with compaction, so that appends and reads never wait:

1. ``PartitionLog.plan_repair`` (on the log's thread) closes the segment if it is still active, and copies the
   state that the repair needs.
2. ``RepairPlan.survey`` and ``SegmentRewrite`` (on any thread, one at a time) check every batch of the
   segment, and rewrite it as ``.cleaned`` files, with another replica's batches for the damaged ranges. A
   range that no replica has stays as it is.
3. ``PartitionLog.install_repair`` (on the log's thread) swaps the files as compaction does; ``recovery``
   finishes or undoes a swap that a crash interrupted.

Another replica's batches are accepted only if their checksums are right, if they were written in this log's
epochs, and if their offsets fit: no batch may reach out of the range, and none may be missing where
compaction has never been.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from millpond.base.errors import CorruptBatch, CorruptLog, ShuttingDown, StorageFailure
from millpond.base.ids import LeaderEpoch, Offset, TimestampMs, TopicPartition
from millpond.log.chain import BrokenChain, ChainRule
from millpond.log.files import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, segment_name
from millpond.log.index import IndexCache
from millpond.log.scan import find_batch, iter_data, iter_headers
from millpond.log.segment import Damage, Segment
from millpond.log.storage import Bytes, Storage, StorageFile
from millpond.log.txn_index import AbortedTransaction
from millpond.record.batch import BatchHeader, check_crc, iter_batches

_COPY_BYTES = 1024 * 1024
# Positions in an index have 31 bits.
SEGMENT_BYTES_MAX = 2**31 - 1
# A segment with more gaps than this was compacted, whatever is recorded about it here.
_HOLES_MAX = 16


@dataclass(slots=True, kw_only=True)
class RepairPlan:
    """Everything needed to rewrite one closed segment."""

    storage: Storage
    directory: str
    topic_partition: TopicPartition
    base_offset: Offset
    next_base: Offset  # of the next segment
    size: int
    known: tuple[Damage, ...]
    is_suspect: bool  # a reader has missed an offset here
    start_offset: Offset  # the log's: everything below was given up
    gaps_below: Offset  # offsets below may be missing without any loss
    epochs: list[tuple[LeaderEpoch, Offset]]  # and where each began
    aborted: list[AbortedTransaction]
    index_interval_bytes: int
    now_ms: TimestampMs
    generation: int
    stopped: bool = False  # set from another thread to end a run early

    @property
    def path(self) -> str:
        """The path of the segment's files, without their suffixes."""
        return f"{self.directory}/{segment_name(self.base_offset)}"

    def survey(self) -> list[Damage]:
        """Check every batch; return all damage, in order, known or not."""
        file = self.storage.open(self.path + LOG_SUFFIX, private=True)
        try:
            self.size = min(self.size, file.size)  # the file may have been truncated
            found = _Survey(self, file)
            found.run()
        finally:
            file.close()
        return found.damages

    def discard(self) -> None:
        """Remove the written files."""
        for suffix in SEGMENT_SUFFIXES:
            self.storage.delete(self.path + suffix + CLEANED_SUFFIX)

    def may_miss(self, offset: Offset) -> bool:
        """Return whether compaction may have removed the record."""
        return offset < self.gaps_below

    def check_stopped(self) -> None:
        """Raise ``ShuttingDown`` if the repair was stopped."""
        if self.stopped:
            raise ShuttingDown(f"{self.path}{LOG_SUFFIX}: the repair is given up")


class _Survey:
    """One walk over a segment.

    A wrong checksum identifies the bad batch. Offsets are under no checksum, and records may be missing
    before a batch. So where one batch jumps and the next does not follow it, either may be wrong: both count
    as damaged, and a replica that has the records has both. Where the next one follows, the records are
    missing; if compaction cannot have removed them, that is damage without a byte (``_holes``).
    """

    def __init__(self, plan: RepairPlan, file: StorageFile) -> None:
        self._plan = plan
        self._file = file
        self._rule = ChainRule(offset_bound=plan.next_base)
        self.damages: list[Damage] = []
        self._position = 0  # the next batch
        self._expected: Offset = plan.base_offset
        # If the last batch's offset is not confirmed, because of missing offsets or damage before it: from
        # which position on that is so, and the offset expected there.
        self._jump: tuple[int, Offset] | None = None
        self._is_first = False  # after damage
        self._hole: Damage | None = None  # before the last batch
        self._holes: list[Damage] = []

    def run(self) -> None:
        size = self._plan.size
        while self._position < size:
            try:
                for position, header, data in iter_data(self._file, self._position, size):
                    self._plan.check_stopped()
                    self._position = position
                    self._check(position, header, data)
                    self._position = position + header.size
            except BrokenChain as broken:
                self._step_over(broken)
        self._believe()
        if len(self._holes) <= _HOLES_MAX:
            self.damages = sorted([*self.damages, *self._holes])
        self._note_missing()

    def _check(self, position: int, header: BatchHeader, data: memoryview) -> None:
        if not check_crc(data, 0, header):
            if header.base_offset == self._expected:
                self._believe()  # it follows: the batches before it are right
            raise BrokenChain(position, "wrong checksum")
        expected = self._expected
        self._rule.check_place(position, header, expected)
        if header.base_offset > expected:
            self._believe()
            self._jump = position, expected
            if not self._plan.may_miss(expected):
                self._hole = Damage(position, position, expected, header.base_offset, "missing")
        elif not self._is_first:
            self._believe()
        self._is_first = False
        self._expected = header.next_offset

    def _believe(self) -> None:
        """Note that the last batch's offset is confirmed."""
        if self._hole is not None:
            self._holes.append(self._hole)
        self._jump = self._hole = None

    def _step_over(self, broken: BrokenChain) -> None:
        position, expected = broken.position, self._expected
        if self._jump is not None:
            position, expected = self._jump
        # There is at least one record in the skipped bytes.
        found = find_batch(
            self._file,
            broken.position + 1,
            offset_min=expected + 1,
            offset_bound=self._plan.next_base,
        )
        size = self._plan.size
        end, next_offset = (size, self._plan.next_base) if found is None else found
        if end >= size:
            end, next_offset = size, self._plan.next_base
        self._forget_from(position)
        self.damages.append(Damage(position, end, expected, next_offset, broken.reason))
        self._position, self._expected = end, next_offset
        self._jump, self._is_first, self._hole = (position, expected), True, None

    def _forget_from(self, position: int) -> None:
        """Remove damage that a larger range covers."""
        self.damages = [damage for damage in self.damages if damage.end <= position]

    def _note_missing(self) -> None:
        """Add offsets that are missing at the end: a reader has missed them, or they are known to have been
        there.
        """
        plan = self._plan
        noted = [one.next_offset for one in plan.known if one.end >= plan.size]
        next_offset = min(max(noted, default=0), plan.next_base)
        if plan.is_suspect and not plan.may_miss(self._expected):
            next_offset = plan.next_base
        if self._expected < next_offset:
            self.damages.append(
                Damage(plan.size, plan.size, self._expected, next_offset, "missing")
            )


@dataclass(slots=True, kw_only=True)
class RepairResult:
    """The result for a segment's damage."""

    plan: RepairPlan
    repaired: list[Damage] = field(default_factory=list)
    left: tuple[Damage, ...] = ()  # their positions in the segment that is to be used
    is_rewritten: bool = False


class SegmentRewrite:
    """A segment that is being rewritten, from its beginning to its end.

    For each damaged range in order: ``begin_range``, then ``add`` until all is there and ``end_range``, or
    ``keep_range``. Then ``finish``; ``close`` in any case. Nothing is written before there is a reason to.
    """

    def __init__(self, plan: RepairPlan) -> None:
        self._plan = plan
        self._source = plan.storage.open(plan.path + LOG_SUFFIX, private=True)
        self._target: StorageFile | None = None
        self._copied = 0  # of the source: copied or replaced
        self._damage: Damage | None = None
        self._range_start = -1  # in the target; -1 while nothing was added
        self._moved = 0  # how much longer the target is than the source
        self._expected: Offset = plan.base_offset
        self._surveyed: list[Damage] = []
        self._repaired: list[Damage] = []
        self._left: list[Damage] = []

    @property
    def expected(self) -> Offset:
        """Where the present range continues."""
        return self._expected

    def begin_range(self, damage: Damage) -> None:
        """Begin the next damaged range. The part below the log's start is not needed."""
        assert self._damage is None
        assert damage.first_offset < damage.next_offset
        self._damage = damage
        self._surveyed.append(damage)
        self._range_start = -1
        self._expected = max(damage.first_offset, self._plan.start_offset)

    def add(self, data: Bytes) -> None:
        """Add another replica's batches from ``expected`` on; batches after the range are left out.

        Raises ``CorruptLog`` if they do not fit; then none of them were added.
        """
        damage = self._damage
        assert damage is not None
        expected, end = self._expected, 0
        try:
            for position, header in iter_batches(data):
                if header.base_offset >= damage.next_offset:
                    expected = self._reach(expected, damage.next_offset)
                    break
                self._check(data, position, header, expected)
                expected, end = header.next_offset, position + header.size
        except CorruptBatch as error:
            raise CorruptLog(str(error)) from error
        if end:
            self._append(damage, memoryview(data)[:end])
        self._expected = expected

    def _check(self, data: Bytes, position: int, header: BatchHeader, expected: Offset) -> None:
        damage, plan = self._damage, self._plan
        assert damage is not None
        if (
            expected == plan.start_offset
            and damage.first_offset <= header.base_offset <= expected <= header.last_offset
        ):
            expected = header.base_offset  # the log begins in the middle of a batch
        rule = ChainRule(offset_bound=damage.next_offset, gaps_below=plan.gaps_below)
        if not rule.fits(header.base_offset, header.last_offset, expected):
            raise CorruptLog(
                f"offsets {header.base_offset} to {header.last_offset} do not fit into {expected} to "
                f"{damage.next_offset - 1}"
            )
        if not check_crc(data, position, header):
            raise CorruptLog(f"wrong checksum at offset {header.base_offset}")
        slot = bisect_right(plan.epochs, header.base_offset, key=lambda entry: entry[1])
        if slot and plan.epochs[slot - 1][0] != header.leader_epoch:
            raise CorruptLog(
                f"offset {header.base_offset} was written in epoch {plan.epochs[slot - 1][0]} here, in "
                f"{header.leader_epoch} there"
            )

    def _reach(self, expected: Offset, next_offset: Offset) -> Offset:
        if expected < next_offset and next_offset > self._plan.gaps_below:
            raise CorruptLog(f"offsets {expected} to {next_offset - 1} are missing there, too")
        return next_offset

    def _append(self, damage: Damage, data: memoryview) -> None:
        target = self._open()
        self._copy(damage.position)
        if self._range_start < 0:
            self._range_start = target.size
        if target.size + len(data) + self._plan.size - damage.end > SEGMENT_BYTES_MAX:
            raise StorageFailure(
                f"{self._plan.path}{LOG_SUFFIX}: what is missing is more than one segment can hold; empty "
                "this replica's directory and let it copy the log again"
            )
        target.append(data)

    def end_range(self) -> None:
        """End the range, which is complete."""
        damage = self._damage
        assert damage is not None
        assert self._expected >= damage.next_offset
        target = self._open()
        self._copy(damage.position)
        self._repaired.append(damage)
        self._copied, self._damage = damage.end, None
        self._moved = target.size - damage.end

    def keep_range(self) -> None:
        """Keep the damaged range, because no replica has it."""
        damage = self._damage
        assert damage is not None
        if self._range_start >= 0 and self._target is not None:
            self._target.truncate(self._range_start)
        position, end = damage.position + self._moved, damage.end + self._moved
        self._left.append(damage._replace(position=position, end=end))
        self._damage = None

    def finish(self) -> RepairResult:
        """Copy the rest, build the indexes, and make all of it durable."""
        plan = self._plan
        if not self._repaired:
            return RepairResult(plan=plan, left=tuple(self._left))
        self._copy(plan.size)
        target = self._open()
        if self._left and not self._is_within_bounds(target):
            return RepairResult(plan=plan, left=tuple(self._surveyed))
        segment = Segment(
            plan.storage,
            plan.directory,
            plan.base_offset,
            target,
            cache=IndexCache(),
            index_interval_bytes=plan.index_interval_bytes,
            created_ms=plan.now_ms,
            suffix=CLEANED_SUFFIX,
        )
        segment.begin_rebuild()
        position = 0
        for damage in self._left:
            self._note(segment, target, position, damage.position)
            position = damage.end
        self._note(segment, target, position, target.size)
        segment.save_indexes()
        segment.txn_index.rewrite(plan.aborted)
        target.sync()
        for suffix in SEGMENT_SUFFIXES[1:]:
            plan.storage.sync_file(plan.path + suffix + CLEANED_SUFFIX)
        return RepairResult(
            plan=plan, repaired=self._repaired, left=tuple(self._left), is_rewritten=True
        )

    def _is_within_bounds(self, target: StorageFile) -> bool:
        """Return whether all headers are within bounds; recovery, if it has to finish the swap, reads them,
        including those of kept ranges.
        """
        try:
            return all(
                header.next_offset <= self._plan.next_base for _, header in iter_headers(target)
            )
        except BrokenChain:
            return True  # recovery reads no further, either

    def close(self) -> None:
        """Close the files."""
        self._source.close()
        if self._target is not None:
            self._target.close()

    def _open(self) -> StorageFile:
        if self._target is None:
            path = self._plan.path + LOG_SUFFIX + CLEANED_SUFFIX
            self._target = self._plan.storage.open(path, create=True, private=True)
            self._target.truncate(0)
        return self._target

    def _note(self, segment: Segment, target: StorageFile, start: int, end: int) -> None:
        for position, header in iter_headers(target, start, end):
            segment.note(position, header.size, header.last_offset, header.max_timestamp)

    def _copy(self, end: int) -> None:
        target = self._open()
        while self._copied < end:
            self._plan.check_stopped()
            data = self._source.read(self._copied, min(_COPY_BYTES, end - self._copied))
            if not data:
                raise StorageFailure(f"{self._plan.path}{LOG_SUFFIX} has become shorter")
            target.append(data)
            self._copied += len(data)
