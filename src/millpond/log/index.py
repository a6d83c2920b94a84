"""Sparse indexes: offset → position, and time → offset, in Kafka's file formats.

Rules:

* An index is a hint that can be rebuilt from the segment: entries of the active segment stay in memory and
  are written when the segment is flushed, rolled or closed.
* Entries only grow. The offset of an entry is the last one of the batch at its position.
* A malformed file raises ``CorruptIndex`` when it is loaded; the segment then rebuilds it.

They know files and numbers, nothing of batches.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right

from millpond.base.errors import CorruptLog, StorageFailure
from millpond.base.ids import NO_TIMESTAMP, Offset, TimestampMs
from millpond.base.limits import INDEX_CACHE_BYTES_MAX
from millpond.log.storage import Storage

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
_TIME_ENTRY = struct.Struct(">qi")
_LITTLE_ENDIAN = sys.byteorder == "little"


class CorruptIndex(CorruptLog):
    """An index file that contradicts itself or its segment; it can be rebuilt."""


class OffsetIndex:
    """Returns where to begin looking for an offset. ``offsets`` and ``positions`` are parallel lists."""

    __slots__ = ("_offsets", "_path", "_positions", "_saved", "_storage", "base_offset", "used")

    def __init__(self, storage: Storage, path: str, base_offset: Offset) -> None:
        self._storage = storage
        self._path = path
        self.base_offset = base_offset
        self._offsets: array[int] | None = None
        self._positions: array[int] = array("i")
        self._saved = 0  # entries in the file
        self.used = False  # since the cache last checked

    @property
    def loaded(self) -> bool:
        """Whether the entries are in memory."""
        return self._offsets is not None

    @property
    def memory_bytes(self) -> int:
        """The size of the entries in memory."""
        return 0 if self._offsets is None else len(self._offsets) * OFFSET_ENTRY_BYTES

    def load(self, position_max: int) -> None:
        """Read the file. Raises ``CorruptIndex`` unless entries grow and stay below ``position_max``."""
        data = self._storage.read_all(self._path)
        if data is None:
            raise CorruptIndex(f"{self._path} is missing")
        if len(data) % OFFSET_ENTRY_BYTES:
            raise CorruptIndex(f"{self._path} has {len(data)} bytes, not a multiple of 8")
        entries = array("i", data)
        if _LITTLE_ENDIAN:
            entries.byteswap()
        offsets, positions = entries[0::2], entries[1::2]
        # The last entry is the largest of a valid index; one check finds torn and zero-filled files.
        if offsets and (
            offsets[-1] < 0
            or positions[-1] < 0
            or positions[-1] >= position_max
            or (len(offsets) > 1 and offsets[-1] <= offsets[0])
        ):
            raise CorruptIndex(f"{self._path} ends with an entry that its segment cannot have")
        self._offsets, self._positions, self._saved = offsets, positions, len(offsets)

    def begin(self) -> None:
        """Start empty: the file is new."""
        self._offsets, self._positions, self._saved = array("i"), array("i"), 0

    def unload(self) -> None:
        """Drop the entries, unless they could not be saved yet; they can be loaded again."""
        if self._offsets is None or self._saved != len(self._offsets):
            return
        self._offsets = None
        self._positions = array("i")

    @property
    def entries(self) -> int:
        """The number of entries (of a loaded index)."""
        return 0 if self._offsets is None else len(self._offsets)

    @property
    def last_position(self) -> int:
        """The position of the last entry; 0 for none."""
        return self._positions[-1] if self._positions else 0

    def append(self, offset: Offset, position: int) -> None:
        """Add an entry for the batch that ends with ``offset``."""
        offsets = self._offsets
        assert offsets is not None
        relative = offset - self.base_offset
        if not offsets or relative > offsets[-1]:
            offsets.append(relative)
            self._positions.append(position)

    def bracket(self, offset: Offset) -> tuple[int, int]:
        """Return positions between which the batch with this offset begins; the second may be -1 (unknown).

        The first is of a batch that is before it or is it; the second is of the first indexed batch whose
        last offset is not below it.
        """
        offsets = self._offsets
        assert offsets is not None
        self.used = True
        slot = bisect_left(offsets, offset - self.base_offset)
        low = self._positions[slot - 1] if slot else 0
        return low, self._positions[slot] if slot < len(offsets) else -1

    def truncate(self, offset: Offset) -> None:
        """Remove entries at or above the offset, in memory and on disk."""
        offsets = self._offsets
        assert offsets is not None
        keep = bisect_left(offsets, offset - self.base_offset)
        del offsets[keep:], self._positions[keep:]
        if self._saved > keep:
            self._rewrite()

    def reset(self) -> None:
        """Start again empty, in memory; ``save`` then replaces the file."""
        self._offsets, self._positions, self._saved = array("i"), array("i"), -1

    def save(self) -> bool:
        """Rewrite the file if it is stale. Return whether it was."""
        if self._offsets is None or self._saved == len(self._offsets):
            return False
        if self._saved < 0:
            self._rewrite()
            return True
        file = self._storage.open(self._path, create=True)
        # The file may hold more entries than are in memory: those of a process that crashed.
        if file.size != self._saved * OFFSET_ENTRY_BYTES:
            file.close()
            self._rewrite()
            return True
        file.append(self._encode(self._saved))
        file.close()
        self._saved = len(self._offsets)
        return True

    def _rewrite(self) -> None:
        self._storage.replace(self._path, self._encode(0), durable=False)
        self._saved = self.entries

    def _encode(self, start: int) -> bytes:
        assert self._offsets is not None
        count = len(self._offsets) - start
        entries = array("i", bytes(count * OFFSET_ENTRY_BYTES))
        entries[0::2] = self._offsets[start:]
        entries[1::2] = self._positions[start:]
        if _LITTLE_ENDIAN:
            entries.byteswap()
        return entries.tobytes()


class TimeIndex:
    """The largest timestamp up to an offset. Kept as the file's bytes: it is searched seldom."""

    __slots__ = ("_data", "_path", "_saved", "_storage", "base_offset", "last_timestamp")

    def __init__(self, storage: Storage, path: str, base_offset: Offset) -> None:
        self._storage = storage
        self._path = path
        self.base_offset = base_offset
        self._data: bytearray | None = None
        self._saved = 0  # bytes in the file
        self.last_timestamp: TimestampMs = NO_TIMESTAMP

    @property
    def loaded(self) -> bool:
        """Whether the entries are in memory."""
        return self._data is not None

    def load(self) -> None:
        """Read the file. Raises ``CorruptIndex`` if it is not a time index."""
        data = self._storage.read_all(self._path)
        if data is None:
            raise CorruptIndex(f"{self._path} is missing")
        if len(data) % TIME_ENTRY_BYTES:
            raise CorruptIndex(f"{self._path} has {len(data)} bytes, not a multiple of 12")
        timestamp = NO_TIMESTAMP
        if data:
            timestamp, offset = _TIME_ENTRY.unpack_from(data, len(data) - TIME_ENTRY_BYTES)
            first, _ = _TIME_ENTRY.unpack_from(data, 0)
            if (
                offset < 0
                or timestamp < first
                or (len(data) > TIME_ENTRY_BYTES and timestamp == first)
            ):
                raise CorruptIndex(f"{self._path} ends with an entry that its segment cannot have")
        self._data = bytearray(data)
        self._saved = len(data)
        self.last_timestamp = timestamp

    def begin(self) -> None:
        """Start empty: the file is new."""
        self._data, self._saved = bytearray(), 0

    def copy(self) -> "TimeIndex":
        """Return another view of the same file, for one lookup."""
        return TimeIndex(self._storage, self._path, self.base_offset)

    def unload(self) -> None:
        """Drop the entries, unless they could not be saved yet; they can be loaded again."""
        if self._data is not None and self._saved == len(self._data):
            self._data = None

    @property
    def entries(self) -> int:
        """The number of entries (of a loaded index)."""
        return 0 if self._data is None else len(self._data) // TIME_ENTRY_BYTES

    def last_entry(self) -> tuple[TimestampMs, Offset]:
        """Return the largest timestamp and its offset; (-1, base offset) for none."""
        data = self._data
        assert data is not None
        if not data:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = _TIME_ENTRY.unpack_from(data, len(data) - TIME_ENTRY_BYTES)
        return timestamp, self.base_offset + relative

    def read_last(self) -> tuple[TimestampMs, Offset]:
        """Return the same from the file alone, without loading the rest. Raises ``CorruptIndex``."""
        try:
            file = self._storage.open(self._path)
        except StorageFailure:
            raise CorruptIndex(f"{self._path} is missing") from None
        data = file.read(max(0, file.size - TIME_ENTRY_BYTES), TIME_ENTRY_BYTES)
        file.close()
        if file.size % TIME_ENTRY_BYTES:
            raise CorruptIndex(f"{self._path} has {file.size} bytes, not a multiple of 12")
        if not data:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = _TIME_ENTRY.unpack(data)
        if relative < 0 or (timestamp == 0 and relative == 0 and file.size > TIME_ENTRY_BYTES):
            raise CorruptIndex(f"{self._path} ends with an entry that its segment cannot have")
        return timestamp, self.base_offset + relative

    def append(self, timestamp: TimestampMs, offset: Offset) -> None:
        """Add an entry if the timestamp is larger than all before."""
        assert self._data is not None
        if timestamp > self.last_timestamp:
            self._data += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)
            self.last_timestamp = timestamp

    def floor(self, timestamp: TimestampMs) -> Offset:
        """Return the offset of the last entry not later than the timestamp; the base offset for none."""
        data = self._data
        assert data is not None

        def timestamp_at(slot: int) -> int:
            found: int = _TIME_ENTRY.unpack_from(data, slot * TIME_ENTRY_BYTES)[0]
            return found

        slot = bisect_right(range(self.entries), timestamp, key=timestamp_at) - 1
        if slot < 0:
            return self.base_offset
        relative: int = _TIME_ENTRY.unpack_from(data, slot * TIME_ENTRY_BYTES)[1]
        return self.base_offset + relative

    def truncate(self, offset: Offset) -> None:
        """Remove entries at or above the offset, in memory and on disk."""
        data = self._data
        assert data is not None

        def offset_at(slot: int) -> int:
            relative: int = _TIME_ENTRY.unpack_from(data, slot * TIME_ENTRY_BYTES)[1]
            return self.base_offset + relative

        del data[bisect_left(range(self.entries), offset, key=offset_at) * TIME_ENTRY_BYTES :]
        self.last_timestamp = self.last_entry()[0]
        if self._saved > len(data):
            self._rewrite()

    def reset(self) -> None:
        """Start again empty, in memory; ``save`` then replaces the file."""
        self._data = bytearray()
        self._saved = -1
        self.last_timestamp = NO_TIMESTAMP

    def save(self) -> bool:
        """Rewrite the file if it is stale. Return whether it was."""
        data = self._data
        if data is None or self._saved == len(data):
            return False
        if self._saved < 0:
            self._rewrite()
            return True
        file = self._storage.open(self._path, create=True)
        if file.size != self._saved:
            file.close()
            self._rewrite()
            return True
        file.append(data[self._saved :])
        file.close()
        self._saved = len(data)
        return True

    def _rewrite(self) -> None:
        assert self._data is not None
        self._storage.replace(self._path, bytes(self._data), durable=False)
        self._saved = len(self._data)


class IndexCache:
    """Keeps the loaded offset indexes of closed segments within a number of bytes."""

    __slots__ = ("_bytes", "_bytes_max", "_indexes")

    def __init__(self, bytes_max: int = INDEX_CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        # In order of admission; one that was used since the last check gets a second chance.
        self._indexes: dict[OffsetIndex, int] = {}

    @property
    def memory_bytes(self) -> int:
        """The size of the indexes in the cache."""
        return self._bytes

    def admit(self, index: OffsetIndex) -> None:
        """Add an index that was loaded or whose segment was closed; evicts others if needed."""
        self.forget(index)
        self._indexes[index] = index.memory_bytes
        self._bytes += index.memory_bytes
        while self._bytes > self._bytes_max and len(self._indexes) > 1:
            oldest = next(iter(self._indexes))
            size = self._indexes.pop(oldest)
            if oldest.used or oldest is index:
                oldest.used = False
                self._indexes[oldest] = size
            else:
                self._bytes -= size
                oldest.unload()

    def forget(self, index: OffsetIndex) -> None:
        """Remove an index whose segment is written to again, or deleted."""
        size = self._indexes.pop(index, None)
        if size is not None:
            self._bytes -= size
