"""The start offset of each leader epoch, by which a follower finds where its log diverges from the leader's.

Epochs and offsets only grow. Every change is written at once (it is rare) but made durable by the next flush
of the log; entries lost in a crash are found again in the batches, which carry their epoch.
"""

from bisect import bisect_right

from millpond.base.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from millpond.log import checkpoint
from millpond.log.storage import Storage


class LeaderEpochs:
    """Epoch → first offset, in memory and in ``leader-epoch-checkpoint``."""

    __slots__ = ("_path", "_storage", "dirty", "entries", "latest")

    def __init__(
        self, storage: Storage, directory: str, entries: list[tuple[LeaderEpoch, Offset]]
    ) -> None:
        self._storage = storage
        self._path = f"{directory}/{checkpoint.LEADER_EPOCHS_FILE}"
        self.entries = entries
        self.latest: LeaderEpoch = entries[-1][0] if entries else NO_EPOCH
        self.dirty = False  # written, but not yet flushed

    @property
    def path(self) -> str:
        """The checkpoint's path."""
        return self._path

    def assign(self, epoch: LeaderEpoch, offset: Offset, *, save: bool = True) -> None:
        """Note that the epoch starts at this offset. Entries that contradict it were never committed and are
        removed.
        """
        if epoch <= self.latest:
            return
        entries = [entry for entry in self.entries if entry[1] < offset]
        self._set([*entries, (epoch, offset)], save=save)

    def end_offset(self, epoch: LeaderEpoch, log_end: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch up to this one, and where it ended; (-1, -1) if unknown."""
        if epoch == NO_EPOCH or not self.entries:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        slot = bisect_right(self.entries, epoch, key=lambda entry: entry[0])
        if slot == len(self.entries):
            return NO_EPOCH, NO_OFFSET
        ended = self.entries[slot][1]
        return (self.entries[slot - 1][0] if slot else epoch), ended

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch that wrote the offset; -1 if it is unknown."""
        slot = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        return self.entries[slot - 1][0] if slot else NO_EPOCH

    def truncate_end(self, end_offset: Offset) -> None:
        """Remove epochs that began at or after the new end."""
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        if len(kept) != len(self.entries):
            self._set(kept, save=True)

    def truncate_start(self, start_offset: Offset) -> None:
        """Remove epochs that ended before the new start; the one that holds it begins there now."""
        slot = bisect_right(self.entries, start_offset, key=lambda entry: entry[1])
        if slot == 0 or (slot == 1 and self.entries[0][1] == start_offset):
            return
        self._set([(self.entries[slot - 1][0], start_offset), *self.entries[slot:]], save=True)

    def clear(self) -> None:
        """Remove everything."""
        if self.entries:
            self._set([], save=True)

    def save(self) -> None:
        """Write the file."""
        checkpoint.write_epochs(self._storage, self._path, self.entries)
        self.dirty = True

    def _set(self, entries: list[tuple[LeaderEpoch, Offset]], *, save: bool) -> None:
        before = self.entries
        self.entries = entries
        if save:
            try:
                self.save()
            except BaseException:
                self.entries = before
                raise
        self.latest = entries[-1][0] if entries else NO_EPOCH
