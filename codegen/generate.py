"""Turns the field table into straight-line Python.

One module per API. For every message a class with slots and defaults, an encoder and a decoder.
Nested structures are read and written in place, without a call per structure; neighbouring fields
of fixed width go through one ``struct`` call; a version is asked for once per group of fields.
"""

from codegen.decoder import Decoder
from codegen.encoder import Encoder
from codegen.source import Imports, Lines, annotation_of, default_of, is_made_anew
from codegen.table import Api, Structure


def module_source(api: Api) -> str:
    """Return the text of one generated module."""
    body = Lines()
    imports = Imports()
    for structure in _in_order_of_use(api):
        _write_class(structure, body, imports)
    for structure in api.messages.values():
        Encoder(api, structure, body, imports).write()
        Decoder(api, structure, body, imports).write()
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
    """Return the text of ``messages/index.py``: the numbers of every API."""
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


def _in_order_of_use(api: Api) -> list[Structure]:
    """Return structures before those that contain them."""
    done: dict[str, Structure] = {}

    def visit(structure: Structure) -> None:
        for f in structure.fields:
            if f.is_structure and f.type not in done:
                visit(api.structures[f.type])
        done[structure.name] = structure

    for message in api.messages.values():
        visit(message)
    return list(done.values())


def _write_class(structure: Structure, body: Lines, imports: Imports) -> None:
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
                default = default_of(f, imports)
                if is_made_anew(f):
                    default = imports.use("NOT_GIVEN")
                body.add(f"{f.name}: {annotation_of(f)} = {default},")
        with body.block(") -> None:"):
            for f in fields:
                if is_made_anew(f):
                    value = f"{default_of(f, imports)} if {f.name} is NOT_GIVEN else {f.name}"
                    body.add(f"self.{f.name}: {annotation_of(f)} = {value}")
                else:
                    body.add(f"self.{f.name} = {f.name}")
