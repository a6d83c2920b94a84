"""Kafka's flexible encoding for records in logs, written and read one value at a time.

Compact strings, bytes and arrays carry their length plus one as an unsigned varint, 0 meaning null; a
section of tagged fields ends every structure, and unknown tags are skipped.
"""

import struct
from collections.abc import Sequence
from uuid import UUID

from millpond.base.errors import MalformedData
from millpond.base.varint import decode_unsigned, encode_unsigned

I8 = struct.Struct(">b")
I16 = struct.Struct(">h")
U16 = struct.Struct(">H")
I32 = struct.Struct(">i")
I64 = struct.Struct(">q")
F64 = struct.Struct(">d")


def put_string(out: bytearray, value: str | None) -> None:
    """Append a compact string."""
    if value is None:
        out.append(0)
        return
    data = value.encode()
    out += encode_unsigned(len(data) + 1)
    out += data


def put_bytes(out: bytearray, value: bytes) -> None:
    """Append compact bytes."""
    out += encode_unsigned(len(value) + 1)
    out += value


def put_ints(out: bytearray, values: tuple[int, ...]) -> None:
    """Append a compact array of 32-bit numbers."""
    out += encode_unsigned(len(values) + 1)
    out += struct.pack(f">{len(values)}i", *values)


def put_uuids(out: bytearray, values: tuple[UUID, ...]) -> None:
    """Append a compact array of UUIDs."""
    out += encode_unsigned(len(values) + 1)
    for value in values:
        out += value.bytes


def put_length(out: bytearray, length: int) -> None:
    """Append the length of a compact array."""
    out += encode_unsigned(length + 1)


def put_tags(out: bytearray, tags: Sequence[tuple[int, bytes]] = ()) -> None:
    """Append the tagged fields that end a structure."""
    out += encode_unsigned(len(tags))
    for tag, data in tags:
        out += encode_unsigned(tag)
        out += encode_unsigned(len(data))
        out += data


class Reader:
    """A cursor over the fields of one record."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._position = 0

    def unsigned(self) -> int:
        """Read an unsigned varint."""
        value, self._position = decode_unsigned(self._data, self._position)
        return value

    def take(self, size: int) -> memoryview:
        """Read ``size`` bytes."""
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise MalformedData(f"{size} bytes wanted at {self._position} of {len(self._data)}")
        data = self._data[self._position : end]
        self._position = end
        return data

    def number(self, form: struct.Struct) -> int:
        """Read a number in the format of ``form``."""
        (value,) = form.unpack(self.take(form.size))
        return int(value)

    def flag(self) -> bool:
        """Read a boolean."""
        return self.number(I8) != 0

    def uuid(self) -> UUID:
        """Read a UUID."""
        return UUID(bytes=bytes(self.take(16)))

    def nullable_string(self) -> str | None:
        """Read a compact string that may be null."""
        size = self.unsigned() - 1
        if size < 0:
            return None
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError:
            raise MalformedData(f"text that is not UTF-8 before {self._position}") from None

    def string(self) -> str:
        """Read a compact string."""
        value = self.nullable_string()
        if value is None:
            raise MalformedData("a string that may not be null is null")
        return value

    def data(self) -> bytes:
        """Read compact bytes; null is returned as empty."""
        return bytes(self.take(max(self.unsigned() - 1, 0)))

    def real(self) -> float:
        """Read a 64-bit float."""
        (value,) = F64.unpack(self.take(8))
        return float(value)

    def ints(self) -> tuple[int, ...]:
        """Read a compact array of 32-bit numbers."""
        count = self.unsigned() - 1
        if count <= 0:
            return ()
        return struct.unpack(f">{count}i", self.take(4 * count))

    def uuids(self) -> tuple[UUID, ...]:
        """Read a compact array of UUIDs."""
        count = self.unsigned() - 1
        data = self.take(16 * max(count, 0))
        return tuple(UUID(bytes=bytes(data[at : at + 16])) for at in range(0, len(data), 16))

    def length(self) -> int:
        """Read the length of a compact array; null is returned as 0."""
        count = self.unsigned() - 1
        if count > len(self._data):
            raise MalformedData(f"an array of {count} in {len(self._data)} bytes")
        return max(count, 0)

    def tags(self) -> dict[int, "Reader"]:
        """Read the tagged fields. Return a reader for each."""
        found = {}
        for _ in range(self.unsigned()):
            tag = self.unsigned()
            found[tag] = Reader(self.take(self.unsigned()))
        return found
