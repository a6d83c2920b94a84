"""The producer snapshots of a partition: their offsets and files.

There is a snapshot at the beginning of each segment but the first, so that recovery need not read the
segments before, and at the end of a closed log. They are hints: unreadable ones are deleted, and missing ones
are rebuilt from the batches.
"""

from millpond.base.ids import Offset
from millpond.log.files import SNAPSHOT_SUFFIX, segment_name
from millpond.log.producer_state import CorruptSnapshot, ProducerState
from millpond.log.storage import Storage


class Snapshots:
    """Snapshot files by the offset up to which they count."""

    def __init__(self, storage: Storage, directory: str, offsets: set[Offset]) -> None:
        self._storage = storage
        self._directory = directory
        self.offsets = offsets

    def path(self, offset: Offset) -> str:
        """Return the path of the snapshot at an offset."""
        return f"{self._directory}/{segment_name(offset)}{SNAPSHOT_SUFFIX}"

    def take(self, producers: ProducerState, offset: Offset) -> str | None:
        """Write a snapshot of the producers at an offset. Return its path, or None if it existed."""
        if offset in self.offsets:
            return None
        path = self.path(offset)
        self._storage.replace(path, producers.encode(), durable=False)
        self.offsets.add(offset)
        return path

    def load_latest(self, producers: ProducerState, upto: Offset) -> list[str]:
        """Load the latest readable snapshot at or below an offset.

        Unreadable ones are deleted; returns what was wrong with them.
        """
        wrong = []
        for offset in sorted((taken for taken in self.offsets if taken <= upto), reverse=True):
            try:
                producers.load(self._storage.read_all(self.path(offset)) or b"", offset)
                break
            except CorruptSnapshot as corrupt:
                wrong.append(f"{self.path(offset)}: {corrupt}")
                self.delete(offset)
        return wrong

    def latest(self, upto: Offset) -> Offset:
        """Return the offset of the latest one at or below an offset; 0 if there is none."""
        return max((taken for taken in self.offsets if taken <= upto), default=0)

    def delete(self, offset: Offset) -> None:
        """Delete one snapshot."""
        self.offsets.discard(offset)
        self._storage.delete(self.path(offset))

    def delete_above(self, offset: Offset) -> None:
        """Delete those that contain batches at or above an offset."""
        for taken in sorted(taken for taken in self.offsets if taken > offset):
            self.delete(taken)

    def keep_only(self, offsets: set[Offset]) -> None:
        """Delete those that no recovery would use."""
        for taken in sorted(self.offsets - offsets):
            self.delete(taken)
