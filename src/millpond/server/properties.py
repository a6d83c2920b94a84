"""Java's ``.properties`` syntax, which Kafka's configuration files are written in.

Reads what ``java.util.Properties`` reads: ``#`` and ``!`` comments, ``=``, ``:`` or blanks between key and
value, backslash escapes, lines continued by a final backslash. ``write_property`` is the inverse of reading.
Knows no setting.
"""

from collections.abc import Iterator
from typing import NamedTuple

from millpond.base.errors import InvalidConfig

_BLANKS = " \t\f"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNESCAPED = {value: character for character, value in _ESCAPED.items()}


class Property(NamedTuple):
    """One key with its value and the line it starts on."""

    key: str
    value: str
    line: int


def read_properties(text: str) -> list[Property]:
    """Every property in the order of the file; a key may come twice. Raises ``InvalidConfig``."""
    return [_split(line, number) for number, line in _logical_lines(text)]


def write_property(key: str, value: str) -> str:
    """One line that ``read_properties`` reads back as the same key and value."""
    return f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    # Only \n, \r and \r\n end a line; str.splitlines knows eight more.
    natural = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    pending = ""
    started = 0
    for number, raw in enumerate(natural, 1):
        line = raw.lstrip(_BLANKS)
        if not started:
            if not line or line[0] in "#!":
                continue
            started = number
        if _continues(line):
            pending += line[:-1]
            continue
        if pending or line:
            yield started, pending + line
        pending, started = "", 0
    if pending:
        yield started, pending


def _continues(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _split(line: str, number: int) -> Property:
    position = 0
    while position < len(line) and line[position] not in _BLANKS + "=:":
        position += 2 if line[position] == "\\" else 1
    key = line[:position]
    rest = line[position:].lstrip(_BLANKS)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_BLANKS)
    return Property(_unescape(key, number), _unescape(rest, number), number)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        if text[position] != "\\":
            out.append(text[position])
            position += 1
            continue
        character = text[position + 1 : position + 2]
        if character != "u":
            out.append(_ESCAPED.get(character, character))
            position += 2
            continue
        digits = text[position + 2 : position + 6]
        try:
            if len(digits) != 4:
                raise ValueError
            out.append(chr(int(digits, 16)))
        except ValueError:
            raise InvalidConfig(
                f"line {number}: \\u{digits} is not four hexadecimal digits"
            ) from None
        position += 6
    # Java writes characters beyond the first plane as two escapes.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, is_key: bool) -> str:
    out: list[str] = []
    for index, character in enumerate(text):
        if character in _UNESCAPED:
            out.append("\\" + _UNESCAPED[character])
        elif (
            character == "\\"
            or (is_key and character in "=:")
            or (index == 0 and character in "#!")
        ):
            out.append("\\" + character)
        elif character == " " and (is_key or index == 0):
            out.append("\\ ")
        else:
            out.append(character)
    return "".join(out)
