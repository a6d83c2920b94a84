"""Restores a log after its disk refused a write or a sync: a plan that runs on any thread.

The process has not ended, so its state of the log is right: which batches are in it and how long each file
is. The files may differ in two ways.

* A write that failed halfway has left bytes behind the last batch, if they could not be truncated at once.
  They are truncated now.
* After a failed sync the operating system marks the pages that it could not write as clean: a second sync
  succeeds without writing them. So everything that no sync has covered is read (checksums are checked: a page
  may have been dropped meanwhile), written once more in its place, and synced. That is done after a failed
  write too: a sync of an earlier try of the plan may have failed.

Nothing is appended to the log until the plan was executed, so nothing else changes these files.
"""

from enum import Enum
from typing import NamedTuple

from millpond.base.errors import CorruptLog, StorageFailure
from millpond.log.chain import BrokenChain
from millpond.log.scan import iter_data
from millpond.log.storage import Storage, StorageFile
from millpond.record.batch import check_crc


class FailedIn(Enum):
    """The operation that the disk refused."""

    WRITE = "write"
    SYNC = "sync"
    # While segments were being replaced: only a restart of the node finishes that.
    SWAP = "swap"


class Piece(NamedTuple):
    """A file of batches: its length, from where on no sync has covered it, and which of its bytes are known
    to be damaged although a sync has covered them (from, to; in order).
    """

    path: str
    size: int
    unsynced_from: int
    damaged: tuple[tuple[int, int], ...]


class RestorePlan:
    """Made by ``begin_restore``, run on any thread, passed to ``finish_restore`` if it succeeded."""

    __slots__ = ("_paths", "_pieces", "_storage", "generation")

    def __init__(
        self,
        storage: Storage,
        *,
        pieces: list[Piece],
        paths: list[str],
        generation: int,
    ) -> None:
        self._storage = storage
        self._pieces = pieces
        self._paths = paths
        self.generation = generation

    def run(self) -> None:
        """Make the files match the log's state. Raises ``StorageFailure``: then it is retried;
        ``CorruptLog``: something that was written is gone.
        """
        for piece in self._pieces:
            self._cut(piece)
            self._storage.rewrite(piece.path, piece.unsynced_from)
        for path in self._paths:
            self._storage.rewrite(path, 0)

    def _cut(self, piece: Piece) -> None:
        file = self._storage.open(piece.path, private=True)
        try:
            if file.size < piece.size:
                raise CorruptLog(
                    f"{piece.path} has {file.size} bytes, and {piece.size} were written"
                )
            if file.size > piece.size:
                file.truncate(piece.size)
            _check(file, piece)
        finally:
            file.close()


def _check(file: StorageFile, piece: Piece) -> None:
    """Raise ``CorruptLog`` unless every batch that no sync has covered can be read."""
    start = piece.unsynced_from
    try:
        for damaged_from, damaged_to in (*piece.damaged, (piece.size, piece.size)):
            for position, header, data in iter_data(file, start, damaged_from):
                if not check_crc(data, 0, header):
                    raise BrokenChain(position, "wrong checksum")
            start = max(start, damaged_to)
    except BrokenChain as broken:
        raise CorruptLog(
            f"{piece.path}: what was written at byte {broken.position} is not there any more "
            f"({broken.reason})"
        ) from broken


class RestoreImpossible(StorageFailure):
    """Only a restart of the node can restore the log."""
