"""Fields as Kafka's flexible schemas lay them out: compact lengths, tagged fields at the end.

For facts that live in logs. What travels over sockets has generated codecs.
"""

import struct
from collections.abc import Iterable
from uuid import UUID

from millpond.base.errors import MalformedData
from millpond.base.varint import decode_unsigned, encode_unsigned

INT8 = struct.Struct(">b")
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
UINT16 = struct.Struct(">H")


def put_string(out: bytearray, value: str | None) -> None:
    """A compact string, or the mark that there is none."""
    if value is None:
        out.append(0)
        return
    data = value.encode()
    out += encode_unsigned(len(data) + 1)
    out += data


def put_length(out: bytearray, length: int) -> None:
    """The length of a compact array."""
    out += encode_unsigned(length + 1)


def put_tags(out: bytearray, tags: Iterable[tuple[int, bytes]] = ()) -> None:
    """Tagged fields, in the order of their tags."""
    tags = list(tags)
    out += encode_unsigned(len(tags))
    for tag, data in tags:
        out += encode_unsigned(tag)
        out += encode_unsigned(len(data))
        out += data


class Reader:
    """A cursor over the fields of one record. Raises ``MalformedData`` instead of reading past its end."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._position = 0

    def unsigned(self) -> int:
        """A variable-length number."""
        value, self._position = decode_unsigned(self._data, self._position)
        return value

    def take(self, size: int) -> memoryview:
        """So many bytes."""
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise MalformedData(f"{size} bytes wanted at {self._position} of {len(self._data)}")
        data = self._data[self._position : end]
        self._position = end
        return data

    def number(self, form: struct.Struct) -> int:
        """A number of fixed width."""
        (value,) = form.unpack(self.take(form.size))
        return int(value)

    def uuid(self) -> UUID:
        """Sixteen bytes."""
        return UUID(bytes=bytes(self.take(16)))

    def nullable_string(self) -> str | None:
        """A compact string that may be missing."""
        size = self.unsigned() - 1
        if size < 0:
            return None
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError:
            raise MalformedData(f"a string that is not UTF-8 at {self._position}") from None

    def string(self) -> str:
        """A compact string."""
        value = self.nullable_string()
        if value is None:
            raise MalformedData("a string that may not be null is null")
        return value

    def length(self) -> int:
        """The length of a compact array; an array that may be missing counts as empty."""
        count = self.unsigned() - 1
        if count > len(self._data):
            raise MalformedData(f"an array of {count} in {len(self._data)} bytes")
        return max(count, 0)

    def tags(self) -> dict[int, "Reader"]:
        """Tagged fields."""
        found = {}
        for _ in range(self.unsigned()):
            tag = self.unsigned()
            found[tag] = Reader(self.take(self.unsigned()))
        return found
