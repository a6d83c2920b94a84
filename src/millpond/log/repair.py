"""Repair: sound batches, which another replica has, take the place of damaged bytes.

Three steps, as with compaction, so that appends and reads never wait:

1. ``PartitionLog.plan_repair`` (on the log's thread) closes the segment if it is still written to, and copies
   the few facts that matter.
2. ``RepairPlan.survey`` and ``SegmentRewrite`` (on any thread, one at a time) check every batch of the
   segment, and write it anew as ``.cleaned`` files, with what somebody else brings for the damaged ranges. A
   range that nobody has stays as it is.
3. ``PartitionLog.install_repair`` (on the log's thread) swaps the files as compaction does; ``recovery``
   finishes or undoes a swap that a crash interrupted.

What is brought is believed only if its checksums are right, if it was written in the epochs in which this log
was, and if its offsets fit exactly: no batch may reach out of the range, and none may be missing where
compaction has never been.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from millpond.base.errors import CorruptBatch, CorruptLog, ShuttingDown
from millpond.base.ids import LeaderEpoch, Offset, TimestampMs, TopicPartition
from millpond.log.files import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, segment_name
from millpond.log.index import IndexCache
from millpond.log.scan import BrokenChain, find_batch, iter_data, iter_headers
from millpond.log.segment import Damage, Segment
from millpond.log.storage import Bytes, Storage, StorageFile
from millpond.log.txn_index import AbortedTransaction
from millpond.record.batch import BatchHeader, check_crc, iter_batches

_COPY_BYTES = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class RepairPlan:
    """Everything that writing one closed segment anew needs."""

    storage: Storage
    directory: str
    topic_partition: TopicPartition
    base_offset: Offset
    next_base: Offset  # of the next segment
    size: int
    known: tuple[Damage, ...]
    start_offset: Offset  # the log's: what lies below was given up
    gaps_below: Offset  # offsets below may be missing without any loss
    epochs: list[tuple[LeaderEpoch, Offset]]  # and where each began
    aborted: list[AbortedTransaction]
    index_interval_bytes: int
    now_ms: TimestampMs
    generation: int
    stopped: bool = False  # set from another thread to end a run early

    @property
    def path(self) -> str:
        """The segment's files, without their suffixes."""
        return f"{self.directory}/{segment_name(self.base_offset)}"

    def survey(self) -> list[Damage]:
        """Check every batch; all that is damaged, in order, whether it was known or not."""
        found: list[Damage] = []
        file = self.storage.open(self.path + LOG_SUFFIX, private=True)
        try:
            self.size = min(self.size, file.size)  # somebody may have cut it
            position, expected = 0, self.base_offset
            while position < self.size:
                try:
                    for at, header, data in iter_data(file, position, self.size):
                        position = at
                        self._check(at, header, data, expected)
                        expected = header.next_offset
                    break
                except BrokenChain as broken:
                    damage = self._step_over(file, broken, expected)
                    found.append(damage)
                    position, expected = damage.end, damage.next_offset
            self._note_missing(found, expected)
        finally:
            file.close()
        return found

    def discard(self) -> None:
        """Remove what was written."""
        for suffix in SEGMENT_SUFFIXES:
            self.storage.delete(self.path + suffix + CLEANED_SUFFIX)

    def follows(self, header: BatchHeader, expected: Offset, bound: Offset) -> bool:
        """Whether a batch may stand where ``expected`` is the next offset and ``bound`` is out of reach."""
        if header.last_offset >= bound:
            return False
        return header.base_offset == expected or (
            expected < header.base_offset and self.may_miss(expected)
        )

    def may_miss(self, offset: Offset) -> bool:
        """Whether compaction may have taken the record."""
        return offset < self.gaps_below

    def _check(
        self, position: int, header: BatchHeader, data: memoryview, expected: Offset
    ) -> None:
        if self.stopped:
            raise ShuttingDown(f"{self.path}{LOG_SUFFIX}: the node stops; the repair is given up")
        if not check_crc(data, 0, header):
            raise BrokenChain(position, "wrong checksum")
        # Offsets are not under the checksum: what stands before must say that they are right.
        if not self.follows(header, expected, self.next_base):
            raise BrokenChain(
                position,
                f"offsets {header.base_offset} to {header.last_offset} where {expected} must follow",
            )

    def _step_over(self, file: StorageFile, broken: BrokenChain, expected: Offset) -> Damage:
        found = find_batch(
            file, broken.position + 1, offset_min=expected, offset_bound=self.next_base
        )
        end, next_offset = found if found is not None else (self.size, self.next_base)
        return Damage(broken.position, min(end, self.size), expected, next_offset, broken.reason)

    def _note_missing(self, found: list[Damage], expected: Offset) -> None:
        """Offsets that should be at the end. Where some may be missing, only what was noted says so."""
        if expected < self.next_base and not self.may_miss(expected):
            found.append(Damage(self.size, self.size, expected, self.next_base, "missing"))
            return
        found += [
            damage
            for damage in self.known
            if damage.position == damage.end == self.size and damage.first_offset >= expected
        ]


@dataclass(slots=True, kw_only=True)
class RepairResult:
    """What became of a segment's damage."""

    plan: RepairPlan
    repaired: list[Damage] = field(default_factory=list)
    left: tuple[Damage, ...] = ()  # where they are in the segment that is to be used
    is_rewritten: bool = False


class SegmentRewrite:
    """A segment that is being written anew, from its beginning to its end.

    For each damaged range in order: ``begin_range``, then ``add`` until all is there and ``end_range``, or
    ``keep_range``. Then ``finish``; ``close`` in any case.
    """

    def __init__(self, plan: RepairPlan) -> None:
        self._plan = plan
        self._source = plan.storage.open(plan.path + LOG_SUFFIX, private=True)
        self._target = plan.storage.open(
            plan.path + LOG_SUFFIX + CLEANED_SUFFIX, create=True, private=True
        )
        self._target.truncate(0)
        self._copied = 0  # of the source: copied, replaced or kept
        self._damage: Damage | None = None
        self._range_start = 0  # in the target
        self._expected: Offset = plan.base_offset
        self._repaired: list[Damage] = []
        self._left: list[Damage] = []

    @property
    def expected(self) -> Offset:
        """Where the range in hand goes on."""
        return self._expected

    def begin_range(self, damage: Damage) -> None:
        """Copy what is sound before a damaged range."""
        assert self._damage is None
        self._copy(damage.position)
        self._damage = damage
        self._range_start = self._target.size
        self._expected = damage.first_offset

    def add(self, data: Bytes) -> None:
        """What another replica has from ``expected`` on; what lies behind the range is left out.

        Raises ``CorruptLog`` if it does not fit; then nothing was taken of it.
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
            self._target.append(memoryview(data)[:end])
        self._expected = expected

    def _check(self, data: Bytes, position: int, header: BatchHeader, expected: Offset) -> None:
        assert self._damage is not None
        if not self._plan.follows(header, expected, self._damage.next_offset):
            raise CorruptLog(
                f"offsets {header.base_offset} to {header.last_offset} do not fit into {expected} to "
                f"{self._damage.next_offset - 1}"
            )
        if not check_crc(data, position, header):
            raise CorruptLog(f"wrong checksum at offset {header.base_offset}")
        epochs = self._plan.epochs
        slot = bisect_right(epochs, header.base_offset, key=lambda entry: entry[1])
        if slot and epochs[slot - 1][0] != header.leader_epoch:
            raise CorruptLog(
                f"offset {header.base_offset} was written in epoch {epochs[slot - 1][0]} here, in "
                f"{header.leader_epoch} there"
            )

    def _reach(self, expected: Offset, next_offset: Offset) -> Offset:
        if expected < next_offset and not self._plan.may_miss(expected):
            raise CorruptLog(f"offsets {expected} to {next_offset - 1} are missing there, too")
        return next_offset

    def end_range(self) -> None:
        """All of the range is there."""
        damage = self._damage
        assert damage is not None
        assert self._expected >= damage.next_offset
        self._repaired.append(damage)
        self._copied, self._damage = damage.end, None

    def keep_range(self) -> None:
        """Nobody has the range: it stays as damaged as it is."""
        damage = self._damage
        assert damage is not None
        self._target.truncate(self._range_start)
        self._copy(damage.end)
        self._left.append(damage._replace(position=self._range_start, end=self._target.size))
        self._damage = None

    def finish(self) -> RepairResult:
        """Copy the rest, make the indexes, and make all of it durable."""
        plan = self._plan
        if not self._repaired:
            return RepairResult(plan=plan, left=tuple(self._left))
        self._copy(plan.size)
        segment = Segment(
            plan.storage,
            plan.directory,
            plan.base_offset,
            self._target,
            cache=IndexCache(),
            index_interval_bytes=plan.index_interval_bytes,
            created_ms=plan.now_ms,
            suffix=CLEANED_SUFFIX,
        )
        segment.begin_rebuild()
        position = 0
        for damage in self._left:
            self._note(segment, position, damage.position)
            position = damage.end
        self._note(segment, position, self._target.size)
        segment.save_indexes()
        segment.txn_index.rewrite(plan.aborted)
        self._target.sync()
        for suffix in SEGMENT_SUFFIXES[1:]:
            plan.storage.sync_file(plan.path + suffix + CLEANED_SUFFIX)
        return RepairResult(
            plan=plan, repaired=self._repaired, left=tuple(self._left), is_rewritten=True
        )

    def close(self) -> None:
        """Give the files back."""
        self._source.close()
        self._target.close()

    def _note(self, segment: Segment, start: int, end: int) -> None:
        for position, header in iter_headers(self._target, start, end):
            segment.note(position, header.size, header.last_offset, header.max_timestamp)

    def _copy(self, end: int) -> None:
        while self._copied < end:
            if self._plan.stopped:
                raise ShuttingDown(f"{self._plan.path}: the node stops; the repair is given up")
            data = self._source.read(self._copied, min(_COPY_BYTES, end - self._copied))
            if not data:
                raise CorruptLog(f"{self._plan.path}{LOG_SUFFIX} has become shorter")
            self._target.append(data)
            self._copied += len(data)
