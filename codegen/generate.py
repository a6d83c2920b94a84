"""Turns the field table into straight-line Python.

One module per API. For every message a class with slots and defaults, an encoder and a decoder.
Nested structures are read and written in place, without a call per structure; neighbouring fields
of fixed width go through one ``struct`` call; a version is asked for once per group of fields.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from codegen.table import Api, Field, Structure, Versions, snake_case

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
# Identifiers for struct codes that cannot stand in a name.
CODE_NAME = {"?": "o", "16s": "u"}
READER = {"string": "string", "bytes": "bytes", "records": "view"}


def module_source(api: Api) -> str:
    """The text of one generated module."""
    body = _Lines()
    imports = _Imports()
    for structure in _in_order_of_use(api):
        _write_class(structure, body, imports)
    for structure in api.messages.values():
        _Encoder(api, structure, body, imports).write()
        _Decoder(api, structure, body, imports).write()
    head = [
        f'"""{_title(api)}',
        "",
        "Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.",
        '"""',
        "",
        *imports.lines(),
    ]
    return "\n".join(head) + "\n" + body.text()


def index_source(apis: list[Api]) -> str:
    """The text of ``messages/index.py``: the numbers of every API."""
    lines = [
        '"""The APIs of the Kafka protocol by number.',
        "",
        "Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.",
        '"""',
        "",
        "from enum import IntEnum",
        "",
        "",
        "class ApiKey(IntEnum):",
        '    """What a request asks for."""',
        "",
    ]
    requests = [api for api in apis if api.key is not None]
    lines += [f"    {api.module.upper()} = {api.key}" for api in requests]
    lines += [
        "",
        "",
        "# key, name, module, first version, last version, first flexible version or None,",
        "# last version that Kafka itself calls stable",
        "TABLE: tuple[tuple[int, str, str, int, int, int | None, int], ...] = (",
    ]
    for api in requests:
        stable = api.versions.last if api.unstable is None else api.unstable - 1
        lines.append(
            f'    ({api.key}, "{api.name}", "{api.module}", {api.versions.first}, '
            f"{api.versions.last}, {api.flexible_from}, {stable}),"
        )
    return "\n".join([*lines, ")", ""])


def _title(api: Api) -> str:
    what = "request and response" if api.key is not None else "message"
    key = f" (api {api.key})" if api.key is not None else ""
    return f"{api.name} {what}{key}, versions {api.versions}."


class _Imports:
    """What a module turns out to need while it is written."""

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


class _Lines:
    """Text under construction, with its indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, line: str = "") -> None:
        self._lines.append("    " * self._depth + line if line else "")

    @contextmanager
    def block(self, head: str | None) -> Iterator[None]:
        """Indents under ``head``; without one, does nothing."""
        if head is None:
            yield
            return
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _in_order_of_use(api: Api) -> list[Structure]:
    """Structures before those that hold them."""
    done: dict[str, Structure] = {}

    def visit(structure: Structure) -> None:
        for f in structure.fields:
            if f.is_structure and f.type not in done:
                visit(api.structures[f.type])
        done[structure.name] = structure

    for message in api.messages.values():
        visit(message)
    return list(done.values())


def _element_type(f: Field) -> str:
    return PYTHON_TYPE.get(f.type, f.type)


def _annotation(f: Field) -> str:
    python = f"list[{_element_type(f)}]" if f.is_array else _element_type(f)
    return f"{python} | None" if f.nullable is not None else python


def _is_given_by_mark(f: Field) -> bool:
    """Whether the constructor must build the default anew each time."""
    return (f.is_array or f.is_structure) and f.default != "null"


def _default(f: Field, imports: _Imports) -> str:
    """The default as an expression."""
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


def _write_class(structure: Structure, body: _Lines, imports: _Imports) -> None:
    fields = structure.fields
    body.add()
    body.add()
    with body.block(f"class {structure.name}(Message):"):
        names = ", ".join(f'"{f.name}"' for f in fields)
        body.add(f"__slots__ = ({names}{',' if len(fields) == 1 else ''})")
        if not fields:
            return
        body.add()
        with body.block("def __init__("):
            body.add("self,")
            for f in fields:
                if f.type == "records":
                    imports.use("BytesLike")
                if f.type == "uuid":
                    imports.uuid = True
                default = _default(f, imports)
                if _is_given_by_mark(f):
                    default = imports.use("NOT_GIVEN")
                body.add(f"{f.name}: {_annotation(f)} = {default},")
        with body.block(") -> None:"):
            for f in fields:
                if _is_given_by_mark(f):
                    value = f"{_default(f, imports)} if {f.name} is NOT_GIVEN else {f.name}"
                    body.add(f"self.{f.name}: {_annotation(f)} = {value}")
                else:
                    body.add(f"self.{f.name} = {f.name}")


class _Codec:
    """What the encoder and the decoder of one message share."""

    def __init__(self, api: Api, message: Structure, body: _Lines, imports: _Imports) -> None:
        self.api = api
        self.message = message
        self.body = body
        self.imports = imports
        self.blocks = 0
        self.chosen: dict[str, tuple[str, str]] = {}

    # A version may be flexible always, never, or from some version on.
    @property
    def flexible(self) -> bool | None:
        start = self.api.flexible_from
        if start is None or start > self.api.versions.last:
            return False
        return True if start <= self.api.versions.first else None

    def choose(self, verb: str, stem: str, nullable: bool) -> str:
        """The local name of a primitive in its classic or compact form."""
        prefix = "nullable_" if nullable else ""
        classic, compact = f"{verb}_{prefix}{stem}", f"{verb}_{prefix}compact_{stem}"
        if self.flexible is not None:
            return self.imports.use(compact if self.flexible else classic)
        local = f"{prefix}{stem}_"
        self.chosen[local] = (self.imports.use(compact), self.imports.use(classic))
        return local

    def choose_nullable(self, verb: str, stem: str, f: Field) -> str:
        """As ``choose``, for a field that may be nullable in some of its versions only."""
        if f.nullable is None:
            return self.choose(verb, stem, nullable=False)
        null = self.choose(verb, stem, nullable=True)
        condition = self.condition(f.nullable, f.versions)
        if condition is None:
            return null
        return f"({null} if {condition} else {self.choose(verb, stem, nullable=False)})"

    def condition(self, versions: Versions, within: Versions | None = None) -> str | None:
        """``versions`` as a test of ``version``, or None where it always holds."""
        within = within or self.api.versions
        first, last = versions.first > within.first, versions.last < within.last
        if first and last:
            if versions.first == versions.last:
                return f"version == {versions.first}"
            return f"{versions.first} <= version <= {versions.last}"
        if first:
            return f"version >= {versions.first}"
        return f"version <= {versions.last}" if last else None

    def segments(self, fields: list[Field]) -> Iterator[tuple[Versions | None, list[Field]]]:
        """Neighbours that one test of the version serves.

        Fields of the same versions come with these; fields of fixed width whose versions differ come
        with None, because they are best handled together, once per span of versions.
        """
        merged: list[tuple[Versions | None, list[Field]]] = []
        for run in self.runs(fields):
            versions = run[0].versions
            if any(f.versions != versions for f in run):
                merged.append((None, run))
            elif merged and merged[-1][0] == versions:
                merged[-1][1].extend(run)
            else:
                merged.append((versions, list(run)))
        yield from merged

    def spans(self, fields: list[Field], within: Versions) -> Iterator[tuple[str, list[Field]]]:
        """For fields of fixed width: each span of versions, newest first, and what it has of them."""
        starts = {within.first}
        for f in fields:
            starts |= {f.versions.first, f.versions.last + 1}
        newest_first = sorted((v for v in starts if v in within), reverse=True)
        for index, start in enumerate(newest_first):
            test = f"{'elif' if index else 'if'} version >= {start}:"
            head = "else:" if start == within.first else test
            yield head, [f for f in fields if start in f.versions]

    @staticmethod
    def runs(fields: list[Field]) -> Iterator[list[Field]]:
        """Neighbours of fixed width together, all others alone."""
        run: list[Field] = []
        for f in fields:
            if not f.is_array and f.type in FIXED:
                run.append(f)
                continue
            if run:
                yield run
                run = []
            yield [f]
        if run:
            yield run

    def preamble(self) -> list[str]:
        lines = []
        if self.flexible is None:
            lines.append(f"flexible = version >= {self.api.flexible_from}")
            lines += [
                f"{local} = {compact} if flexible else {classic}"
                for local, (compact, classic) in sorted(self.chosen.items())
            ]
        return lines

    def function(self, head: str, content: _Lines, handler: list[str]) -> None:
        """Writes the function: the content was made first, so that its preamble is known."""
        self.body.add()
        self.body.add()
        with self.body.block(head):
            with self.body.block("try:"):
                for line in self.preamble():
                    self.body.add(line)
                for line in content.text().splitlines():
                    self.body.add(line)
            for line in handler:
                self.body.add(line)


class _Decoder(_Codec):
    def write(self) -> None:
        name = self.message.name
        out = _Lines()
        out.add("p = 0")
        value = self.structure(self.message, self.api.versions, out)
        out.add(f"return {value}")
        self.function(
            f"def decode_{snake_case(name)}(data: memoryview, version: int) -> {name}:",
            out,
            [
                f"except {self.imports.use('DECODE_ERRORS')} as error:",
                f'    raise {self.imports.use("malformed")}("{name}", version, error) from None',
            ],
        )

    def structure(self, structure: Structure, within: Versions, out: _Lines) -> str:
        """Reads one structure's fields into locals; the expression that makes it is returned."""
        suffix = "" if structure is self.message else f"_{self.blocks}"
        self.blocks += 1
        local = {f.name: _local(f.name + suffix) for f in structure.fields}
        # A structure may be used in fewer versions than it knows of.
        fields = [f for f in structure.fields if _overlap(f.versions, within)]
        for f in structure.fields:
            if f not in fields:
                self.assign_default(f, local[f.name], out)
        plain = [f for f in fields if f.tag is None]
        tagged = sorted((f for f in fields if f.tag is not None), key=lambda f: f.tag or 0)
        for versions, group in self.segments(plain):
            if versions is None:
                self.mixed(group, within, local, out)
                continue
            condition = self.condition(versions, within)
            if condition is None:
                self.group(group, local, out)
                continue
            for f in group:
                if f.nullable is not None or f.is_array or f.is_structure or f.type == "records":
                    out.add(f"{local[f.name]}: {_annotation(f)}")
            with out.block(f"if {condition}:"):
                self.group(group, local, out, declared=True)
            with out.block("else:"):
                for f in group:
                    out.add(f"{local[f.name]} = {_default(f, self.imports)}")
        for f in tagged:
            self.assign_default(f, local[f.name], out)
        self.tags(tagged, local, within, suffix, out)
        arguments = ", ".join(local[f.name] for f in structure.fields)
        return f"{structure.name}({arguments})"

    def mixed(
        self, fields: list[Field], within: Versions, local: dict[str, str], out: _Lines
    ) -> None:
        for head, present in self.spans(fields, within):
            with out.block(head):
                if present:
                    self.fixed(present, local, out)
                for f in fields:
                    if f not in present:
                        out.add(f"{local[f.name]} = {_default(f, self.imports)}")

    def assign_default(self, f: Field, local: str, out: _Lines) -> None:
        out.add(f"{local}: {_annotation(f)} = {_default(f, self.imports)}")

    def group(
        self, group: list[Field], local: dict[str, str], out: _Lines, declared: bool = False
    ) -> None:
        for run in self.runs(group):
            if not run[0].is_array and run[0].type in FIXED:
                self.fixed(run, local, out)
            else:
                self.variable(run[0], local[run[0].name], out, declared)

    def fixed(self, run: list[Field], local: dict[str, str], out: _Lines) -> None:
        names = [local[f.name] for f in run]
        if [f.type for f in run] == ["bool"]:
            out.add(f"{names[0]} = data[p] != 0")
            out.add("p += 1")
            return
        struct = self.imports.struct([FIXED[f.type][0] for f in run])
        targets = ", ".join(names) if len(names) > 1 else f"({names[0]},)"
        out.add(f"{targets} = _unpack_{struct}(data, p)")
        out.add(f"p += {sum(FIXED[f.type][1] for f in run)}")
        for f in run:
            if f.type == "uuid":
                out.add(f"{local[f.name]} = {self.imports.use('uuid_of')}({local[f.name]})")

    def variable(self, f: Field, local: str, out: _Lines, declared: bool) -> None:
        annotation = "" if declared else f": {_annotation(f)}"
        if f.is_array:
            self.array(f, local, annotation, out)
        elif f.is_structure:
            self.nested(f, local, annotation, out)
        else:
            reader = self.choose_nullable("read", READER[f.type], f)
            out.add(f"{local}, p = {reader}(data, p)")

    def nested(self, f: Field, local: str, annotation: str, out: _Lines) -> None:
        structure = self.api.structures[f.type]
        if f.nullable is None:
            out.add(f"{local} = {self.structure(structure, f.versions, out)}")
            return
        assert f.nullable == f.versions, f"{f.name}: partly nullable structures do not occur"
        if annotation:
            out.add(f"{local}{annotation}")
        out.add(f"present, p = {self.imports.use('read_presence')}(data, p)")
        with out.block("if present:"):
            out.add(f"{local} = {self.structure(structure, f.versions, out)}")
        with out.block("else:"):
            out.add(f"{local} = None")

    def array(self, f: Field, local: str, annotation: str, out: _Lines) -> None:
        reader = self.choose_nullable("read", "count", f)
        out.add(f"count, p = {reader}(data, p, {self.element_bytes_min(f)})")
        if f.nullable is None:
            self.elements(f, local, annotation, out)
            return
        if annotation:
            out.add(f"{local}{annotation}")
        with out.block("if count < 0:"):
            out.add(f"{local} = None")
        with out.block("else:"):
            self.elements(f, local, "", out)

    def elements(self, f: Field, local: str, annotation: str, out: _Lines) -> None:
        if f.type == "uuid":
            out.add(f"{local}, p = {self.imports.use('read_uuids')}(data, p, count)")
            return
        if f.type in FIXED:
            code = FIXED[f.type][0]
            out.add(f'{local}, p = {self.imports.use("read_numbers")}(data, p, count, "{code}")')
            return
        out.add(f"{local}{annotation} = []")
        with out.block("for _ in range(count):"):
            if f.is_structure:
                value = self.structure(self.api.structures[f.type], f.versions, out)
                out.add(f"{local}.append({value})")
            else:
                out.add(f"item, p = {self.choose('read', READER[f.type], nullable=False)}(data, p)")
                out.add(f"{local}.append(item)")

    def tags(
        self,
        tagged: list[Field],
        local: dict[str, str],
        within: Versions,
        suffix: str,
        out: _Lines,
    ) -> None:
        if self.flexible is False:
            return
        always = self.flexible or within.first >= (self.api.flexible_from or 0)
        with out.block(None if always else "if flexible:"):
            if not tagged:
                skip = self.imports.use("skip_tags")
                out.add(f"p = p + 1 if data[p] == 0 else {skip}(data, p)")
                return
            with out.block("if data[p] == 0:"):
                out.add("p += 1")
            with out.block("else:"):
                self.known_tags(tagged, local, within, suffix, out)

    def known_tags(
        self,
        tagged: list[Field],
        local: dict[str, str],
        within: Versions,
        suffix: str,
        out: _Lines,
    ) -> None:
        out.add(f"tag_count{suffix}, p = {self.imports.use('read_uvarint')}(data, p)")
        with out.block(f"for _ in range(tag_count{suffix}):"):
            tag, stop = f"tag{suffix}", f"stop{suffix}"
            out.add(f"{tag}, p, {stop} = {self.imports.use('read_tag')}(data, p)")
            for index, f in enumerate(tagged):
                condition = self.condition(f.versions, within)
                test = f"{tag} == {f.tag}" + (f" and {condition}" if condition else "")
                with out.block(f"{'elif' if index else 'if'} {test}:"):
                    self.group([f], local, out, declared=True)
                    with out.block(f"if p != {stop}:"):
                        error = self.imports.use("wrong_tag_size")
                        out.add(f"raise {error}({tag}, p, {stop})")
            out.add(f"p = {stop}")

    def element_bytes_min(self, f: Field) -> int:
        """The fewest bytes that one element can take in any version."""
        sizes = [
            self.bytes_min(f, version, element=True)
            for version in range(f.versions.first, f.versions.last + 1)
        ]
        assert min(sizes) > 0, f"{f.name}: an element may be empty"
        return min(sizes)

    def bytes_min(self, f: Field, version: int, element: bool = False) -> int:
        flexible = self.api.is_flexible(version)
        if f.is_array and not element:
            return 1 if flexible else 4
        if f.type in FIXED:
            return FIXED[f.type][1]
        if not f.is_structure:
            return 1 if flexible else 2 if f.type == "string" else 4
        if f.nullable is not None and not element:
            return 1
        return flexible + sum(
            self.bytes_min(inner, version)
            for inner in self.api.structures[f.type].fields_in(version)
            if inner.tag is None
        )


class _Encoder(_Codec):
    def write(self) -> None:
        name = self.message.name
        out = _Lines()
        out.add(f"parts: list[{self.imports.use('BytesLike')}] = []")
        out.add("add = parts.append")
        self.structure(self.message, self.api.versions, "m", "add", out)
        out.add('return b"".join(parts)')
        self.function(
            f"def encode_{snake_case(name)}(m: {name}, version: int) -> bytes:",
            out,
            [
                f"except {self.imports.use('ENCODE_ERRORS')} as error:",
                f'    raise {self.imports.use("unencodable")}("{name}", version, error) from error',
            ],
        )

    def structure(
        self, structure: Structure, within: Versions, m: str, add: str, out: _Lines
    ) -> None:
        fields = [f for f in structure.fields if _overlap(f.versions, within)]
        plain = [f for f in fields if f.tag is None]
        tagged = sorted((f for f in fields if f.tag is not None), key=lambda f: f.tag or 0)
        for versions, group in self.segments(plain):
            if versions is None:
                for head, present in self.spans(group, within):
                    if present or head != "else:":
                        with out.block(head):
                            if present:
                                self.fixed(present, m, add, out)
                            else:
                                out.add("pass")
                continue
            condition = self.condition(versions, within)
            with out.block(f"if {condition}:" if condition else None):
                for run in self.runs(group):
                    if not run[0].is_array and run[0].type in FIXED:
                        self.fixed(run, m, add, out)
                    else:
                        self.variable(run[0], m, add, out)
        self.tags(tagged, within, m, add, out)

    def fixed(self, run: list[Field], m: str, add: str, out: _Lines) -> None:
        struct = self.imports.struct([FIXED[f.type][0] for f in run])
        values = ", ".join(
            f"{m}.{f.name}.bytes" if f.type == "uuid" else f"{m}.{f.name}" for f in run
        )
        out.add(f"{add}(_pack_{struct}({values}))")

    def variable(self, f: Field, m: str, add: str, out: _Lines) -> None:
        if f.is_array:
            self.array(f, m, add, out)
        elif f.is_structure:
            self.nested(f, m, add, out)
        elif f.type == "string":
            self.string(f, m, add, out)
        else:
            self.sized(f, m, add, out)

    def string(self, f: Field, m: str, add: str, out: _Lines) -> None:
        # What is not null looks the same either way.
        pack = self.choose("pack", "string", nullable=f.nullable is not None)
        if f.nullable is not None:
            condition = self.condition(f.nullable, f.versions)
            if condition is not None:
                with out.block(f"if {m}.{f.name} is None and not {condition}:"):
                    out.add(f'raise TypeError("{f.name} may not be null")')
        out.add(f"{add}({pack}({m}.{f.name}))")

    def sized(self, f: Field, m: str, add: str, out: _Lines) -> None:
        value = f"value_{self.next()}"
        out.add(f"{value} = {m}.{f.name}")
        with self.unless_null(f, value, add, self.choose("pack", "count", nullable=False), out):
            out.add(f"{add}({self.choose('pack', 'size', nullable=False)}({value}))")
            out.add(f"{add}({value})")

    def nested(self, f: Field, m: str, add: str, out: _Lines) -> None:
        inner = f"m_{self.next()}"
        out.add(f"{inner} = {m}.{f.name}")
        structure = self.api.structures[f.type]
        if f.nullable is None:
            self.structure(structure, f.versions, inner, add, out)
            return
        with out.block(f"if {inner} is None:"):
            out.add(f'{add}(b"\\xff")')
        with out.block("else:"):
            out.add(f'{add}(b"\\x01")')
            self.structure(structure, f.versions, inner, add, out)

    def array(self, f: Field, m: str, add: str, out: _Lines) -> None:
        values = f"values_{self.next()}"
        out.add(f"{values} = {m}.{f.name}")
        count = self.choose("pack", "count", nullable=False)
        with self.unless_null(f, values, add, count, out):
            out.add(f"{add}({count}(len({values})))")
            if f.type == "uuid":
                out.add(f'{add}(b"".join([value.bytes for value in {values}]))')
            elif f.type in FIXED:
                pack = self.imports.use("pack_numbers")
                out.add(f'{add}({pack}({values}, "{FIXED[f.type][0]}"))')
            elif f.is_structure:
                inner = f"m_{self.next()}"
                with out.block(f"for {inner} in {values}:"):
                    self.structure(self.api.structures[f.type], f.versions, inner, add, out)
            else:
                assert f.type == "string"
                pack = self.choose("pack", "string", nullable=False)
                with out.block(f"for text in {values}:"):
                    out.add(f"{add}({pack}(text))")

    @contextmanager
    def unless_null(
        self, f: Field, value: str, add: str, count: str, out: _Lines
    ) -> Iterator[None]:
        """The content goes under an else when the field may be null."""
        if f.nullable is None:
            yield
            return
        with out.block(f"if {value} is None:"):
            condition = self.condition(f.nullable, f.versions)
            if condition is not None:
                with out.block(f"if not {condition}:"):
                    out.add(f'raise TypeError("{f.name} may not be null")')
            out.add(f"{add}({count}(-1))")
        with out.block("else:"):
            yield

    def tags(self, tagged: list[Field], within: Versions, m: str, add: str, out: _Lines) -> None:
        if self.flexible is False:
            return
        always = self.flexible or within.first >= (self.api.flexible_from or 0)
        with out.block(None if always else "if flexible:"):
            if not tagged:
                out.add(f'{add}(b"\\x00")')
                return
            number = self.next()
            tags = f"tags_{number}"
            out.add(f"{tags}: list[tuple[int, bytes]] = []")
            for f in tagged:
                condition = self.condition(f.versions, within)
                test = self.differs_from_default(f, m)
                with out.block(f"if {condition} and {test}:" if condition else f"if {test}:"):
                    self.tag(f, m, tags, out)
            out.add(f"{add}({self.imports.use('pack_tags')}({tags}))")

    def tag(self, f: Field, m: str, tags: str, out: _Lines) -> None:
        number = self.next()
        parts, add = f"parts_{number}", f"add_{number}"
        out.add(f"{parts}: list[BytesLike] = []")
        out.add(f"{add} = {parts}.append")
        if not f.is_array and f.type in FIXED:
            self.fixed([f], m, add, out)
        else:
            self.variable(f, m, add, out)
        out.add(f'{tags}.append(({f.tag}, b"".join({parts})))')

    def differs_from_default(self, f: Field, m: str) -> str:
        value = f"{m}.{f.name}"
        default = _default(f, self.imports)
        match default:
            case "None":
                return f"{value} is not None"
            case "[]" | "False":
                return value if f.nullable is None else f"{value} != []"
            case "True":
                return f"not {value}"
            case _:
                return f"{value} != {default}"

    def next(self) -> int:
        self.blocks += 1
        return self.blocks


def _overlap(versions: Versions, within: Versions) -> bool:
    return versions.first <= within.last and within.first <= versions.last


def _local(name: str) -> str:
    """Field names that a decoder already uses for itself."""
    return name + "_" if name in {"data", "version", "p", "count", "item", "present"} else name
