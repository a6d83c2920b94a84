"""How keys and values are written on a command line, and how bytes are shown there.

``string`` is the bytes as they are; ``json`` is checked on the way in and kept as it was written; ``hex`` and
``base64`` are for bytes that no terminal should see.
"""

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import Any, Final

import click

FORMATS = ("string", "json", "hex", "base64")
# What options of --key-format and --value-format say; the choices in brackets would take a line of their own.
FORMAT_HELP: Final[dict[str, Any]] = {
    "metavar": "FORMAT",
    "help": "string (default), json, hex or base64.",
}

# A number this large is a time in milliseconds (2001 and later), a smaller one an offset.
TIME_MS_MIN = 10**12


class BadText(ValueError):
    """Text that is not in the format it should be in."""


def parse(text: bytes, form: str) -> bytes:
    """The bytes that ``text`` stands for. Raises ``BadText``."""
    match form:
        case "string":
            return text
        case "json":
            try:
                json.loads(text)
            except ValueError as error:
                raise BadText(f"not JSON: {error}") from None
            return text
        case "hex":
            try:
                return bytes.fromhex(text.decode("ascii"))
            except ValueError:
                raise BadText("not hexadecimal") from None
        case "base64":
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise BadText("not base64") from None
        case _:
            raise AssertionError(form)


def show(data: bytes | None, form: str) -> bytes:
    """Return the text to print for ``data``; null is printed as ``null``."""
    if data is None:
        return b"null"
    match form:
        case "string":
            return data
        case "json":
            return json.dumps(show_json(data, form), ensure_ascii=False).encode()
        case "hex":
            return data.hex().encode()
        case "base64":
            return base64.b64encode(data)
        case _:
            raise AssertionError(form)


def show_json(data: bytes | None, form: str) -> object:
    """Return ``data`` as a JSON value; text that is not UTF-8 or not JSON becomes a string."""
    if data is None:
        return None
    text = data.decode("utf-8", "replace")
    if form == "json":
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text if form == "string" else show(data, form).decode()


def parse_time_ms(text: str) -> int:
    """Milliseconds from a number of them or an ISO 8601 time (local unless it says otherwise)."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadText(f"{text!r} is no time; write 2026-01-31T12:00 or milliseconds") from None
    return int(moment.astimezone(UTC).timestamp() * 1000)


def show_time(timestamp_ms: int) -> str:
    """A time in UTC with milliseconds, or ``-`` for none."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)  # further away than calendars go
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_pairs(texts: tuple[str, ...], what: str) -> list[tuple[str, str]]:
    """``name=value`` options. Raises a usage error that names the one without ``=``."""
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} should be NAME=VALUE", param_hint=what)
        pairs.append((name, value))
    return pairs
