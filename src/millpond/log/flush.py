"""Makes a log durable: a plan that is made on the log's thread and run on any.

The plan owns duplicates of the descriptors it syncs and the names of the other files, so nothing that the log
does meanwhile (rolling, deleting, closing) can disturb it, and no lock is needed.
"""

from collections.abc import Sequence
from enum import Enum, auto

from millpond.base.errors import StorageFailure
from millpond.base.ids import Offset
from millpond.log.files import SEGMENT_SUFFIXES, TXN_INDEX_SUFFIX, segment_name
from millpond.log.leader_epochs import LeaderEpochs
from millpond.log.segment import Segment
from millpond.log.storage import Storage


class FlushOutcome(Enum):
    """The outcome of a plan."""

    ABANDONED = auto()  # not run, or not completely, without an error of the disk
    DONE = auto()
    FAILED = auto()


class FlushPlan:
    """Files that must be synced so that everything below ``end_offset`` is durable.

    Made by ``begin_flush``, run on any thread, returned to ``finish_flush`` in any case.
    """

    __slots__ = (
        "_directories",
        "_handles",
        "_storage",
        "end_offset",
        "generation",
        "outcome",
        "paths",
        "segments",
    )

    def __init__(
        self,
        storage: Storage,
        *,
        end_offset: Offset,
        generation: int,
        segments: list[Segment],
        paths: list[str],
        directories: list[str],
    ) -> None:
        self._storage = storage
        self._handles = [segment.log.sync_handle() for segment in segments]
        self._directories = directories
        self.segments = segments
        self.paths = paths
        self.end_offset = end_offset
        self.generation = generation
        self.outcome = FlushOutcome.ABANDONED

    def run(self) -> None:
        """Sync everything. Raises ``StorageFailure``."""
        try:
            for handle in self._handles:
                handle.sync()
            for path in self.paths:
                self._storage.sync_file(path)
            for directory in self._directories:
                self._storage.sync_dir(directory)
        except StorageFailure:
            self.outcome = FlushOutcome.FAILED
            raise
        self.outcome = FlushOutcome.DONE

    def close(self) -> None:
        """Close unused handles."""
        for handle in self._handles:
            handle.close()


class Unflushed:
    """What was written to a log since the last flush, except the batches of the active segment."""

    __slots__ = ("_directory", "_epochs", "_paths", "_segments", "_storage", "new_names")

    def __init__(
        self, storage: Storage, directory: str, epochs: LeaderEpochs, segments: list[Segment]
    ) -> None:
        self._storage = storage
        self._directory = directory
        self._epochs = epochs
        self._segments = segments  # closed ones
        self._paths: list[str] = []  # of files beside the segments
        self.new_names = True  # the directory has entries that were not synced yet

    @property
    def has_files(self) -> bool:
        """Whether files beside the segments wait for a flush."""
        return bool(self._paths)

    @property
    def paths(self) -> list[str]:
        """The files beside the segments that wait for a flush."""
        return list(self._paths)

    def add_segment(self, segment: Segment) -> None:
        """Add a segment that was closed."""
        self._segments.append(segment)

    def add_file(self, path: str) -> None:
        """Add a file beside the segments that was written."""
        self._paths.append(path)

    def forget(self, segment: Segment) -> None:
        """Remove a segment that is no longer in the log, or no longer closed."""
        if segment in self._segments:
            self._segments.remove(segment)

    def plan(self, active: Segment, *, end_offset: Offset, generation: int) -> FlushPlan:
        """Return a plan that syncs all of it and the active segment. The plan owns it from now on."""
        paths = list(self._paths)
        for segment in self._segments:
            segment.save_indexes()
            name = f"{self._directory}/{segment_name(segment.base_offset)}"
            paths += [name + suffix for suffix in SEGMENT_SUFFIXES[1:]]
        if active.txn_index.used:
            active.txn_index.save()
            paths.append(f"{self._directory}/{segment_name(active.base_offset)}{TXN_INDEX_SUFFIX}")
        if self._epochs.dirty:
            paths.append(self._epochs.path)
        directories = []
        if self.new_names:
            # The partition's own name is in its parent directory.
            directories = [self._directory, self._directory.rpartition("/")[0]]
        plan = FlushPlan(
            self._storage,
            end_offset=end_offset,
            generation=generation,
            segments=[*self._segments, active] if active.size else list(self._segments),
            paths=paths,
            directories=directories,
        )
        self.clear()
        return plan

    def clear(self) -> None:
        """Drop everything, because the caller syncs it."""
        self._segments, self._paths = [], []
        self._epochs.dirty = self.new_names = False

    def take_back(self, plan: FlushPlan, closed: Sequence[Segment]) -> None:
        """Add the contents of a plan that was not executed; ``closed`` are its segments that are still in the
        log.
        """
        known = [segment for segment in plan.segments if segment in closed]
        self._segments = known + [one for one in self._segments if one not in known]
        self._paths = plan.paths + self._paths
        self.mark_names()

    def mark_names(self) -> None:
        """Mark the names and the epochs as possibly not synced."""
        self._epochs.dirty = self.new_names = True
