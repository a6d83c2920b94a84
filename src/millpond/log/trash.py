"""Segments that are out of the log but not yet off the disk.

Their files get a second suffix at once, so that no start takes them for the log's, and go for good when
``file.delete.delay.ms`` has passed, so that large deletions do not come all at once. A start removes them
too.
"""

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
        """Take a segment's files out of the log. The batches go first: an index alone is nothing."""
        segment.close()
        name = f"{self._directory}/{segment_name(segment.base_offset)}"
        paths = []
        for suffix in SEGMENT_SUFFIXES:
            if self._storage.exists(name + suffix):
                self._storage.rename(name + suffix, name + suffix + DELETED_SUFFIX)
                paths.append(name + suffix + DELETED_SUFFIX)
        self._due.append((due_ms, paths))

    def empty(self, now_ms: TimestampMs) -> None:
        """Remove the files whose time has come."""
        due = [paths for due_ms, paths in self._due if due_ms <= now_ms]
        self._due = [entry for entry in self._due if entry[0] > now_ms]
        for paths in due:
            for path in paths:
                self._storage.delete(path)
