"""Text and bytes of other protocols, without loss: bytes that are not UTF-8 become lone surrogates."""

import json
from decimal import Decimal

from millpond.base.fields import LongString, Value


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def header_bytes(value: Value) -> bytes | None:
    """A header's value as Kafka's clients see it: text as it is, anything with structure as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return raw(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, (int, float, Decimal)):
        return str(value).encode()
    return json.dumps(value, default=_shown, ensure_ascii=False, sort_keys=True).encode(
        "utf-8", "surrogateescape"
    )


def header_value(data: bytes) -> Value:
    """A Kafka header's value in a table: text if it is UTF-8, otherwise bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return LongString(data)


def _shown(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
