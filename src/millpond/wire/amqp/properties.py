"""The properties of a message: fourteen optional fields before its body.

A broker passes most of them through, so they stay encoded until they are needed. ``Properties`` is a value:
publishers send the same block again and again, and equal blocks give the same object.
"""

import struct
from functools import lru_cache
from struct import Struct
from typing import Final

from millpond.base.errors import LocalProtocolError, MalformedData
from millpond.base.fields import Table, decode_table, encode_table
from millpond.wire.amqp.fields import read_short_string, short_string

_FLAGS = Struct(">H")
_LONG = Struct(">I")
_TIMESTAMP = Struct(">Q")

# In wire order, from the highest flag bit down.
KINDS: Final = (
    ("content_type", "shortstr"),
    ("content_encoding", "shortstr"),
    ("headers", "table"),
    ("delivery_mode", "octet"),
    ("priority", "octet"),
    ("correlation_id", "shortstr"),
    ("reply_to", "shortstr"),
    ("expiration", "shortstr"),
    ("message_id", "shortstr"),
    ("timestamp", "timestamp"),
    ("type", "shortstr"),
    ("user_id", "shortstr"),
    ("app_id", "shortstr"),
    ("cluster_id", "shortstr"),
)
_BITS = tuple((0x8000 >> index, name, kind) for index, (name, kind) in enumerate(KINDS))
# The two lowest bits: one says that more flags follow, which no class needs, and one is unused.
_CONTINUED = 0x0001

# Blocks of at most this size are cached; larger ones have headers that differ from message to message.
_REMEMBERED_BYTES_MAX = 128

NO_PROPERTIES: Final = b"\x00\x00"


class Properties:
    """The properties of a message. None means that a field is absent."""

    __slots__ = tuple(name for name, _kind in KINDS)

    def __init__(
        self,
        *,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Table | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type: str | None = None,  # noqa: A002 - the protocol's name
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.headers = headers
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.expiration = expiration
        self.message_id = message_id
        self.timestamp = timestamp
        self.type = type
        self.user_id = user_id
        self.app_id = app_id
        self.cluster_id = cluster_id

    @property
    def is_persistent(self) -> bool:
        return self.delivery_mode == 2

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Properties):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name, _kind in KINDS)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        there = ((name, getattr(self, name)) for name, _kind in KINDS)
        said = ", ".join(f"{name}={value!r}" for name, value in there if value is not None)
        return f"Properties({said})"


def decode_properties(data: bytes) -> Properties:
    """Decode a block. Raises ``MalformedData``. The result may be shared: do not change it."""
    if len(data) <= _REMEMBERED_BYTES_MAX:
        return _remembered(data)
    return _decode(data)


def encode_properties(properties: Properties) -> bytes:
    """Encode a block. Raises ``LocalProtocolError``."""
    flags = 0
    out = bytearray()
    for bit, name, kind in _BITS:
        value = getattr(properties, name)
        if value is None:
            continue
        flags |= bit
        try:
            if kind == "shortstr":
                out += short_string(value)
            elif kind == "octet":
                out.append(value)
            elif kind == "timestamp":
                out += _TIMESTAMP.pack(value)
            else:
                table = encode_table(value)
                out += _LONG.pack(len(table)) + table
        except (ValueError, struct.error):
            raise LocalProtocolError(f"{name} cannot be {value!r}") from None
    return _FLAGS.pack(flags) + bytes(out)


def _decode(data: bytes) -> Properties:
    try:
        return _read(data)
    except (IndexError, struct.error):
        raise MalformedData("a header ends within its properties") from None


def _read(data: bytes) -> Properties:
    (flags,) = _FLAGS.unpack_from(data)
    if flags & _CONTINUED:
        raise MalformedData("a header has more flags than there are properties")
    properties = Properties()
    position = 2
    for bit, name, kind in _BITS:
        if not flags & bit:
            continue
        value: object
        if kind == "shortstr":
            value, position = read_short_string(data, position, strict=False)
        elif kind == "octet":
            value, position = data[position], position + 1
        elif kind == "timestamp":
            (value,) = _TIMESTAMP.unpack_from(data, position)
            position += 8
        else:
            (size,) = _LONG.unpack_from(data, position)
            start, position = position + 4, position + 4 + size
            if position > len(data):
                raise MalformedData("a header ends within its properties")
            value = decode_table(data[start:position])
        setattr(properties, name, value)
    if position != len(data):
        raise MalformedData("a header goes on behind its properties")
    return properties


_remembered = lru_cache(maxsize=4096)(_decode)
