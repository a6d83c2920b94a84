"""Kafka's encoding of values in records: the building blocks of its record schemas, written and read.

Older versions of a schema have lengths of 16 and 32 bits. Flexible versions have compact lengths (an unsigned
varint of the length plus one; 0 means null) and end every structure with tagged fields, of which a reader
skips those that it does not know.

Functions with the name of a type return its bytes; the method of ``Reader`` with the same name reads it back.
A log may be damaged, so ``Reader`` raises ``MalformedData`` and no other error. Messages between clients and
brokers have generated codecs instead (``wire/kafka/messages``).
"""

import struct
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar
from uuid import UUID

from millpond.base.errors import InvalidRequest, MalformedData
from millpond.base.varint import decode_unsigned, encode_unsigned

# Lengths in the older schemas are signed 16-bit numbers.
STRING_BYTES_MAX = 2**15 - 1

NO_TAGS = b"\x00"

I8 = struct.Struct(">b")
I16 = struct.Struct(">h")
U16 = struct.Struct(">H")
I32 = struct.Struct(">i")
I64 = struct.Struct(">q")
F64 = struct.Struct(">d")

ItemT = TypeVar("ItemT")


# --- writing --------------------------------------------------------------------------------------


def string(text: str) -> bytes:
    """Encode a string with a 16-bit length. Raise ``InvalidRequest`` if it is too long for that."""
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise InvalidRequest(f"a name of {len(data)} bytes does not fit a record")
    return I16.pack(len(data)) + data


def nullable_string(text: str | None) -> bytes:
    """Encode a string with a 16-bit length, -1 for null."""
    return b"\xff\xff" if text is None else string(text)


def compact_string(text: str) -> bytes:
    """Encode a compact string."""
    data = text.encode()
    return encode_unsigned(len(data) + 1) + data


def nullable_compact_string(text: str | None) -> bytes:
    """Encode a compact string that may be null."""
    return b"\x00" if text is None else compact_string(text)


def compact_bytes(data: bytes) -> bytes:
    """Encode compact bytes."""
    return encode_unsigned(len(data) + 1) + data


def compact_length(length: int) -> bytes:
    """Encode the length of a compact array whose items follow."""
    return encode_unsigned(length + 1)


def compact_array(items: Iterable[bytes]) -> bytes:
    """Encode a compact array of items that are encoded already."""
    parts = list(items)
    return encode_unsigned(len(parts) + 1) + b"".join(parts)


def compact_int32s(numbers: Iterable[int]) -> bytes:
    """Encode a compact array of 32-bit numbers."""
    parts = tuple(numbers)
    return encode_unsigned(len(parts) + 1) + struct.pack(f">{len(parts)}i", *parts)


def compact_uuids(values: Collection[UUID]) -> bytes:
    """Encode a compact array of UUIDs."""
    return encode_unsigned(len(values) + 1) + b"".join([value.bytes for value in values])


def tagged(*fields: tuple[int, bytes]) -> bytes:
    """Encode tagged fields, given in the order of their tags."""
    if not fields:
        return NO_TAGS
    return encode_unsigned(len(fields)) + b"".join(
        [encode_unsigned(tag) + encode_unsigned(len(data)) + data for tag, data in fields]
    )


# --- reading --------------------------------------------------------------------------------------


class Reader:
    """A cursor over the fields of one record, which may be damaged."""

    __slots__ = ("_data", "_position", "_size")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = data if type(data) is bytes else bytes(data)
        self._position = 0
        self._size = len(data)

    @property
    def size(self) -> int:
        """Return the size of the whole record."""
        return self._size

    def take(self, size: int) -> bytes:
        """Read ``size`` bytes."""
        start = self._position
        end = start + size
        if size < 0 or end > self._size:
            raise MalformedData(f"{size} bytes wanted at {start} of {self._size}")
        self._position = end
        return self._data[start:end]

    def int8(self) -> int:
        """Read a signed 8-bit number."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        """Read a signed 16-bit number."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def uint16(self) -> int:
        """Read an unsigned 16-bit number."""
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        """Read a signed 32-bit number."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        """Read a signed 64-bit number."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def float64(self) -> float:
        """Read a 64-bit float."""
        (value,) = F64.unpack(self.take(8))
        return float(value)

    def boolean(self) -> bool:
        """Read a boolean."""
        return self.take(1) != b"\x00"

    def uuid(self) -> UUID:
        """Read a UUID."""
        return UUID(bytes=self.take(16))

    def unsigned(self) -> int:
        """Read an unsigned varint."""
        position = self._position
        if position < self._size and (value := self._data[position]) < 0x80:
            self._position = position + 1
            return value
        value, self._position = decode_unsigned(self._data, position)
        return value

    def version(self, lowest: int, highest: int, *, of: str) -> int:
        """Read the version of a record and check that it is known."""
        version = self.int16()
        if not lowest <= version <= highest:
            raise MalformedData(f"version {version} of {of} record is not known")
        return version

    def text(self, size: int) -> str:
        """Read ``size`` bytes of UTF-8."""
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedData(f"a record holds text that is not UTF-8: {error}") from None

    def string(self) -> str:
        """Read a string with a 16-bit length."""
        return self.text(self.int16())

    def nullable_string(self) -> str | None:
        """Read a string with a 16-bit length, -1 for null."""
        size = self.int16()
        return None if size == -1 else self.text(size)

    def sized_bytes(self) -> bytes:
        """Read bytes with a 32-bit length."""
        return self.take(self.int32())

    def compact_length(self) -> int:
        """Read a compact length, -1 for null."""
        return self.unsigned() - 1

    def compact_string(self) -> str:
        """Read a compact string."""
        return self.text(self.unsigned() - 1)

    def nullable_compact_string(self) -> str | None:
        """Read a compact string that may be null."""
        size = self.unsigned() - 1
        return None if size == -1 else self.text(size)

    def compact_bytes(self) -> bytes:
        """Read compact bytes."""
        return self.take(self.unsigned() - 1)

    def array_length(self) -> int:
        """Read the length of a compact array, 0 for null. Raise if its items cannot be in the record."""
        count = self.unsigned() - 1
        if count > self._size - self._position:
            raise MalformedData(f"a record ends before its {count} items")
        return max(count, 0)

    def compact_array(self, item: Callable[[], ItemT]) -> list[ItemT]:
        """Read a compact array, each item with ``item``. Null is returned as empty."""
        return [item() for _ in range(self.array_length())]

    def compact_int32s(self) -> tuple[int, ...]:
        """Read a compact array of 32-bit numbers. Null is returned as empty."""
        count = self.array_length()
        return struct.unpack(f">{count}i", self.take(4 * count))

    def compact_uuids(self) -> tuple[UUID, ...]:
        """Read a compact array of UUIDs. Null is returned as empty."""
        return tuple([self.uuid() for _ in range(self.array_length())])

    def tagged_fields(self) -> dict[int, bytes]:
        """Read the tagged fields that end a structure."""
        fields: dict[int, bytes] = {}
        for _ in range(self.unsigned()):
            tag = self.unsigned()
            fields[tag] = self.take(self.unsigned())
        return fields
