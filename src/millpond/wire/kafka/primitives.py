"""Encodings of the Kafka protocol: strings, bytes, arrays, UUIDs and tagged fields.

Readers take a view of one frame and a position and return ``(value, next position)``. They never read past
the frame and never allocate memory for more than it can hold: a length is compared with the remaining bytes
first. Malformed data raise ``RemoteProtocolError``; running off the end of the frame may also raise
``struct.error`` or ``IndexError``, which every message decoder turns into ``RemoteProtocolError``
(``DECODE_ERRORS``, ``malformed``).

Writers return bytes. Each has a classic and a compact form; "compact" is what flexible versions (KIP-482)
use: lengths are unsigned varints, one more than the length, and zero is null.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct, error
from typing import Any, TypeAlias
from uuid import UUID

from millpond.base import limits
from millpond.base.errors import LocalProtocolError, RemoteProtocolError

BytesLike: TypeAlias = bytes | bytearray | memoryview

DECODE_ERRORS = (error, IndexError, UnicodeDecodeError)
ENCODE_ERRORS = (error, AttributeError, TypeError, ValueError, OverflowError)

NO_ID = UUID(int=0)

# Marks an omitted list in the constructors of messages, where None may mean null.
NOT_GIVEN: Any = object()

_short = Struct(">h")
_int = Struct(">i")
_unpack_short = _short.unpack_from
_unpack_int = _int.unpack_from
_pack_short = _short.pack
_pack_int = _int.pack


class Message:
    """Base class of all messages and their parts: equality by fields, and a readable ``repr``.

    Messages are plain classes with slots rather than dataclasses: there are nearly five hundred, and creating
    a dataclass takes longer than importing the rest of its message.
    """

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


def malformed(message: str, version: int, reason: Exception) -> RemoteProtocolError:
    """Return the error of a decoder."""
    if isinstance(reason, UnicodeDecodeError):
        return RemoteProtocolError(f"{message} v{version}: a string is not UTF-8")
    return RemoteProtocolError(f"{message} v{version}: the frame ends before the message does")


def unencodable(message: str, version: int, reason: Exception) -> LocalProtocolError:
    """Return the error of an encoder."""
    return LocalProtocolError(f"{message} v{version} cannot be written: {reason}")


# --- reading ----------------------------------------------------------------------------------


def overrun(size: int, left: int) -> RemoteProtocolError:
    """Return the error for a length beyond the end of the frame."""
    return RemoteProtocolError(f"a length of {size} exceeds the {left} bytes left in the frame")


def unexpected_null(what: str) -> RemoteProtocolError:
    """Return the error for a null that the protocol does not allow."""
    return RemoteProtocolError(f"null {what} where the protocol allows none")


def too_many_partitions() -> RemoteProtocolError:
    """Return the error for more topics and partitions than one request may name."""
    return RemoteProtocolError(
        f"a request names more than {limits.REQUEST_PARTITIONS_MAX} topics and partitions"
    )


def read_uvarint(data: memoryview, p: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits."""
    byte = data[p]
    if byte < 0x80:
        return byte, p + 1
    value = byte & 0x7F
    for shift in (7, 14, 21):
        p += 1
        byte = data[p]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, p + 1
    p += 1
    byte = data[p]
    if byte > 0x0F:
        raise RemoteProtocolError("a varint is longer than 32 bits")
    return value | byte << 28, p + 1


def read_string(data: memoryview, p: int) -> tuple[str, int]:
    (size,) = _unpack_short(data, p)
    if size < 0:
        raise unexpected_null("string")
    p += 2
    stop = p + size
    if stop > len(data):
        raise overrun(size, len(data) - p)
    return str(data[p:stop], "utf-8"), stop


def read_compact_string(data: memoryview, p: int) -> tuple[str, int]:
    size = data[p]
    p += 1
    if size > 0x7F:
        size, p = read_uvarint(data, p - 1)
    if size == 0:
        raise unexpected_null("string")
    stop = p + size - 1
    if stop > len(data):
        raise overrun(size - 1, len(data) - p)
    return str(data[p:stop], "utf-8"), stop


def read_nullable_string(data: memoryview, p: int) -> tuple[str | None, int]:
    (size,) = _unpack_short(data, p)
    p += 2
    if size < 0:
        return None, p
    stop = p + size
    if stop > len(data):
        raise overrun(size, len(data) - p)
    return str(data[p:stop], "utf-8"), stop


def read_nullable_compact_string(data: memoryview, p: int) -> tuple[str | None, int]:
    size = data[p]
    p += 1
    if size > 0x7F:
        size, p = read_uvarint(data, p - 1)
    if size == 0:
        return None, p
    stop = p + size - 1
    if stop > len(data):
        raise overrun(size - 1, len(data) - p)
    return str(data[p:stop], "utf-8"), stop


def read_nullable_view(data: memoryview, p: int) -> tuple[memoryview | None, int]:
    """Read records without a copy: a view of the frame, writable if the frame is."""
    (size,) = _unpack_int(data, p)
    p += 4
    if size < 0:
        return None, p
    stop = p + size
    if stop > len(data):
        raise overrun(size, len(data) - p)
    return data[p:stop], stop


def read_nullable_compact_view(data: memoryview, p: int) -> tuple[memoryview | None, int]:
    size, p = read_uvarint(data, p)
    if size == 0:
        return None, p
    stop = p + size - 1
    if stop > len(data):
        raise overrun(size - 1, len(data) - p)
    return data[p:stop], stop


def read_view(data: memoryview, p: int) -> tuple[memoryview, int]:
    value, p = read_nullable_view(data, p)
    if value is None:
        raise unexpected_null("records")
    return value, p


def read_compact_view(data: memoryview, p: int) -> tuple[memoryview, int]:
    value, p = read_nullable_compact_view(data, p)
    if value is None:
        raise unexpected_null("records")
    return value, p


def read_nullable_bytes(data: memoryview, p: int) -> tuple[bytes | None, int]:
    """Read bytes as a copy, so that a small field does not keep a large frame alive."""
    value, p = read_nullable_view(data, p)
    return None if value is None else bytes(value), p


def read_nullable_compact_bytes(data: memoryview, p: int) -> tuple[bytes | None, int]:
    value, p = read_nullable_compact_view(data, p)
    return None if value is None else bytes(value), p


def read_bytes(data: memoryview, p: int) -> tuple[bytes, int]:
    value, p = read_nullable_view(data, p)
    if value is None:
        raise unexpected_null("bytes")
    return bytes(value), p


def read_compact_bytes(data: memoryview, p: int) -> tuple[bytes, int]:
    value, p = read_nullable_compact_view(data, p)
    if value is None:
        raise unexpected_null("bytes")
    return bytes(value), p


def read_nullable_count(data: memoryview, p: int, element_bytes_min: int) -> tuple[int, int]:
    """Read the number of elements that follow; -1 is null."""
    (count,) = _unpack_int(data, p)
    p += 4
    if count < 0:
        return -1, p
    if count * element_bytes_min > len(data) - p:
        raise overrun(count * element_bytes_min, len(data) - p)
    return count, p


def read_nullable_compact_count(
    data: memoryview, p: int, element_bytes_min: int
) -> tuple[int, int]:
    count, p = read_uvarint(data, p)
    count -= 1
    if count * element_bytes_min > len(data) - p:
        raise overrun(count * element_bytes_min, len(data) - p)
    return count, p


def read_count(data: memoryview, p: int, element_bytes_min: int) -> tuple[int, int]:
    count, p = read_nullable_count(data, p, element_bytes_min)
    if count < 0:
        raise unexpected_null("array")
    return count, p


def read_compact_count(data: memoryview, p: int, element_bytes_min: int) -> tuple[int, int]:
    count, p = read_nullable_compact_count(data, p, element_bytes_min)
    if count < 0:
        raise unexpected_null("array")
    return count, p


@lru_cache(maxsize=256)
def _numbers(code: str, count: int) -> Struct:
    return Struct(f">{count}{code}")


def read_numbers(data: memoryview, p: int, count: int, code: str) -> tuple[list[int], int]:
    """Read ``count`` fixed-width numbers; the caller has checked that they are there."""
    layout = _numbers(code, count) if count < 64 else Struct(f">{count}{code}")
    return list(layout.unpack_from(data, p)), p + layout.size


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID:
    """Return a UUID from its 16 bytes, cached: topics' and directories' ids recur in every request."""
    return UUID(bytes=raw)


def read_uuids(data: memoryview, p: int, count: int) -> tuple[list[UUID], int]:
    """Read ``count`` UUIDs; the caller has checked that they are there."""
    stop = p + 16 * count
    return [uuid_of(bytes(data[i : i + 16])) for i in range(p, stop, 16)], stop


def read_presence(data: memoryview, p: int) -> tuple[bool, int]:
    """Read the byte before a nullable structure: negative is null."""
    return data[p] < 0x80, p + 1


def skip_tags(data: memoryview, p: int) -> int:
    """Skip unknown tagged fields."""
    count = data[p]
    p += 1
    if count == 0:
        return p
    if count > 0x7F:
        count, p = read_uvarint(data, p - 1)
    for _ in range(count):
        _, p, stop = read_tag(data, p)
        p = stop
    return p


def read_tag(data: memoryview, p: int) -> tuple[int, int, int]:
    """Return a tagged field's number, where its content starts, and where it must end."""
    tag, p = read_uvarint(data, p)
    size, p = read_uvarint(data, p)
    stop = p + size
    if stop > len(data):
        raise overrun(size, len(data) - p)
    return tag, p, stop


def wrong_tag_size(tag: int, p: int, stop: int) -> RemoteProtocolError:
    """Return the error for a tagged field whose content does not match its size."""
    return RemoteProtocolError(f"tagged field {tag} ends {p - stop} bytes away from its own end")


# --- writing ----------------------------------------------------------------------------------

_SMALL = tuple(bytes((value,)) for value in range(0x80))


def pack_uvarint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack_string(value: str) -> bytes:
    raw = value.encode()
    return _pack_short(len(raw)) + raw


def pack_compact_string(value: str) -> bytes:
    raw = value.encode()
    size = len(raw) + 1
    return (_SMALL[size] if size < 0x80 else pack_uvarint(size)) + raw


def pack_nullable_string(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else pack_string(value)


def pack_nullable_compact_string(value: str | None) -> bytes:
    return b"\x00" if value is None else pack_compact_string(value)


def pack_size(value: BytesLike) -> bytes:
    """Encode the length of bytes; the bytes themselves are passed on uncopied."""
    return _pack_int(len(value))


def pack_compact_size(value: BytesLike) -> bytes:
    return pack_uvarint(len(value) + 1)


def pack_count(count: int) -> bytes:
    return _pack_int(count)


def pack_compact_count(count: int) -> bytes:
    return pack_uvarint(count + 1)


def pack_numbers(values: Sequence[int], code: str) -> bytes:
    count = len(values)
    layout = _numbers(code, count) if count < 64 else Struct(f">{count}{code}")
    return layout.pack(*values)


def pack_tags(fields: list[tuple[int, bytes]]) -> bytes:
    """Encode tagged fields in the order of their tags, each with its size."""
    parts = [pack_uvarint(len(fields))]
    for tag, content in fields:
        parts += (pack_uvarint(tag), pack_uvarint(len(content)), content)
    return b"".join(parts)
