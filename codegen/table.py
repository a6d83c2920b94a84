"""Reads ``kafka_messages.txt``: our own table of the Kafka protocol's messages.

The syntax is described at the top of that file. Mistakes in it raise ``TableError`` with the line.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

TABLE_PATH = Path(__file__).with_name("kafka_messages.txt")

PRIMITIVES = frozenset(
    {"bool", "int8", "int16", "uint16", "int32", "int64", "float64"}
    | {"string", "bytes", "records", "uuid"}
)
_FIELD = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*): (?P<array>\[\])?(?P<type>\w+)"
    r"(?: (?P<versions>\d\S*))?"
    r"(?P<nullable> nullable(?: (?P<nullable_versions>\d\S*))?)?"
    r"(?: tag (?P<tag>\d+))?"
    r"(?: = (?P<default>\S+))?$"
)


class TableError(Exception):
    """The table has an error."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a structure. ``default`` is the table's own text, or None."""

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions | None
    tag: int | None
    default: str | None

    @property
    def is_structure(self) -> bool:
        return self.type not in PRIMITIVES


@dataclass(slots=True)
class Structure:
    """A named list of fields; messages are structures too."""

    name: str
    fields: list[Field] = field(default_factory=list)

    def fields_in(self, version: int) -> list[Field]:
        """Return the fields of this version, in wire order, tagged ones last and by tag."""
        present = [f for f in self.fields if version in f.versions]
        tagged = sorted((f for f in present if f.tag is not None), key=lambda f: f.tag or 0)
        return [f for f in present if f.tag is None] + tagged


@dataclass(slots=True, kw_only=True)
class Api:
    """One request and its response, or one ``data`` message."""

    name: str
    key: int | None
    versions: Versions
    flexible_from: int | None
    unstable: int | None = None
    structures: dict[str, Structure] = field(default_factory=dict)
    messages: dict[str, Structure] = field(default_factory=dict)

    @property
    def module(self) -> str:
        return snake_case(self.name)

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


def snake_case(name: str) -> str:
    """``DescribeLogDirs`` -> ``describe_log_dirs``; ``KRaftVersionRecord`` -> ``kraft_version_record``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def load(path: Path = TABLE_PATH) -> list[Api]:
    """Return the whole table, in its own order."""
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> list[Api]:
    apis: list[Api] = []
    open_fields: list[tuple[int, Structure, Versions]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].rstrip()
        if not line:
            continue
        words = line.split()
        depth = len(line) - len(line.lstrip())
        try:
            if depth == 0:
                apis.append(_parse_head(words))
            elif depth == 2:
                api = apis[-1]
                structure = _open_structure(api, words)
                open_fields = [(4, structure, api.versions)]
            else:
                while open_fields[-1][0] > depth:
                    open_fields.pop()
                _parse_field(line.strip(), depth, apis[-1], open_fields)
        except (ValueError, IndexError, KeyError) as error:
            raise TableError(f"line {number}: {raw.strip()!r}: {error}") from error
    for api in apis:
        _check(api)
    return apis


def _parse_head(words: list[str]) -> Api:
    kind, *words = words
    key = int(words.pop(0)) if kind == "api" else None
    if kind not in {"api", "data"}:
        raise ValueError("expected api or data")
    name, versions, *rest = words
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    flexible = options.pop("flexible", None)
    unstable = options.pop("unstable", None)
    if options:
        raise ValueError(f"unknown {sorted(options)}")
    return Api(
        name=name,
        key=key,
        versions=_parse_versions(versions, None),
        flexible_from=None if flexible is None else int(flexible.removesuffix("+")),
        unstable=None if unstable is None else int(unstable),
    )


def _open_structure(api: Api, words: list[str]) -> Structure:
    match words:
        case ["struct", name]:
            return api.structures.setdefault(name, Structure(name))
        case ["request" | "response" as kind] if api.key is not None:
            return api.messages.setdefault(kind, Structure(api.name + kind.title()))
        case ["fields"] if api.key is None:
            return api.messages.setdefault("fields", Structure(api.name))
        case _:
            raise ValueError("expected struct, request, response or fields")


def _parse_field(
    line: str, depth: int, api: Api, open_fields: list[tuple[int, Structure, Versions]]
) -> None:
    found = _FIELD.match(line)
    if found is None:
        raise ValueError("not a field")
    indent, parent, within = open_fields[-1]
    if indent != depth:
        raise ValueError("wrong indentation")
    versions = _parse_versions(found["versions"], within)
    nullable = None
    if found["nullable"]:
        nullable = _parse_versions(found["nullable_versions"], versions)
    new = Field(
        name=found["name"],
        type=found["type"],
        is_array=found["array"] is not None,
        versions=versions,
        nullable=nullable,
        tag=None if found["tag"] is None else int(found["tag"]),
        default=found["default"],
    )
    parent.fields.append(new)
    if new.is_structure:
        structure = api.structures.setdefault(new.type, Structure(new.type))
        open_fields.append((depth + 2, structure, versions))


def _parse_versions(text: str | None, within: Versions | None) -> Versions:
    if text is None:
        assert within is not None
        return within
    if text.endswith("+"):
        assert within is not None
        return Versions(int(text[:-1]), within.last)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def _check(api: Api) -> None:
    """Check the generator's assumptions."""
    for structure in [*api.structures.values(), *api.messages.values()]:
        if not structure.fields:
            if structure.name in api.structures:
                raise TableError(f"{api.name}: structure {structure.name} has no fields")
            continue
        names = [f.name for f in structure.fields]
        if len(set(names)) != len(names):
            raise TableError(f"{api.name}.{structure.name}: a name appears twice")
        for f in structure.fields:
            where = f"{api.name}.{structure.name}.{f.name}"
            if not api.versions.first <= f.versions.first <= f.versions.last <= api.versions.last:
                raise TableError(f"{where}: versions {f.versions} outside {api.versions}")
            if f.tag is not None and not api.is_flexible(f.versions.first):
                raise TableError(f"{where}: tagged in a version that has no tags")
            if f.default == "null" and f.nullable is None:
                raise TableError(f"{where}: null default of a field that is never null")
