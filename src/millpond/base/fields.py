"""Tables of typed values in AMQP's encoding, as RabbitMQ and its clients write them.

A value is an ordinary Python value, and a small subclass says which of several wire types it has, so that
what is read and written again has the same type tags: a plain ``int`` is a signed 32-bit number if it fits
and a 64-bit one otherwise, ``Short(7)`` is a 16-bit one, and both equal 7. Metadata records keep arguments
in this encoding too, which is why it is here and not with the protocol.

RabbitMQ's type tags are used, not the specification's: ``s`` is a 16-bit number and never a string, ``l``
and ``L`` are both signed 64-bit numbers.
"""

import math
import struct
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from struct import Struct
from typing import TypeAlias

from millpond.base import limits
from millpond.base.errors import LocalProtocolError, MalformedData

Table: TypeAlias = dict[str, "Value"]
# The types that a table may hold; the classes below are subclasses of these.
Value: TypeAlias = (
    "bool | int | float | str | bytes | Decimal | datetime | list[Value] | dict[str, Value] | None"
)


class Byte(int):
    """A signed 8-bit number."""


class UnsignedByte(int):
    """An unsigned 8-bit number."""


class Short(int):
    """A signed 16-bit number."""


class UnsignedShort(int):
    """An unsigned 16-bit number."""


class UnsignedInt(int):
    """An unsigned 32-bit number."""


class Long(int):
    """A signed 64-bit number, whatever its size."""


class Timestamp(int):
    """Seconds since 1970."""


class Float(float):
    """A 32-bit floating-point number."""


class LongString(bytes):
    """A string that is not UTF-8; plain ``bytes`` are a byte array."""


class ScaledNumber(tuple[int, int]):
    """A decimal number as it is on the wire: the number of digits after the point, and all digits."""

    __slots__ = ()

    @property
    def value(self) -> Decimal:
        return Decimal(self[1]).scaleb(-self[0])


_I8, _U8 = Struct(">b"), Struct(">B")
_I16, _U16 = Struct(">h"), Struct(">H")
_I32, _U32 = Struct(">i"), Struct(">I")
_I64, _U64 = Struct(">q"), Struct(">Q")
_F32, _F64 = Struct(">f"), Struct(">d")
_SCALED = Struct(">BI")

_FIXED: dict[int, tuple[Struct, type]] = {
    ord("b"): (_I8, Byte),
    ord("B"): (_U8, UnsignedByte),
    ord("s"): (_I16, Short),
    ord("u"): (_U16, UnsignedShort),
    ord("I"): (_I32, int),
    ord("i"): (_U32, UnsignedInt),
    ord("l"): (_I64, Long),
    ord("L"): (_I64, Long),
    ord("T"): (_U64, Timestamp),
    ord("f"): (_F32, Float),
    ord("d"): (_F64, float),
}
_SIZED: dict[type, tuple[bytes, Struct]] = {
    Byte: (b"b", _I8),
    UnsignedByte: (b"B", _U8),
    Short: (b"s", _I16),
    UnsignedShort: (b"u", _U16),
    UnsignedInt: (b"i", _U32),
    Long: (b"l", _I64),
    Timestamp: (b"T", _U64),
    Float: (b"f", _F32),
    float: (b"d", _F64),
}
# RabbitMQ's names of the types in its error messages.
_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    Byte: "byte",
    UnsignedByte: "unsignedbyte",
    Short: "short",
    UnsignedShort: "unsignedshort",
    UnsignedInt: "unsignedint",
    Long: "long",
    Timestamp: "timestamp",
    datetime: "timestamp",
    Float: "float",
    float: "double",
    str: "longstr",
    LongString: "longstr",
    bytes: "binary",
    ScaledNumber: "decimal",
    Decimal: "decimal",
    list: "array",
    dict: "table",
    type(None): "void",
}
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_LONG_STRING, _TABLE, _ARRAY, _BYTES = map(ord, "SFAx")
_TRUTH, _VOID, _SCALED_TAG = map(ord, "tVD")


def type_name(value: object) -> str:
    """Return RabbitMQ's name for the type of a value."""
    kind = type(value)
    if kind is int:
        assert isinstance(value, int)
        return "signedint" if _INT_MIN <= value <= _INT_MAX else "long"
    return _TYPE_NAMES[kind]


def decode_table(data: bytes) -> Table:
    """Decode a table that has no length prefix. If a name occurs twice, the last value wins."""
    return _table(data, 0, len(data), 0)


def encode_table(table: Mapping[str, object]) -> bytes:
    """Encode a table without a length prefix. Raises ``LocalProtocolError`` for an unsupported value."""
    out = bytearray()
    _put_table(out, table, 0)
    return bytes(out)


# --- reading ----------------------------------------------------------------------------------------


def _table(data: bytes, position: int, end: int, depth: int) -> Table:
    table: Table = {}
    while position < end:
        stop = position + 1 + data[position]
        if stop >= end:
            raise MalformedData("a table ends within a name")
        name = data[position + 1 : stop].decode("utf-8", "surrogateescape")
        table[name], position = _value(data, stop, end, depth)
    return table


def _array(data: bytes, position: int, end: int, depth: int) -> list[Value]:
    values: list[Value] = []
    while position < end:
        value, position = _value(data, position, end, depth)
        values.append(value)
    return values


def _value(data: bytes, position: int, end: int, depth: int) -> tuple[Value, int]:
    tag = data[position]
    position += 1
    fixed = _FIXED.get(tag)
    if fixed is not None:
        layout, kind = fixed
        stop = position + layout.size
        if stop > end:
            raise MalformedData("a table ends within a value")
        (value,) = layout.unpack_from(data, position)
        return (value if kind is int or kind is float else kind(value)), stop
    if tag == _VOID:
        return None, position
    if tag == _TRUTH:
        if position >= end:
            raise MalformedData("a table ends within a value")
        return data[position] != 0, position + 1
    if tag == _SCALED_TAG:
        if position + 5 > end:
            raise MalformedData("a table ends within a value")
        return _scaled(data, position), position + 5
    return _counted(tag, data, position, end, depth)


def _scaled(data: bytes, position: int) -> Value:
    number: object = ScaledNumber(_SCALED.unpack_from(data, position))
    return number  # type: ignore[return-value]


def _counted(tag: int, data: bytes, position: int, end: int, depth: int) -> tuple[Value, int]:
    """Decode a value that has a length prefix."""
    if tag not in (_LONG_STRING, _TABLE, _ARRAY, _BYTES):
        raise MalformedData(f"no value of a table has the type {chr(tag)!r}")
    if position + 4 > end:
        raise MalformedData("a table ends within a value")
    start = position + 4
    stop = start + int.from_bytes(data[position:start], "big")
    if stop > end:
        raise MalformedData("a value of a table is longer than the table")
    if tag == _LONG_STRING:
        return _string(data[start:stop]), stop
    if tag == _BYTES:
        return data[start:stop], stop
    if depth >= limits.TABLE_DEPTH_MAX:
        raise MalformedData(f"tables within tables, more than {limits.TABLE_DEPTH_MAX} deep")
    if tag == _TABLE:
        return _table(data, start, stop, depth + 1), stop
    return _array(data, start, stop, depth + 1), stop


def _string(data: bytes) -> str | LongString:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return LongString(data)


# --- writing ----------------------------------------------------------------------------------------


def _put_table(out: bytearray, table: Mapping[str, object], depth: int) -> None:
    for name, value in table.items():
        raw = name.encode("utf-8", "surrogateescape")
        if len(raw) > 255:
            raise LocalProtocolError(f"the name {name[:20]!r}… is longer than 255 bytes")
        out.append(len(raw))
        out += raw
        _put_value(out, value, depth)


def _put_value(out: bytearray, value: object, depth: int) -> None:
    kind = type(value)
    if kind is str:
        assert isinstance(value, str)
        _put_counted(out, b"S", value.encode("utf-8", "surrogateescape"))
    elif kind is bool:
        out += b"t\x01" if value else b"t\x00"
    elif kind is int:
        assert isinstance(value, int)
        _put_int(out, value)
    elif kind in _SIZED:
        tag, layout = _SIZED[kind]
        out += tag
        try:
            out += layout.pack(value)
        except (struct.error, OverflowError):
            raise LocalProtocolError(f"{value!r} is no {type_name(value)}") from None
    elif value is None:
        out += b"V"
    else:
        _put_other(out, value, depth)


def _put_other(out: bytearray, value: object, depth: int) -> None:
    if isinstance(value, LongString):
        _put_counted(out, b"S", value)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        _put_counted(out, b"x", bytes(value))
    elif isinstance(value, ScaledNumber):
        out += b"D" + _SCALED.pack(*value)
    elif isinstance(value, Decimal):
        _put_decimal(out, value)
    elif isinstance(value, datetime):
        out += b"T" + _U64.pack(math.floor(value.timestamp()))
    elif depth >= limits.TABLE_DEPTH_MAX:
        raise LocalProtocolError(f"tables within tables, more than {limits.TABLE_DEPTH_MAX} deep")
    elif isinstance(value, Mapping):
        inner = bytearray()
        _put_table(inner, value, depth + 1)
        _put_counted(out, b"F", inner)
    elif isinstance(value, (list, tuple)):
        inner = bytearray()
        for item in value:
            _put_value(inner, item, depth + 1)
        _put_counted(out, b"A", inner)
    else:
        raise LocalProtocolError(f"no table can hold {value!r}")


def _put_counted(out: bytearray, tag: bytes, data: bytes | bytearray) -> None:
    out += tag
    out += _U32.pack(len(data))
    out += data


def _put_int(out: bytearray, value: int) -> None:
    if _INT_MIN <= value <= _INT_MAX:
        out += b"I" + _I32.pack(value)
        return
    try:
        out += b"l" + _I64.pack(value)
    except struct.error:
        raise LocalProtocolError(f"{value} does not fit into 64 bits") from None


def _put_decimal(out: bytearray, value: Decimal) -> None:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise LocalProtocolError(f"no table can hold {value!r}")
    number = int("".join(map(str, digits)) or "0")
    places = max(0, -exponent)
    number *= 10 ** max(0, exponent)
    if sign or places > 255 or number >= 2**32:
        raise LocalProtocolError(f"no table can hold {value!r}")
    out += b"D" + _SCALED.pack(places, number)
