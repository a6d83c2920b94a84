"""Deleted segments whose files are still on the disk.

Their files get a second suffix at once, so that no start takes them for the log's, and are removed after
``file.delete.delay.ms``, so that large deletions do not come all at once. A start removes them too.
"""

from millpond.base import limits
from millpond.base.errors import StorageFailure
from millpond.base.ids import TimestampMs
from millpond.log.files import DELETED_SUFFIX, SEGMENT_SUFFIXES, segment_name
from millpond.log.segment import Segment
from millpond.log.storage import Storage


class Trash:
    """The deleted segments of one partition."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self._due: list[tuple[TimestampMs, list[str]]] = []

    def throw(self, segment: Segment, due_ms: TimestampMs) -> None:
        """Move a segment's files out of the log. The batches are renamed first: an index alone is nothing."""
        segment.close()
        name = f"{self._directory}/{segment_name(segment.base_offset)}"
        paths = []
        for suffix in SEGMENT_SUFFIXES:
            if self._storage.exists(name + suffix):
                self._storage.rename(name + suffix, name + suffix + DELETED_SUFFIX)
                paths.append(name + suffix + DELETED_SUFFIX)
        self._due.append((due_ms, paths))

    def empty(self, now_ms: TimestampMs) -> None:
        """Remove the files that are due. Those that cannot be removed are due again a minute later; raises
        ``StorageFailure`` then, after the others.
        """
        failure: StorageFailure | None = None
        left: list[tuple[TimestampMs, list[str]]] = []
        for due_ms, paths in self._due:
            if due_ms > now_ms:
                left.append((due_ms, paths))
                continue
            try:
                for path in paths:
                    self._storage.delete(path)
            except StorageFailure as error:
                failure = failure or error
                left.append((now_ms + limits.DELETE_AGAIN_MS, paths))
        self._due = left
        if failure is not None:
            raise failure
