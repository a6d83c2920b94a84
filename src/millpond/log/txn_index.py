"""Aborted transactions of one segment, in Kafka's file format, in the order in which they ended.

Transactions are few and aborts fewer: the file is created with its first entry, and entries are written at
once. A torn or impossible entry raises ``CorruptIndex``; the segment rebuilds the file. It knows nothing of
batches.
"""

import contextlib
import struct
from typing import NamedTuple

from millpond.base.errors import StorageFailure
from millpond.base.ids import Offset, ProducerId
from millpond.log.index import CorruptIndex
from millpond.log.storage import Storage

ENTRY = struct.Struct(">hqqqq")
VERSION = 0
ENTRY_BYTES = ENTRY.size
assert ENTRY_BYTES == 34


class AbortedTransaction(NamedTuple):
    """One entry: the producer, first and last offset, and the last stable offset when it ended."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TxnIndex:
    """The aborted transactions whose markers are in one segment."""

    __slots__ = ("_entries", "_path", "_saved", "_storage")

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._entries: list[AbortedTransaction] | None = None
        self._saved = 0  # entries in the file

    def entries(self) -> list[AbortedTransaction]:
        """Return all entries. Raises ``CorruptIndex`` if the file is malformed."""
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry. It counts at once; a file that cannot be written now is written by a later call."""
        entries = self.entries()
        entries.append(entry)
        with contextlib.suppress(StorageFailure):
            self.save()

    @property
    def used(self) -> bool:
        """Whether anything was written to it since the log was opened."""
        return bool(self._entries)

    def save(self) -> None:
        """Rewrite the file if it is stale."""
        entries = self._entries
        if entries is None or self._saved == len(entries):
            return
        file = self._storage.open(self._path, create=True)
        try:
            if file.size != self._saved * ENTRY_BYTES:
                file.truncate(self._saved * ENTRY_BYTES)
            file.append(b"".join(ENTRY.pack(VERSION, *entry) for entry in entries[self._saved :]))
        finally:
            file.close()
        self._saved = len(entries)

    def truncate(self, offset: Offset) -> None:
        """Remove transactions that ended at or above the offset."""
        kept = [entry for entry in self.entries() if entry.last_offset < offset]
        if len(kept) != len(self.entries()):
            self.rewrite(kept)

    def rewrite(self, entries: list[AbortedTransaction], *, durable: bool = False) -> None:
        """Replace the whole file."""
        if entries:
            data = b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)
            self._storage.replace(self._path, data, durable=durable)
        else:
            self._storage.delete(self._path)
        self._entries = entries
        self._saved = len(entries)

    def _load(self) -> list[AbortedTransaction]:
        data = self._storage.read_all(self._path)
        if data is None:
            return []
        if len(data) % ENTRY_BYTES:
            raise CorruptIndex(f"{self._path} has {len(data)} bytes, not a multiple of 34")
        entries: list[AbortedTransaction] = []
        for version, *fields in ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields)
            last = entries[-1].last_offset if entries else -1
            if version != VERSION or not last < entry.last_offset or entry.first_offset < 0:
                raise CorruptIndex(f"{self._path} has an impossible entry {entry}")
            entries.append(entry)
        self._saved = len(entries)
        return entries
