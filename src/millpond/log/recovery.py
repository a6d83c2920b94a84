"""Opens a partition's directory, whatever state it was left in, and reports what was done.

What is trusted:

* After a clean shutdown: everything, after one check of the end of the last segment.
* After a crash: everything below the recovery point, because it was synced. From there on every batch is
  checked (size, format, checksum, offsets); the first that fails ends the log, for it and all after it may
  never have been acknowledged. Indexes, transactions and producers are rebuilt from the checked batches.
* Bytes below the recovery point that fail the check were acknowledged and synced, so this is damage, not a
  torn tail: they are kept, recorded (``Damage``), and refused to readers. Later offsets are not assigned
  again.
* Index, snapshot and checkpoint files: never, if they cannot be right. They are rebuilt.

No file that is missing, cut at any byte or filled with anything stops the log from opening.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from millpond.base.errors import StorageFailure
from millpond.base.ids import Offset, TimestampMs, TopicPartition
from millpond.log import checkpoint
from millpond.log.chain import BrokenChain
from millpond.log.checkpoint import CorruptCheckpoint
from millpond.log.config import LONG_MAX, LogConfig
from millpond.log.damage import DAMAGE_FILE, read_damage, write_damage
from millpond.log.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    Listing,
    segment_name,
)
from millpond.log.index import IndexCache
from millpond.log.leader_epochs import LeaderEpochs
from millpond.log.producer_state import ProducerState
from millpond.log.replay import rebuild_producers
from millpond.log.scan import iter_headers
from millpond.log.segment import Damage, Segment
from millpond.log.segment_check import SegmentCheck
from millpond.log.snapshots import Snapshots
from millpond.log.storage import Storage


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did, for the operator."""

    topic_partition: TopicPartition
    clean: bool = True  # nothing had to be checked or changed
    bytes_checked: int = 0
    bytes_truncated: int = 0
    damage: list[Damage] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)

    def add(self, action: str) -> None:
        """Add an action that an operator may want to know."""
        self.clean = False
        self.actions.append(action)

    def __str__(self) -> str:
        return f"partition={self.topic_partition}: " + ("; ".join(self.actions) or "clean")


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """The parts of an opened log."""

    segments: list[Segment]
    start_offset: Offset
    end_offset: Offset
    recovery_point: Offset
    cleaner_offset: Offset
    epochs: LeaderEpochs
    producers: ProducerState
    snapshots: Snapshots
    derived_from: (
        Offset  # producers and aborted transactions were derived from the batches from here on
    )
    topic_id: UUID | None
    report: RecoveryReport


class LogLoader:
    """Opens one partition's directory, once."""

    def __init__(
        self,
        storage: Storage,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        cache: IndexCache,
        now_ms: TimestampMs,
        topic_id: UUID | None,
    ) -> None:
        self._storage = storage
        self._directory = directory
        self._config = config
        self._cache = cache
        self._now_ms = now_ms
        self._topic_id = topic_id
        self._report = RecoveryReport(topic_partition)
        self._segments: list[Segment] = []
        self._snapshots = Snapshots(storage, directory, set())
        self._producers: ProducerState | None = None
        self._derived_from: Offset = LONG_MAX
        self._gaps_below: Offset = 0

    def load(
        self, *, clean: bool, recovery_point: Offset, start_offset: Offset, cleaner_offset: Offset
    ) -> LoadedLog:
        """Open the log, in the order of dependencies."""
        self._gaps_below = self._config.gaps_below(cleaner_offset)
        files = self._finish_compaction(self._list())
        self._open_segments(files)
        topic_id = self._load_topic_id(files)
        epochs = self._load_epochs(files)
        if self._segments:
            start_offset = self._begin_at(start_offset)
            read_damage(self._storage, self._directory, files.others, self._segments)
            if clean:
                clean = self._check_end(recovery_point)
            if not clean:
                self._recover(recovery_point, start_offset, epochs)
        else:
            start_offset = max(recovery_point, start_offset)
        end_offset = self._end_at(start_offset, recovery_point)
        if clean:
            recovery_point = end_offset
        producers = self._load_producers(start_offset, end_offset)
        # Keep those that a later recovery can use: at the beginning of segments, and at the end.
        bases = {segment.base_offset for segment in self._segments}
        self._snapshots.keep_only(bases | {end_offset})
        epochs.truncate_start(start_offset)
        epochs.truncate_end(end_offset)
        self._report.damage = [damage for segment in self._segments for damage in segment.damage]
        if self._report.damage or DAMAGE_FILE in files.others:
            self._save(lambda: write_damage(self._storage, self._directory, self._segments))
        return LoadedLog(
            segments=self._segments,
            start_offset=start_offset,
            end_offset=end_offset,
            recovery_point=min(recovery_point, end_offset),
            cleaner_offset=min(cleaner_offset, end_offset),
            epochs=epochs,
            producers=producers,
            snapshots=self._snapshots,
            derived_from=self._derived_from,
            topic_id=topic_id,
            report=self._report,
        )

    # --- files --------------------------------------------------------------------------------

    def _list(self) -> Listing:
        """Return the directory's files, after removing the remains of an interrupted deletion or write."""
        if not self._storage.exists(self._directory):
            self._storage.make_dir(self._directory)
        # A directory that exists and cannot be listed is not an empty one: that must not begin a new log.
        names = self._storage.list(self._directory)
        leftovers = [name for name in names if name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX))]
        for name in leftovers:
            self._delete(name)
        return Listing(names if not leftovers else set(names) - set(leftovers))

    def _finish_compaction(self, files: Listing) -> Listing:
        """Finish a decided swap of compacted segments, undo one that was not decided.

        Compaction writes ``.cleaned`` files, renames all of them to ``.swap``, deletes the old segments and
        renames the new ones into place. While one ``.cleaned`` file is there, the old segments are whole;
        once none is, the ``.swap`` files are.
        """
        cleaned, swaps = files.names_ending(CLEANED_SUFFIX), files.names_ending(SWAP_SUFFIX)
        if not cleaned and not swaps:
            return files
        for name in cleaned:
            self._delete(name)
        if cleaned:
            self._report.add("removed an unfinished compaction")
        # Names sort like their offsets.
        undone = [name for name in swaps if cleaned and name[:20] >= cleaned[0][:20]]
        for name in undone:
            self._delete(name)
        swaps = [name for name in swaps if name not in undone]
        for base in files.offsets(LOG_SUFFIX + SWAP_SUFFIX):
            if segment_name(base) + LOG_SUFFIX + SWAP_SUFFIX in swaps:
                next_offset = self._swap_delete_replaced(base, files)
                self._gaps_below = max(self._gaps_below, next_offset)
        for name in swaps:
            final = name.removesuffix(SWAP_SUFFIX)
            self._storage.rename(f"{self._directory}/{name}", f"{self._directory}/{final}")
        if swaps:
            self._report.add("finished the swap of compacted segments")
        return Listing(self._storage.list(self._directory))

    def _swap_delete_replaced(self, base: Offset, files: Listing) -> Offset:
        """Delete the old segments whose offsets the compacted one covers. Return where it ends."""
        next_offset = base + 1
        name = segment_name(base) + LOG_SUFFIX + SWAP_SUFFIX
        file = self._storage.open(f"{self._directory}/{name}")
        try:
            for _, header in iter_headers(file):
                next_offset = max(next_offset, header.next_offset)
        except BrokenChain as broken:
            self._report.add(f"the compacted segment {name} is damaged {broken}")
        finally:
            file.close()
        for suffix in SEGMENT_SUFFIXES:
            for old in files.offsets(suffix):
                if base <= old < next_offset:
                    self._delete(segment_name(old) + suffix)
        return next_offset

    def _open_segments(self, files: Listing) -> None:
        bases = files.offsets(LOG_SUFFIX)
        for suffix in SEGMENT_SUFFIXES[1:]:
            offsets = files.offsets(suffix)
            if offsets == bases:
                continue
            for offset in sorted(set(offsets) - set(bases)):
                self._delete(segment_name(offset) + suffix)
                self._report.add(f"removed {segment_name(offset)}{suffix}, whose segment is gone")
        self._snapshots.offsets = set(files.offsets(SNAPSHOT_SUFFIX))
        self._segments = [
            Segment.open(
                self._storage,
                self._directory,
                base,
                cache=self._cache,
                index_interval_bytes=self._config.index_interval_bytes,
                now_ms=self._now_ms,
            )
            for base in bases
        ]

    def _create_segment(self, base_offset: Offset) -> None:
        self._segments.append(
            Segment.create(
                self._storage,
                self._directory,
                base_offset,
                cache=self._cache,
                index_interval_bytes=self._config.index_interval_bytes,
                now_ms=self._now_ms,
            )
        )

    def _remove_segment(self, segment: Segment) -> None:
        segment.close()
        for suffix in SEGMENT_SUFFIXES:
            self._delete(segment_name(segment.base_offset) + suffix)

    def _delete(self, name: str) -> None:
        self._storage.delete(f"{self._directory}/{name}")

    # --- identity, epochs, known damage -------------------------------------------------------

    def _load_topic_id(self, files: Listing) -> UUID | None:
        path = f"{self._directory}/{checkpoint.PARTITION_METADATA_FILE}"
        stored = None
        if checkpoint.PARTITION_METADATA_FILE in files.others:
            try:
                stored = checkpoint.read_topic_id(self._storage, path)
            except CorruptCheckpoint as corrupt:
                self._report.add(f"ignored {corrupt}")
        if stored is None and self._topic_id is not None:
            write = partial(checkpoint.write_topic_id, self._storage, path, self._topic_id)
            if self._segments:
                self._save(write)
            else:
                write()  # A log that cannot be created properly is not created.
            return self._topic_id
        return stored

    def _load_epochs(self, files: Listing) -> LeaderEpochs:
        """Read the epochs' checkpoint; if it is missing or malformed, take them from the batches."""
        path = f"{self._directory}/{checkpoint.LEADER_EPOCHS_FILE}"
        try:
            entries = checkpoint.read_epochs(self._storage, path)
            if checkpoint.LEADER_EPOCHS_FILE in files.others:
                return LeaderEpochs(self._storage, self._directory, entries)
            reason = f"{path} is missing"
        except CorruptCheckpoint as corrupt:
            reason = str(corrupt)
        epochs = LeaderEpochs(self._storage, self._directory, [])
        for segment in self._segments:
            try:
                for _, header in iter_headers(segment.log):
                    epochs.assign(header.leader_epoch, header.base_offset, save=False)
            except BrokenChain:
                continue  # The check of the segment reports it in more detail.
        if any(segment.size for segment in self._segments):
            self._save(epochs.save)
            self._report.add(f"rebuilt the leader epochs from the batches ({reason})")
        return epochs

    # --- where the log begins and ends --------------------------------------------------------

    def _begin_at(self, start_offset: Offset) -> Offset:
        first = self._segments[0].base_offset
        if first > start_offset > 0:
            self._report.add(
                f"offsets {start_offset} to {first - 1} are gone: their segments are missing"
            )
        return max(first, start_offset)

    def _check_end(self, recovery_point: Offset) -> bool:
        """Return whether the end of a cleanly closed log is unchanged."""
        last = self._segments[-1]
        try:
            next_offset = last.read_next_offset()
        except BrokenChain as broken:
            self._report.add(
                f"{last.log_path} does not end with a whole batch ({broken}), though closed cleanly"
            )
            return False
        if next_offset != recovery_point:
            self._report.add(f"the log ends at {next_offset}, but was closed at {recovery_point}")
            return False
        last.next_offset = next_offset
        return True

    def _end_at(self, start_offset: Offset, recovery_point: Offset) -> Offset:
        """Make sure that the last segment can be appended to, and that offsets continue correctly."""
        if not self._segments:
            if start_offset:
                self._report.add(f"no segment is left; the log restarts at offset {start_offset}")
            self._create_segment(start_offset)
            return start_offset
        last = self._segments[-1]
        if last.next_offset < start_offset >= recovery_point:
            self._begin_anew(start_offset)
            return start_offset
        end_offset = max(last.next_offset, start_offset, recovery_point)
        missing = max(last.next_offset, start_offset)
        if missing < recovery_point:
            hole = Damage(last.size, last.size, missing, recovery_point, "missing")
            self._note_damage(last, hole)
        # Damage stays where it is, in a segment that is never written to again.
        if last.damage or last.next_offset < end_offset:
            last.close_for_writing()
            self._create_segment(end_offset)
        return end_offset

    def _begin_anew(self, start_offset: Offset) -> None:
        """Start an empty log: the log ends below its start, so none of it is needed, and new batches must not
        follow a gap. If this is interrupted, the recorded start says that nothing is missing.
        """
        gone = list(self._segments)
        self._create_segment(start_offset)
        for segment in gone:
            self._remove_segment(segment)
        del self._segments[: len(gone)]
        self._report.add(
            f"nothing is left from the log's start on; it restarts at offset {start_offset}"
        )

    def _note_damage(self, segment: Segment, damage: Damage) -> None:
        segment.damage = (*segment.damage, damage)
        self._report.add(
            f"DAMAGE in {segment.log_path}: offsets {damage.first_offset} to {damage.next_offset - 1} "
            f"were stored and are not readable (bytes {damage.position} to {damage.end}: {damage.reason}); "
            "the rest is served"
        )

    # --- checking batches ---------------------------------------------------------------------

    def _recover(self, recovery_point: Offset, start_offset: Offset, epochs: LeaderEpochs) -> None:
        """Check everything from the recovery point on, and rebuild what is derived from it."""
        bases = [segment.base_offset for segment in self._segments]
        first = max(0, bisect_right(bases, recovery_point) - 1)
        # Snapshots above may be torn, or contain missing batches; they are taken again below.
        self._snapshots.delete_above(bases[first])
        self._derived_from = min(bases[first], self._snapshots.latest(bases[first]))
        producers = rebuild_producers(
            self._segments[:first], self._snapshots, end_offset=bases[first]
        )
        slot = first
        known = list(epochs.entries)
        while slot < len(self._segments):
            segment = self._segments[slot]
            if slot > 0:
                self._save(partial(self._snapshots.take, producers, segment.base_offset))
            check = SegmentCheck(
                segment,
                epochs,
                producers,
                recovery_point=recovery_point,
                offset_bound=bases[slot + 1] if slot + 1 < len(bases) else None,
                gaps_below=self._gaps_below,
            )
            check.run()
            self._report.bytes_checked += segment.size
            for damage in check.damage:
                self._note_damage(segment, damage)
            torn = check.torn
            if slot + 1 < len(bases):
                if bases[slot + 1] <= start_offset:
                    # Everything below the log's start was given up: it may end anywhere.
                    torn = None
                elif torn is None:
                    torn = self._check_next(segment, bases[slot + 1], recovery_point)
            if torn is not None:
                self._cut(slot, torn)
                break
            # The last segment's indexes stay in memory, as those of every active segment.
            if slot + 1 < len(self._segments):
                segment.close_for_writing()
            slot += 1
        self._report.add(
            f"checked {self._report.bytes_checked} bytes from offset {bases[first]} on"
        )
        if epochs.entries != known:
            self._save(epochs.save)
        self._producers = producers

    def _save(self, save: Callable[[], object]) -> None:
        """Write something that can be rebuilt. A full disk must not stop the log from opening."""
        try:
            save()
        except StorageFailure as failure:
            self._report.add(
                f"could not write what was rebuilt ({failure}); it will be rebuilt again"
            )

    def _check_next(
        self, segment: Segment, next_base: Offset, recovery_point: Offset
    ) -> BrokenChain | None:
        """Check that the next segment begins where this one ends; record the missing range, or end the log
        here.
        """
        missing = segment.next_offset
        if next_base == missing or missing < self._gaps_below:
            return None
        if missing >= recovery_point:
            return BrokenChain(segment.size, f"the next segment begins at {next_base} only")
        self._note_damage(
            segment, Damage(segment.size, segment.size, missing, next_base, "missing")
        )
        return None

    def _cut(self, slot: int, torn: BrokenChain) -> None:
        """End the log before the batch that failed the check."""
        segment = self._segments[slot]
        lost = segment.size - torn.position
        segment.log.truncate(torn.position)
        self._report.bytes_truncated += lost
        self._report.add(
            f"ended the log at offset {segment.next_offset}: {lost} bytes from byte {torn.position} of "
            f"{segment.log_path} on are cut off ({torn.reason})"
        )
        for later in self._segments[slot + 1 :]:
            self._report.bytes_truncated += later.size
            self._report.add(
                f"removed {later.log_path} ({later.size} bytes), which lies after that"
            )
            self._remove_segment(later)
        del self._segments[slot + 1 :]
        # The recovery point will soon be recorded as here: truncated bytes must not reappear then.
        self._save(segment.log.sync)
        self._save(lambda: self._storage.sync_dir(self._directory))

    # --- producers ----------------------------------------------------------------------------

    def _load_producers(self, start_offset: Offset, end_offset: Offset) -> ProducerState:
        producers = self._producers
        if producers is None:
            before = set(self._snapshots.offsets)
            if end_offset not in before:
                self._derived_from = self._snapshots.latest(end_offset)
            producers = rebuild_producers(self._segments, self._snapshots, end_offset=end_offset)
            for lost in sorted(before - self._snapshots.offsets):
                self._report.add(
                    f"removed the producer snapshot at offset {lost}, which is unreadable"
                )
            if end_offset > start_offset and end_offset not in self._snapshots.offsets:
                self._report.add("rebuilt the producers from the batches")
        producers.advance(end_offset)
        producers.expire(self._now_ms, self._config.producer_id_expiration_ms)
        return producers
