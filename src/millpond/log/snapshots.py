"""The producer snapshots of a partition: which offsets have one, and the files behind them.

A snapshot stands at the beginning of each segment but the first, so that recovery need not read what lies
before, and at the end of a log that was closed. They are hints: what cannot be read is deleted, and what is
missing is rebuilt from the batches.
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
        """The file of the snapshot at an offset."""
        return f"{self._directory}/{segment_name(offset)}{SNAPSHOT_SUFFIX}"

    def take(self, producers: ProducerState, offset: Offset) -> str | None:
        """Write down the producers as of an offset; answers the file, or nothing if it was there."""
        if offset in self.offsets:
            return None
        path = self.path(offset)
        self._storage.replace(path, producers.encode(), durable=False)
        self.offsets.add(offset)
        return path

    def load_latest(self, producers: ProducerState, upto: Offset) -> list[str]:
        """Load the latest snapshot at or below an offset that can be read.

        Those that cannot be read are deleted; answers what was wrong with them.
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
        """Where the latest one at or below an offset is; 0 if there is none."""
        return max((taken for taken in self.offsets if taken <= upto), default=0)

    def delete(self, offset: Offset) -> None:
        """Remove one."""
        self.offsets.discard(offset)
        self._storage.delete(self.path(offset))

    def delete_above(self, offset: Offset) -> None:
        """Remove those that know of batches at or above an offset."""
        for taken in sorted(taken for taken in self.offsets if taken > offset):
            self.delete(taken)

    def keep_only(self, offsets: set[Offset]) -> None:
        """Remove those that no recovery would use."""
        for taken in sorted(self.offsets - offsets):
            self.delete(taken)
