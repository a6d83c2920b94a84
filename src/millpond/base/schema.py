"""The encoding of records of groups and transactions: the building blocks of Kafka's record schemas.

Older versions have 16-bit and 32-bit lengths, flexible ones lengths as varints and tagged fields at the
end. ``Reader`` reads bytes from a log that may be damaged: it raises ``MalformedData`` and no other error.
"""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

from millpond.base import varint
from millpond.base.errors import InvalidRequest, MalformedData

# Lengths in the older schemas are signed 16-bit numbers.
STRING_BYTES_MAX = 2**15 - 1

NO_TAGS = b"\x00"

ItemT = TypeVar("ItemT")


def string(text: str) -> bytes:
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise InvalidRequest(f"a name of {len(data)} bytes does not fit a record")
    return struct.pack(">h", len(data)) + data


def nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string(text)


def compact_string(text: str) -> bytes:
    data = text.encode()
    return varint.encode_unsigned(len(data) + 1) + data


def nullable_compact_string(text: str | None) -> bytes:
    return b"\x00" if text is None else compact_string(text)


def compact_bytes(data: bytes) -> bytes:
    return varint.encode_unsigned(len(data) + 1) + data


def compact_array(items: Iterable[bytes]) -> bytes:
    """Encode an array of items that are encoded already."""
    parts = list(items)
    return varint.encode_unsigned(len(parts) + 1) + b"".join(parts)


def compact_numbers(numbers: Iterable[int]) -> bytes:
    """Encode an array of 32-bit numbers."""
    parts = list(numbers)
    return varint.encode_unsigned(len(parts) + 1) + struct.pack(f">{len(parts)}i", *parts)


def tagged(*fields: tuple[int, bytes]) -> bytes:
    """Encode tagged fields, in the order of their tags."""
    return varint.encode_unsigned(len(fields)) + b"".join(
        varint.encode_unsigned(tag) + varint.encode_unsigned(len(data)) + data
        for tag, data in fields
    )


class Reader:
    """A cursor over bytes from a log, which may be damaged."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise MalformedData(f"a record ends before byte {end}")
        chunk = bytes(self.data[self.position : end])
        self.position = end
        return chunk

    def int8(self) -> int:
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def version(self, lowest: int, highest: int, *, of: str) -> int:
        version = self.int16()
        if not lowest <= version <= highest:
            raise MalformedData(f"version {version} of {of} record is not known")
        return version

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedData(f"a record holds text that is not UTF-8: {error}") from None

    def string(self) -> str:
        return self.text(self.int16())

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size == -1 else self.text(size)

    def sized_bytes(self) -> bytes:
        return self.take(self.int32())

    def compact_length(self) -> int:
        length, self.position = varint.decode_unsigned(self.data, self.position)
        return length - 1

    def compact_string(self) -> str:
        return self.text(self.compact_length())

    def nullable_compact_string(self) -> str | None:
        size = self.compact_length()
        return None if size == -1 else self.text(size)

    def compact_bytes(self) -> bytes:
        return self.take(self.compact_length())

    def tagged_fields(self) -> dict[int, bytes]:
        fields: dict[int, bytes] = {}
        count, self.position = varint.decode_unsigned(self.data, self.position)
        for _ in range(count):
            tag, self.position = varint.decode_unsigned(self.data, self.position)
            size, self.position = varint.decode_unsigned(self.data, self.position)
            fields[tag] = self.take(size)
        return fields

    def uuid(self) -> UUID:
        return UUID(bytes=self.take(16))

    def compact_array(self, item: Callable[[], ItemT]) -> list[ItemT]:
        count = self.compact_length()
        if count > len(self.data) - self.position:
            raise MalformedData(f"a record ends before its {count} items")
        return [item() for _ in range(count)]
