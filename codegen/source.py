"""Python source under construction: its lines, its imports, and the table's types in Python."""

from collections.abc import Iterator
from contextlib import contextmanager

from codegen.table import Field

FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
PYTHON_TYPE = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "BytesLike",
    "uuid": "UUID",
} | dict.fromkeys(("int8", "int16", "uint16", "int32", "int64"), "int")
# Identifiers for struct codes that are not valid in a name.
CODE_NAME = {"?": "o", "16s": "u"}


class Lines:
    """Text under construction, with its indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, line: str = "") -> None:
        self._lines.append("    " * self._depth + line if line else "")

    @contextmanager
    def block(self, head: str | None) -> Iterator[None]:
        """Indent under ``head``; without one, do nothing."""
        if head is None:
            yield
            return
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


class Imports:
    """The imports that a module needs, collected while it is written."""

    def __init__(self) -> None:
        self.primitives = {"Message"}
        self.structs: dict[str, str] = {}
        self.uuid = False

    def use(self, name: str) -> str:
        self.primitives.add(name)
        return name

    def struct(self, codes: list[str]) -> str:
        name = "".join(CODE_NAME.get(code, code) for code in codes)
        self.structs[name] = ">" + "".join(codes)
        return name

    def lines(self) -> list[str]:
        lines = []
        if self.structs:
            lines.append("from struct import Struct")
        if self.uuid:
            lines.append("from uuid import UUID")
        lines += (
            ["", "from millpond.wire.kafka.primitives import ("]
            if lines
            else ["from millpond.wire.kafka.primitives import ("]
        )
        lines += [f"    {name}," for name in sorted(self.primitives, key=str.lower)]
        lines.append(")")
        if self.structs:
            lines.append("")
        for name, layout in sorted(self.structs.items()):
            lines.append(f'_{name} = Struct("{layout}")')
            lines.append(f"_pack_{name}, _unpack_{name} = _{name}.pack, _{name}.unpack_from")
        return lines


def _element_type(f: Field) -> str:
    return PYTHON_TYPE.get(f.type, f.type)


def annotation_of(f: Field) -> str:
    python = f"list[{_element_type(f)}]" if f.is_array else _element_type(f)
    return f"{python} | None" if f.nullable is not None else python


def is_made_anew(f: Field) -> bool:
    """Return whether the constructor must create the default each time."""
    return (f.is_array or f.is_structure) and f.default != "null"


def default_of(f: Field, imports: Imports) -> str:
    """Return the default as an expression."""
    if f.default == "null":
        return "None"
    if f.is_array:
        return "[]"
    if f.is_structure:
        return f"{f.type}()"
    match f.type:
        case "string":
            return f.default or '""'
        case "bytes":
            return 'b""'
        case "records":
            return "None" if f.nullable is not None else 'b""'
        case "uuid":
            return imports.use("NO_ID")
        case "bool":
            return "True" if f.default == "true" else "False"
        case "float64":
            return f.default or "0.0"
        case _:
            return f.default or "0"
