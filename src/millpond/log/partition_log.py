"""One partition's log: ordered segments, the last of which is written to.

Rules:

* Plain calls on one thread, the one that owns the log. Only ``FlushPlan``, ``CompactionPlan`` and
  ``RepairPlan`` may run on another; they touch nothing of the log's own state.
* A successful append is in the page cache: it survives the death of the process. Everything below
  ``recovery_point`` was synced: it survives the death of the machine.
* An append that fails leaves the log as it was, and one sync that fails leaves the disk's contents unknown.
  After either nothing more is accepted (``failure``) until the log has been restored (``restore.py``): a disk
  that takes the next batch would otherwise put it behind a gap.
* Assigned offsets are never assigned again.

It does not know replication (bounds are arguments), clocks (time is an argument) or protocols.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar
from uuid import UUID

from millpond.base.errors import (
    BatchExceedsSegment,
    CorruptLog,
    MillpondError,
    OffsetOutOfRange,
    StorageFailure,
)
from millpond.base.ids import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs, TopicPartition
from millpond.log.checkpoint import (
    CLEANER_OFFSETS_FILE,
    RECOVERY_POINTS_FILE,
    START_OFFSETS_FILE,
)
from millpond.log.cleanable import find_cleanable
from millpond.log.compaction import (
    CleanedGroup,
    CompactionPlan,
    CompactionResult,
    decide_swap,
    finish_swap,
)
from millpond.log.config import LONG_MAX, LogConfig
from millpond.log.files import (
    INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    segment_name,
)
from millpond.log.flush import FlushOutcome, FlushPlan, Unflushed
from millpond.log.incoming import (
    ProducerBatch,
    bring_under_codec,
    check_copied,
    read_headers,
    topic_codec,
    topic_rules,
)
from millpond.log.index import CorruptIndex, IndexCache
from millpond.log.leader_epochs import LeaderEpochs
from millpond.log.producer_state import Producer, ProducerState
from millpond.log.recovery import LoadedLog, LogLoader
from millpond.log.refusals import Refusals
from millpond.log.repair import RepairPlan, RepairResult
from millpond.log.replay import DerivedOverDamage, derive, rebuild_aborted, rebuild_producers
from millpond.log.restore import FailedIn, Piece, RestoreImpossible, RestorePlan
from millpond.log.retention import expired_segments
from millpond.log.rolling import RollRule
from millpond.log.segment import Damage, NewBatch, Segment, TimedOffset
from millpond.log.segment_list import NOTHING, ReadSlice, SegmentList
from millpond.log.snapshots import Snapshots
from millpond.log.storage import Storage
from millpond.log.trash import Trash
from millpond.log.txn_index import AbortedTransaction
from millpond.record.batch import (
    LOG_OVERHEAD,
    BatchHeader,
    ByteBuffer,
    WritableBuffer,
    assign_offset,
    set_append_time,
)
from millpond.record.control import EndTxnMarker
from millpond.record.records import decode_batch

RefusalT = TypeVar("RefusalT", bound=MillpondError)


class AppendInfo(NamedTuple):
    """The result of an append."""

    first_offset: Offset
    last_offset: Offset
    append_time_ms: TimestampMs  # -1 unless the topic uses append time
    start_offset: Offset
    duplicate: bool  # the batch was appended before; this is the first result again
    bytes: int


class PartitionLog:
    """A partition's log. Create one with ``open``."""

    def __init__(
        self,
        storage: Storage,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        topic_id: UUID | None,
        cache: IndexCache,
        save_offsets: Callable[[str], None],
        on_damage: Callable[[TopicPartition], None],
        on_failure: Callable[[str], None],
        on_unreadable: Callable[[str], None],
    ) -> None:
        self.storage = storage
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.cache = cache
        self.recovery = loaded.report
        self._list = SegmentList(
            storage, directory, topic_partition, loaded.segments, on_damage=on_damage
        )
        self.active: Segment = loaded.segments[-1]
        self.start_offset: Offset = loaded.start_offset
        self.end_offset: Offset = loaded.end_offset
        self.recovery_point: Offset = loaded.recovery_point
        self.cleaner_offset: Offset = loaded.cleaner_offset  # the log is compacted below
        self.epochs: LeaderEpochs = loaded.epochs
        self.producers: ProducerState = loaded.producers
        # Why the log accepts no writes, and which operation the disk refused.
        self.failure: str | None = None
        self._failed_in: FailedIn | None = None
        self._on_failure = on_failure
        self._on_unreadable = on_unreadable
        self._refusals = Refusals()
        self._snapshots: Snapshots = loaded.snapshots
        self._trash = Trash(storage, directory)
        self._save_offsets = save_offsets
        self._generation = 0
        self._unflushed = Unflushed(
            storage,
            directory,
            loaded.epochs,
            [one for one in loaded.segments[:-1] if one.next_offset > self.recovery_point],
        )
        self._rewriting = False  # compaction or repair of closed segments is running
        self.uncleanable: str | None = None  # why compaction has been given up
        # Producers and aborted transactions were derived from the batches from here on.
        self._derived_from: Offset = loaded.derived_from
        # Some batches were damaged then: derive them again, from here on, when all can be read.
        self._derive_again_from: Offset = LONG_MAX
        self.reconfigure(config)

    @classmethod
    def open(
        cls,
        storage: Storage,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        now_ms: TimestampMs,
        clean: bool,
        recovery_point: Offset = 0,
        start_offset: Offset = 0,
        cleaner_offset: Offset = 0,
        topic_id: UUID | None = None,
        cache: IndexCache | None = None,
        save_offsets: Callable[[str], None] = lambda checkpoint_file: None,
        on_damage: Callable[[TopicPartition], None] = lambda topic_partition: None,
        on_failure: Callable[[str], None] = lambda reason: None,
        on_unreadable: Callable[[str], None] = lambda reason: None,
    ) -> "PartitionLog":
        """Open the log in the directory, or create it. Never fails for anything that a crash can leave
        behind.

        ``clean`` says that the last owner closed the log; ``recovery_point``, ``start_offset`` and
        ``cleaner_offset`` are the checkpointed ones. ``save_offsets`` is called with the name of the
        checkpoint that must be written now, ``on_damage`` when bytes turn out to be damaged, ``on_failure``
        when the disk has refused a write or a sync, ``on_unreadable`` when it has refused a read.
        """
        cache = cache or IndexCache()
        loader = LogLoader(
            storage,
            directory,
            topic_partition,
            config,
            cache=cache,
            now_ms=now_ms,
            topic_id=topic_id,
        )
        loaded = loader.load(
            clean=clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
            cleaner_offset=cleaner_offset,
        )
        return cls(
            storage,
            directory,
            topic_partition,
            config,
            loaded,
            topic_id=loaded.topic_id,
            cache=cache,
            save_offsets=save_offsets,
            on_damage=on_damage,
            on_failure=on_failure,
            on_unreadable=on_unreadable,
        )

    def reconfigure(self, config: LogConfig) -> None:
        """Use other settings from the next call on."""
        self.config = config
        self._append_time = config.uses_append_time
        self._codec = topic_codec(config)
        self.rules = topic_rules(config)
        self._set_roll_rule()

    @property
    def size_bytes(self) -> int:
        """The bytes of batches in all segments."""
        return sum(segment.log.size for segment in self._list.items)

    @property
    def segments(self) -> list[Segment]:
        """All segments, oldest first; the last one is ``active``. Read-only for callers."""
        return self._list.items

    @property
    def damage(self) -> list[Damage]:
        """The ranges that are known to be unreadable."""
        return self._list.damage

    # --- appending ----------------------------------------------------------------------------

    def append_as_leader(
        self,
        data: WritableBuffer,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: TimestampMs,
        headers: Sequence[BatchHeader] | None = None,
    ) -> AppendInfo:
        """Assign offsets to whole, checked batches (``record.validate``) and write them with one call.

        The buffer is patched in place; it may be reused afterwards. Raises ``OutOfOrderSequence``,
        ``ProducerFenced``, ``BatchTooLarge`` or ``StorageFailure``; then nothing was written.
        """
        if headers is None:
            headers = read_headers(data, self.topic_partition)
        if self.failure is not None:
            # Before the sequence numbers are checked: they do not follow after a refused batch.
            raise self.refuse(headers, StorageFailure(self.failure))
        if self._codec is not None:
            data, headers = bring_under_codec(
                data,
                headers,
                self._codec,
                level=self.config.compression_level,
                topic_partition=self.topic_partition,
            )
        first_offset = offset = self.end_offset
        batches: list[NewBatch] = []
        producing: list[ProducerBatch] = []
        previous: BatchHeader | None = None
        position = 0
        timestamp = NO_TIMESTAMP
        for header in headers:
            if header.producer_id >= 0:
                if header.is_marker:
                    self._check_marker(header, data, position)
                else:
                    if self._refusals and self.producers.remembered(header) is None:
                        self._refusals.check(header, self.producers.expected(header))
                    duplicate = self.producers.check(header, previous)
                    if duplicate is not None:
                        return AppendInfo(
                            duplicate.first_offset,
                            duplicate.last_offset,
                            duplicate.timestamp if self._append_time else NO_TIMESTAMP,
                            self.start_offset,
                            True,
                            0,
                        )
                    previous = header
                producing.append(ProducerBatch(header, offset, position))
            assign_offset(data, position, offset, leader_epoch)
            if self._append_time:
                header = set_append_time(data, position, header, now_ms)  # noqa: PLW2901
            timestamp = max(timestamp, header.max_timestamp)
            size = header.length + LOG_OVERHEAD
            last_offset = offset + header.last_offset_delta
            batches.append(NewBatch(position, size, last_offset, header.max_timestamp))
            position += size
            offset = last_offset + 1
        try:
            if leader_epoch > self.epochs.latest:
                self.epochs.assign(leader_epoch, first_offset)
            self._append(data, batches, timestamp=timestamp, now_ms=now_ms)
        except StorageFailure as failure:
            self._fail_in_write(failure)
            self.refuse(headers, failure)
            raise
        self.end_offset = offset
        if producing:
            self._apply_producers(producing, data)
        return AppendInfo(
            first_offset,
            offset - 1,
            now_ms if self._append_time else NO_TIMESTAMP,
            self.start_offset,
            False,
            position,
        )

    def append_as_follower(
        self, data: bytes | bytearray | memoryview, *, now_ms: TimestampMs
    ) -> AppendInfo:
        """Append the leader's batches, with its offsets and epochs. An incomplete last batch is left out."""
        copied = check_copied(
            data,
            after=self.end_offset,
            epoch=self.epochs.latest,
            topic_partition=self.topic_partition,
        )
        if copied.batches:
            if copied.gap_end >= 0:
                # The leader's log is compacted, at least up to there, and so is this one.
                self.cleaner_offset = max(self.cleaner_offset, copied.gap_end)
            try:
                for epoch, offset in copied.epochs:
                    self.epochs.assign(epoch, offset)
                whole = memoryview(data)[: copied.size]
                self._append(whole, copied.batches, timestamp=copied.timestamp, now_ms=now_ms)
            except StorageFailure as failure:
                self._fail_in_write(failure)
                raise
            self.end_offset = copied.next_offset
            self._refusals.clear()
            if copied.producing:
                self._apply_producers(copied.producing, data)
        return AppendInfo(
            copied.first_offset,
            copied.next_offset - 1,
            NO_TIMESTAMP,
            self.start_offset,
            False,
            copied.size,
        )

    def _append(
        self,
        data: WritableBuffer,
        batches: list[NewBatch],
        *,
        timestamp: TimestampMs,
        now_ms: TimestampMs,
    ) -> None:
        if self.failure is not None:
            raise StorageFailure(self.failure)
        size = len(data)
        segment = self.active
        config = self.config
        if size > config.segment_bytes - segment.log.size or self._roll_rule.is_due_for(
            segment, batches[-1].last_offset, timestamp, now_ms
        ):
            if size > config.segment_bytes:
                raise BatchExceedsSegment(
                    f"batch of {size} bytes; it does not fit into a segment "
                    f"of {config.segment_bytes} bytes (segment.bytes)"
                )
            self.roll(now_ms)
            segment = self.active
        segment.append(data, batches)

    def refuse(self, headers: Sequence[BatchHeader], error: RefusalT) -> RefusalT:
        """Note that batches are refused for a temporary reason: later batches are refused too, until these
        were sent again.

        Returns the error.
        """
        self._refusals.note(headers, error)
        return error

    def _check_marker(self, header: BatchHeader, data: ByteBuffer, position: int) -> None:
        self.producers.check_marker(header, _read_marker(data, position))

    def _apply_producers(self, producing: Sequence[ProducerBatch], data: ByteBuffer) -> None:
        """Update the producers' state. The batches are in the file already: nothing here may fail."""
        for header, offset, position in producing:
            if not header.is_marker:
                self.producers.apply(header, offset)
                if self._refusals:
                    self._refusals.on_appended(header)
                continue
            marker = _read_marker(data, position)
            aborted = self.producers.apply_marker(header, offset, marker)
            if aborted is not None:
                # The first one creates a file.
                if not self.active.txn_index.used:
                    self._unflushed.new_names = True
                self.active.txn_index.append(aborted)

    # --- rolling ------------------------------------------------------------------------------

    def roll(self, now_ms: TimestampMs) -> None:
        """Close the active segment and begin the next at the end of the log."""
        if self.failure is not None:
            raise StorageFailure(self.failure)
        old = self.active
        if old.size == 0 and old.base_offset == self.end_offset:
            return
        self._take_snapshot()
        self._unflushed.new_names = True
        segment = Segment.create(
            self.storage,
            self.directory,
            self.end_offset,
            cache=self.cache,
            index_interval_bytes=self.config.index_interval_bytes,
            now_ms=now_ms,
        )
        self._list.push(segment)
        self.active = segment
        self._unflushed.add_segment(old)
        self._set_roll_rule()
        old.close_for_writing()

    def roll_if_due(self, now_ms: TimestampMs) -> bool:
        """Roll a non-empty segment that is older than ``segment.ms``, without an append."""
        is_due = self.failure is None and self._roll_rule.is_due(self.active, now_ms)
        if is_due:
            self.roll(now_ms)
        return is_due

    def _set_roll_rule(self) -> None:
        """Update the roll rule after a change of the active segment or of the settings."""
        self._roll_rule = RollRule(self.config, self.topic_partition, self.active.base_offset)

    def _take_snapshot(self) -> None:
        """Write a producer snapshot at the end of the log."""
        self.producers.advance(self.end_offset)
        path = self._snapshots.take(self.producers, self.end_offset)
        if path is not None:
            self._unflushed.add_file(path)

    # --- reading ------------------------------------------------------------------------------

    def read(
        self, offset: Offset, max_bytes: int, *, upto: Offset, at_least_one: bool = True
    ) -> ReadSlice:
        """Read batches from the one that holds ``offset``, up to ``max_bytes`` and below ``upto``.

        One batch is read whole, however long, if ``at_least_one`` is set. Raises ``OffsetOutOfRange``, or
        ``CorruptLog`` where stored bytes cannot be served.
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition}: offset {offset} is not in {self.start_offset} to {self.end_offset}",
                start_offset=self.start_offset,
                end_offset=self.end_offset,
            )
        if offset >= upto:
            return NOTHING
        try:
            return self._list.read(
                offset,
                max_bytes,
                upto=upto,
                at_least_one=at_least_one,
                end_offset=self.end_offset,
                synced_below=self.recovery_point,
                gaps_below=self._gaps_below,
            )
        except StorageFailure as failure:
            if type(failure) is StorageFailure:  # wrong bytes say nothing about the disk
                self._on_unreadable(f"{self.topic_partition}: {failure}")
            raise

    @property
    def _gaps_below(self) -> Offset:
        """The offset below which records may be missing."""
        return self.config.gaps_below(self.cleaner_offset)

    def offset_for_time(self, timestamp_ms: TimestampMs) -> TimedOffset | None:
        """Return the first record that is not earlier than the time given."""
        return self._list.offset_for_time(timestamp_ms, self.start_offset)

    def max_timestamp(self) -> TimedOffset | None:
        """Return the record with the largest time; the first one if several have it."""
        return self._list.max_timestamp(self.start_offset)

    # --- epochs, producers, transactions ------------------------------------------------------

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The last leader epoch that wrote here; -1 for none."""
        return self.epochs.latest

    def assign_epoch(self, epoch: LeaderEpoch, offset: Offset) -> None:
        """Note that the epoch starts at this offset."""
        self.epochs.assign(epoch, offset)

    def epoch_end_offset(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Return where an epoch ended, as OffsetForLeaderEpoch does; (-1, -1) if unknown."""
        return self.epochs.end_offset(epoch, self.end_offset)

    def active_producers(self) -> list[Producer]:
        """Return all remembered producers."""
        return list(self.producers)

    @property
    def last_stable_offset(self) -> Offset:
        """Below it every transaction is decided. The high watermark bounds it too; see ``stable_below``."""
        first_open = self.producers.first_open_offset()
        return self.end_offset if first_open < 0 else first_open

    def stable_below(self, high_watermark: Offset) -> Offset:
        """Return the last stable offset for readers, given the high watermark."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable < 0 else min(unstable, high_watermark)

    def aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """Return aborted transactions that overlap with offsets from ``start`` up to but without ``end``."""
        found: list[AbortedTransaction] = []
        for slot in range(self._list.slot_of(start), len(self.segments)):
            for entry in self._aborted_in(slot):
                if entry.last_offset >= start and entry.first_offset < end:
                    found.append(entry)
                if entry.last_stable_offset >= end:
                    return found
        return found

    def _aborted_in(self, slot: int) -> list[AbortedTransaction]:
        index = self.segments[slot].txn_index
        try:
            return index.entries()
        except CorruptIndex:
            segment = self.segments[slot]
            if segment.damage:
                self._derived_from = min(self._derived_from, segment.base_offset)
            index.rewrite(rebuild_aborted(self.segments[: slot + 1], self._snapshots))
            return index.entries()

    # --- deleting -----------------------------------------------------------------------------

    def delete_records(self, before: Offset) -> Offset:
        """Delete everything below an offset (DeleteRecords). Return the new start of the log."""
        if before > self.end_offset or before < 0:
            raise OffsetOutOfRange(
                f"{self.topic_partition}: cannot begin at {before}, the log ends at {self.end_offset}",
                start_offset=self.start_offset,
                end_offset=self.end_offset,
            )
        if before > self.start_offset:
            self._move_start(before)
            self._save_offsets(START_OFFSETS_FILE)
        return self.start_offset

    def apply_retention(self, now_ms: TimestampMs, *, upto: Offset | None = None) -> int:
        """Delete segments by age, size or the log's start. Return how many.

        Nothing at or above ``upto`` (the high watermark) is deleted. Also forgets idle producers and removes
        the files of segments that were deleted ``file.delete.delay.ms`` ago.
        """
        self.purge(now_ms)
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        if self._rewriting or self.failure is not None:
            return 0
        count = expired_segments(
            self.segments,
            self.config,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            upto=self.end_offset if upto is None else upto,
            now_ms=now_ms,
        )
        if count == 0:
            return 0
        if count == len(self.segments):
            self.roll(now_ms)
        self._delete_first(count, now_ms)
        return count

    def purge(self, now_ms: TimestampMs) -> None:
        """Remove the files of deleted segments that are due."""
        self._trash.empty(now_ms)

    def _delete_first(self, count: int, now_ms: TimestampMs) -> None:
        if self._list.bases[count] > self.start_offset:
            self._move_start(self._list.bases[count])
        for segment in self._list.splice(0, count, []):
            self._throw(segment, now_ms)
        self._snapshots.keep_only({*self._list.bases, self.end_offset})

    def _throw(self, segment: Segment, now_ms: TimestampMs) -> None:
        """Move a segment's files out of the log; they are removed later."""
        self._unflushed.forget(segment)
        self._trash.throw(segment, now_ms + self.config.file_delete_delay_ms)

    def _move_start(self, offset: Offset) -> None:
        self.start_offset = offset
        self.epochs.truncate_start(offset)

    # --- compacting ---------------------------------------------------------------------------

    def plan_compaction(
        self, now_ms: TimestampMs, *, upto: Offset | None = None
    ) -> CompactionPlan | None:
        """Return a pass over the closed segments, if one is due. Only one may be running.

        Pass the result of ``run`` to ``install_compaction``; if it raised, the plan to
        ``abandon_compaction``. Nothing at or above ``upto`` (the high watermark) is touched.
        """
        if not self.config.compacts or self._rewriting or self.failure or self.uncleanable:
            return None
        first_dirty = self.cleaner_offset
        if not self.start_offset <= first_dirty <= self.end_offset:
            first_dirty = self.start_offset
        stable = self.stable_below(self.end_offset if upto is None else upto)
        closed = self._list.closed()
        cleanable = find_cleanable(
            closed, self.config, first_dirty=first_dirty, stable=stable, now_ms=now_ms
        )
        if cleanable is None:
            return None
        plan = CompactionPlan(
            storage=self.storage,
            directory=self.directory,
            topic_partition=self.topic_partition,
            config=self.config,
            now_ms=now_ms,
            sources=cleanable.sources,
            first_dirty=first_dirty,
            bound=cleanable.bound,
            last_offsets=self.producers.last_offsets(),
            aborted=[entry for slot in range(len(closed)) for entry in self._aborted_in(slot)],
            generation=self._generation,
        )
        self._rewriting = True
        return plan

    def install_compaction(self, result: CompactionResult) -> None:
        """Replace the old segments with the compacted ones."""
        self._rewriting = False
        if result.plan.generation != self._generation:
            result.plan.discard()
            return
        try:
            for group in result.groups:
                self._swap(group, result.plan.now_ms)
        except StorageFailure as failure:
            self._fail_in_swap(failure)
            raise
        self.cleaner_offset = result.end_offset
        self._save_offsets(CLEANER_OFFSETS_FILE)

    def abandon_compaction(self, plan: CompactionPlan, *, reason: str | None = None) -> None:
        """Give up a failed pass. With a reason (its input is damaged) no further one is planned."""
        self._rewriting = False
        self.uncleanable = reason
        plan.discard()
        if reason is not None:
            for source in plan.sources:
                if source.base_offset in self._list.bases:
                    self.suspect(source.base_offset)

    def _fail_in_swap(self, failure: StorageFailure) -> None:
        self._fail(
            FailedIn.SWAP,
            f"{failure}, in the middle of a swap of rewritten segments; "
            "nothing is written until the node is restarted, which finishes it",
        )

    def _swap(self, group: CleanedGroup, now_ms: TimestampMs) -> None:
        first = self._list.bases.index(group.base_offset)
        old = self.segments[first : first + len(group.sources)]
        assert tuple(segment.base_offset for segment in old) == group.sources
        suffixes = decide_swap(self.storage, self.directory, group.base_offset)
        for segment in reversed(old):
            self._throw(segment, now_ms)
        finish_swap(self.storage, self.directory, group.base_offset, suffixes)
        segment = Segment.open(
            self.storage,
            self.directory,
            group.base_offset,
            cache=self.cache,
            index_interval_bytes=self.config.index_interval_bytes,
            now_ms=now_ms,
        )
        self._list.splice(first, len(old), [segment])
        self._unflushed.new_names = True
        self._snapshots.keep_only({*self._list.bases, self.end_offset})

    # --- repairing ----------------------------------------------------------------------------

    def damaged_segments(self) -> list[Offset]:
        """Return the base offsets of segments with damaged records that were not given up."""
        return [
            segment.base_offset
            for segment in self.segments
            if segment.is_suspect
            or any(damage.next_offset > self.start_offset for damage in segment.damage)
        ]

    def suspect(self, base_offset: Offset) -> None:
        """Mark a segment as suspect; a repair finds out what is wrong."""
        self._list.suspect(self.segments[self._list.bases.index(base_offset)])

    def plan_repair(self, base_offset: Offset, now_ms: TimestampMs) -> RepairPlan | None:
        """Return a plan to rewrite a damaged segment with the batches of another replica; None if that must
        wait.

        Pass the result to ``install_repair``; if it failed, the plan to ``abandon_repair``.
        """
        if self._rewriting or self.failure or base_offset not in self._list.bases:
            return None
        slot = self._list.bases.index(base_offset)
        segment = self.segments[slot]
        if segment is self.active:
            self.roll(now_ms)
            if segment is self.active:
                return None  # it is empty
        try:
            aborted = self._aborted_in(slot)
        except CorruptLog:  # The index is rebuilt when the batches can be read.
            aborted = []
            self._derived_from = min(self._derived_from, base_offset)
        plan = RepairPlan(
            storage=self.storage,
            directory=self.directory,
            topic_partition=self.topic_partition,
            base_offset=base_offset,
            next_base=self._list.bases[slot + 1],
            size=segment.size,
            known=segment.damage,
            is_suspect=segment.is_suspect,
            start_offset=self.start_offset,
            gaps_below=self._gaps_below,
            epochs=list(self.epochs.entries),
            aborted=aborted,
            index_interval_bytes=self.config.index_interval_bytes,
            now_ms=now_ms,
            generation=self._generation,
        )
        self._rewriting = True
        return plan

    def install_repair(self, result: RepairResult) -> bool:
        """Replace the damaged segment with the repaired one. Return whether that was possible."""
        self._rewriting = False
        plan = result.plan
        bases = self._list.bases
        if plan.generation != self._generation or plan.base_offset not in bases:
            plan.discard()
            return False
        slot = bases.index(plan.base_offset)
        if result.is_rewritten:
            try:
                self._swap(CleanedGroup(plan.base_offset, (plan.base_offset,)), plan.now_ms)
            except StorageFailure as failure:
                self._fail_in_swap(failure)
                raise
        else:
            plan.discard()
        segment = self.segments[slot]
        segment.damage, segment.is_suspect = result.left, False
        self._list.save_damage()
        if (result.is_rewritten or plan.known) and plan.next_base > self._derived_from:
            self._derive_again_from = min(self._derive_again_from, plan.base_offset)
        if self._derive_again_from < LONG_MAX:
            self._derive_again()
        if not self.damage:
            self.uncleanable = None
        return True

    def _derive_again(self) -> None:
        """Derive producers and aborted transactions again, once all batches can be read."""
        start = self._derive_again_from
        try:
            producers, aborted = derive(self.segments, self._snapshots, start)
        except DerivedOverDamage as failed:
            self.suspect(failed.base_offset)
            return
        self._derive_again_from = LONG_MAX
        self._snapshots.delete_above(start)
        for segment in self.segments:
            if segment.base_offset in aborted:
                segment.txn_index.rewrite(aborted[segment.base_offset], durable=True)
        producers.advance(self.end_offset)
        self.producers = producers

    def abandon_repair(self, plan: RepairPlan) -> None:
        """Give up a failed repair; the log is unchanged."""
        self._rewriting = False
        plan.discard()

    # --- flushing -----------------------------------------------------------------------------

    @property
    def needs_flush(self) -> bool:
        """Whether something was written since the last flush."""
        return self.recovery_point < self.end_offset or self._unflushed.has_files

    def flush_also(self, path: str) -> None:
        """Include a rewritten file beside the log in the next flush."""
        self._unflushed.add_file(path)
        self._unflushed.new_names = True

    def begin_flush(self) -> FlushPlan | None:
        """Return what must be synced to make everything written so far durable; None if all is."""
        if self.failure is not None:
            raise StorageFailure(self.failure)
        if not self.needs_flush:
            return None
        return self._unflushed.plan(
            self.active, end_offset=self.end_offset, generation=self._generation
        )

    def finish_flush(self, plan: FlushPlan) -> None:
        """Take a plan back. If a sync failed, the log accepts nothing more: the disk may have lost pages."""
        plan.close()
        if plan.outcome is FlushOutcome.FAILED:
            self._unflushed.take_back(plan, self.segments[:-1])
            self._fail(
                FailedIn.SYNC,
                "a sync failed, so what the disk holds is unknown; nothing is written until it has taken "
                "all of it again",
            )
        elif plan.generation != self._generation:
            self._unflushed.mark_names()
        elif plan.outcome is FlushOutcome.DONE:
            self.recovery_point = max(self.recovery_point, plan.end_offset)
        else:
            self._unflushed.take_back(plan, self.segments[:-1])

    def flush(self) -> None:
        """Make everything durable, now, on this thread."""
        plan = self.begin_flush()
        if plan is None:
            return
        try:
            plan.run()
        finally:
            self.finish_flush(plan)

    # --- failure and restoration --------------------------------------------------------------

    def _fail_in_write(self, failure: StorageFailure) -> None:
        if self.failure is None and not isinstance(failure, CorruptLog):
            consequence = "; nothing is written until the disk takes writes again"
            self._fail(FailedIn.WRITE, str(failure), consequence)

    def _fail(self, failed_in: FailedIn, reason: str, consequence: str = "") -> None:
        """The disk has refused something: write nothing more until the log is restored.

        Clients are told the reason and its consequence for this log, the directory the reason alone.
        """
        name = f"{self.topic_partition}: "
        reason = name + reason.removeprefix(name)
        order = list(FailedIn)
        if self._failed_in is None or order.index(failed_in) > order.index(self._failed_in):
            self._failed_in = failed_in
            self.failure = reason + consequence
        self._on_failure(reason)

    def begin_restore(self) -> RestorePlan | None:
        """Return what must be done before the log accepts writes again; None if it does.

        Raises ``RestoreImpossible`` if only a restart of the node can restore it, ``StorageFailure`` if the
        disk cannot even be read.
        """
        if self.failure is None:
            return None
        if self._failed_in is None or self._failed_in is FailedIn.SWAP:
            raise RestoreImpossible(self.failure)
        if self._rewriting:
            raise StorageFailure(f"{self.topic_partition}: its segments are being rewritten")
        unsynced = [one for one in self.segments if one.next_offset > self.recovery_point]
        if self.active not in unsynced:
            unsynced.append(self.active)
        return RestorePlan(
            self.storage,
            pieces=[self._piece(segment) for segment in unsynced],
            paths=self._unflushed.paths,
            generation=self._generation,
        )

    def _piece(self, segment: Segment) -> Piece:
        damaged = sorted(
            (one.position, one.end)
            for one in segment.damage
            if one.next_offset <= self.recovery_point
        )
        return Piece(
            segment.log_path, segment.size, self._unsynced_from(segment), damaged=tuple(damaged)
        )

    def _unsynced_from(self, segment: Segment) -> int:
        if segment.base_offset >= self.recovery_point or segment.damage:
            return 0
        found = segment.find(self.recovery_point)
        return segment.size if found is None else found.position

    def finish_restore(self, plan: RestorePlan) -> None:
        """Accept writes again after the plan was executed; the next flush covers everything."""
        assert plan.generation == self._generation
        self.failure = None
        self._failed_in = None
        self._unflushed.mark_names()

    # --- truncating, closing ------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> None:
        """Remove everything from an offset on (a follower that diverged from its leader)."""
        if offset >= self.end_offset:
            return
        if self.failure is not None:
            raise StorageFailure(self.failure)
        if offset <= self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        last = self._list.slot_of(offset - 1)
        # Whole batches are removed: the log ends where the batch with the offset began, or below if those
        # before it were compacted away.
        segment = self.segments[last]
        self._lower_recovery_point(
            segment.base_offset if self._gaps_below else segment.batch_start(offset)
        )
        for later in reversed(self.segments[last + 1 :]):
            self._remove(later)
        self._list.splice(last + 1, len(self.segments), [])
        self.active = self.segments[-1]
        self.cache.forget(self.active.offset_index)
        self.active.truncate(offset)
        self._unflushed.forget(self.active)
        self._end_at(self.active.next_offset)
        self.active.forget_damage(self.end_offset)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Remove everything and begin again at an offset."""
        if self.failure is not None:
            raise StorageFailure(self.failure)
        self._lower_recovery_point(min(offset, self.recovery_point))
        for segment in reversed(self.segments):
            self._remove(segment)
        self.active = Segment.create(
            self.storage,
            self.directory,
            offset,
            cache=self.cache,
            index_interval_bytes=self.config.index_interval_bytes,
            now_ms=self.active.created_ms,
        )
        self._list.splice(0, len(self.segments), [self.active])
        self.start_offset = offset
        self._end_at(offset)
        self.recovery_point = offset
        self._save_offsets(START_OFFSETS_FILE)

    def _end_at(self, offset: Offset) -> None:
        """Truncate the state of producers and epochs to the new end."""
        self._unflushed.new_names = True
        self._set_roll_rule()
        self.end_offset = offset
        if offset < self.cleaner_offset:
            self.cleaner_offset = offset
            self._save_offsets(CLEANER_OFFSETS_FILE)
        self.epochs.truncate_end(offset)
        if offset < self.start_offset:
            self.start_offset = offset
            self._save_offsets(START_OFFSETS_FILE)
        self._snapshots.delete_above(offset)
        self._derived_from = min(self._derived_from, self._snapshots.latest(offset))
        self.producers = rebuild_producers(self.segments, self._snapshots, end_offset=offset)

    def _lower_recovery_point(self, offset: Offset) -> None:
        """Record the lower point before data is removed, or a crash between would look like a loss."""
        self._generation += 1
        if offset < self.recovery_point:
            self.recovery_point = offset
            self._save_offsets(RECOVERY_POINTS_FILE)

    def _remove(self, segment: Segment) -> None:
        segment.close()
        self._unflushed.forget(segment)
        name = f"{self.directory}/{segment_name(segment.base_offset)}"
        for suffix in SEGMENT_SUFFIXES:
            self.storage.delete(name + suffix)

    def close(self) -> None:
        """Write everything, make it durable, close files. The log cannot be used afterwards."""
        if self.failure is None:
            self.write_down()
            self.flush()
        self.abandon()

    def write_down(self) -> None:
        """Write producers and indexes, which are only in memory, so that the next start need not derive
        them.
        """
        self._take_snapshot()
        if self.active.save_indexes():
            name = f"{self.directory}/{segment_name(self.active.base_offset)}"
            self._unflushed.add_file(name + INDEX_SUFFIX)
            self._unflushed.add_file(name + TIME_INDEX_SUFFIX)

    def on_synced(self) -> None:
        """Note that the caller made the whole storage durable after ``write_down``."""
        self._unflushed.clear()
        self.recovery_point = self.end_offset

    def abandon(self) -> None:
        """Close files without writing anything: the partition is deleted, or the disk has failed."""
        for segment in self.segments:
            segment.close()


def _read_marker(data: ByteBuffer, position: int) -> EndTxnMarker:
    return EndTxnMarker.parse(decode_batch(data, position)[0])
