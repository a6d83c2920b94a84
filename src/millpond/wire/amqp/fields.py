"""Encodes and decodes the arguments of methods: numbers, strings, tables, and bits that share octets.

``read_fields`` and ``put_fields`` interpret a method's list of (name, kind). They serve the rare methods;
those that come with every message are coded by hand in ``content.py``.
"""

import struct
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

from millpond.base.errors import LocalProtocolError, MalformedData
from millpond.base.fields import decode_table, encode_table

NUMBERS: Final = {
    "octet": Struct(">B"),
    "short": Struct(">H"),
    "long": Struct(">I"),
    "longlong": Struct(">Q"),
    "timestamp": Struct(">Q"),
}
_LONG = NUMBERS["long"]
KINDS: Final = frozenset((*NUMBERS, "bit", "shortstr", "longstr", "table"))


def read_fields(
    fields: Sequence[tuple[str, str]], data: bytes, position: int, *, strict_text: bool
) -> dict[str, object]:
    """Decode all fields; no bytes may be left over. Raises ``MalformedData``.

    ``strict_text``: short strings must be UTF-8. RabbitMQ checks that for methods without content only.
    """
    values: dict[str, object] = {}
    bits = 8
    octet = 0
    try:
        for name, kind in fields:
            if kind == "bit":
                if bits == 8:
                    octet, bits, position = data[position], 0, position + 1
                values[name] = bool(octet >> bits & 1)
                bits += 1
                continue
            bits = 8
            if kind == "shortstr":
                values[name], position = read_short_string(data, position, strict=strict_text)
            elif kind in NUMBERS:
                layout = NUMBERS[kind]
                (values[name],) = layout.unpack_from(data, position)
                position += layout.size
            else:
                raw, position = _read_long_string(data, position)
                values[name] = decode_table(raw) if kind == "table" else raw
    except (IndexError, struct.error):
        raise MalformedData("a method ends within its arguments") from None
    if position != len(data):
        raise MalformedData("a method goes on behind its arguments")
    return values


def read_short_string(data: bytes, position: int, *, strict: bool) -> tuple[str, int]:
    """Read a string of at most 255 bytes. Invalid UTF-8 is kept as surrogate escapes, or raises if
    ``strict``.
    """
    stop = position + 1 + data[position]
    if stop > len(data):
        raise MalformedData("a method ends within its arguments")
    raw = data[position + 1 : stop]
    try:
        return raw.decode("utf-8", "strict" if strict else "surrogateescape"), stop
    except UnicodeDecodeError:
        raise MalformedText("Malformed UTF-8 in shortstr") from None


class MalformedText(MalformedData):
    """A short string that is not UTF-8."""


def _read_long_string(data: bytes, position: int) -> tuple[bytes, int]:
    (size,) = _LONG.unpack_from(data, position)
    start = position + 4
    if start + size > len(data):
        raise MalformedData("a method ends within its arguments")
    return data[start : start + size], start + size


def put_fields(
    out: bytearray, fields: Sequence[tuple[str, str]], values: Mapping[str, object]
) -> None:
    """Encode what ``read_fields`` decodes. Raises ``LocalProtocolError``."""
    bits = 8
    for name, kind in fields:
        value = values[name]
        if kind == "bit":
            if bits == 8:
                out.append(0)
                bits = 0
            out[-1] |= (1 << bits) if value else 0
            bits += 1
            continue
        bits = 8
        if kind == "shortstr":
            assert isinstance(value, str)
            out += short_string(value)
        elif kind in NUMBERS:
            try:
                out += NUMBERS[kind].pack(value)
            except struct.error:
                raise LocalProtocolError(f"{name} cannot be {value!r}") from None
        else:
            raw = encode_table(value) if isinstance(value, dict) else value
            assert isinstance(raw, bytes)
            out += _LONG.pack(len(raw)) + raw


def short_string(value: str) -> bytes:
    """Encode a string of at most 255 bytes with its length."""
    raw = value.encode("utf-8", "surrogateescape")
    if len(raw) > 255:
        raise LocalProtocolError(f"{value[:20]!r}… is longer than the 255 bytes of a short string")
    return bytes((len(raw),)) + raw
