"""Making a log durable: a plan that is made on the log's thread and run on any.

The plan owns duplicates of the descriptors it syncs and the names of what it syncs besides, so nothing that
the log does meanwhile (rolling, deleting, closing) can disturb it, and no lock is needed.
"""

from enum import Enum, auto

from millpond.base.errors import StorageFailure
from millpond.base.ids import Offset
from millpond.log.segment import Segment
from millpond.log.storage import Storage


class FlushOutcome(Enum):
    """What became of a plan."""

    ABANDONED = auto()  # not run, or not to its end, without an error of the disk
    DONE = auto()
    FAILED = auto()


class FlushPlan:
    """Files that must be synced so that everything below ``end_offset`` is durable.

    Made by ``begin_flush``, run on any thread, given back to ``finish_flush`` in any case.
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
        """Give unused handles back."""
        for handle in self._handles:
            handle.close()
