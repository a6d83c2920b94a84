"""Messages made at random from the field table.

``instances`` are hypothesis strategies, which shrink what fails. ``instance`` makes one message from a seeded
source of chance, fifty times faster: for the tests whose own work is slow.
"""

import random
from functools import cache
from importlib import import_module
from typing import Any
from uuid import UUID

from codegen.table import Api, Field, Structure, load
from hypothesis import strategies as st

from millpond.wire.kafka.primitives import NO_ID, Message

APIS: dict[str, Api] = {api.name: api for api in load()}

MESSAGES: list[tuple[str, str]] = [
    (api.name, kind) for api in APIS.values() for kind in api.messages
]

_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


# Tagged fields that only Millpond's nodes write have numbers from here on; other libraries refuse them.
OWN_TAG_MIN = 1000


def is_own(f: Field) -> bool:
    """Whether Kafka has no such field."""
    return f.tag is not None and f.tag >= OWN_TAG_MIN


def module_of(api: Api) -> Any:
    return _module(api.module)


@cache
def _module(name: str) -> Any:
    return import_module(f"millpond.wire.kafka.messages.{name}")


def codec_of(api: Api, kind: str) -> tuple[Any, Any]:
    """(encode, decode) of one message."""
    module = module_of(api)
    name = api.module if api.key is None else f"{api.module}_{kind}"
    return getattr(module, f"encode_{name}"), getattr(module, f"decode_{name}")


@cache
def instances(name: str, kind: str, version: int, tame: bool = False) -> st.SearchStrategy[Message]:
    """Instances whose fields are those of one version; all other fields keep their defaults.

    Tame instances hold only what other libraries can hold too: known error codes, times of our days, no
    tagged fields of our own.
    """
    api = APIS[name]
    return _structures(api, api.messages[kind], version, tame)


def instance(name: str, kind: str, version: int, seed: int, *, tame: bool = False) -> Any:
    """One message whose fields are those of the version. Every seed is another message."""
    api = APIS[name]
    chance = random.Random(f"{name} {kind} {version} {seed}")
    return _make_structure(api, api.messages[kind], version, chance, tame)


def _make_structure(
    api: Api, structure: Structure, version: int, chance: random.Random, tame: bool
) -> Any:
    fields: dict[str, Any] = {}
    for f in structure.fields_in(version):
        if tame and is_own(f):
            continue
        if f.nullable is not None and version in f.nullable and chance.random() < 0.3:
            fields[f.name] = None
        elif f.is_array:
            count = chance.choice((0, 1, 2))
            fields[f.name] = [_make(api, f, version, chance, tame) for _ in range(count)]
        else:
            fields[f.name] = _make(api, f, version, chance, tame)
    return getattr(module_of(api), structure.name)(**fields)


def _make(api: Api, f: Field, version: int, chance: random.Random, tame: bool) -> Any:
    if f.is_structure:
        return _make_structure(api, api.structures[f.type], version, chance, tame)
    match f.type:
        case "bool":
            return chance.random() < 0.5
        case "float64":
            return chance.choice((0.0, -1.5, chance.random()))
        case "string":
            return chance.choice(("", "a", "grün", "\U0001f986", "x" * 126, "x" * 127, "x" * 300))
        case "bytes" | "records":
            return chance.choice((b"", b"\x00", b"y" * 126, b"y" * 127, b"y" * 300))
        case "uuid":
            return chance.choice((NO_ID, UUID(int=chance.getrandbits(128))))
        case "int16" if tame and "error_code" in f.name:
            return chance.randint(0, 120)
        case "int32" | "int64" if tame and ("time" in f.name or f.name.endswith("_ms")):
            return chance.randint(0, 2**31 - 1)
        case _:
            low, high = _RANGES[f.type]
            return chance.choice((low, high, 0 if low else 1, chance.randint(low, high)))


def _structures(api: Api, structure: Structure, version: int, tame: bool) -> st.SearchStrategy[Any]:
    fields = {
        f.name: _values(api, f, version, tame)
        for f in structure.fields_in(version)
        if not (tame and is_own(f))
    }
    return st.builds(getattr(module_of(api), structure.name), **fields)


def _values(api: Api, f: Field, version: int, tame: bool) -> st.SearchStrategy[Any]:
    values: st.SearchStrategy[Any]
    if f.is_structure:
        values = _structures(api, api.structures[f.type], version, tame)
    else:
        values = _primitives(f, tame)
    if f.is_array:
        values = st.lists(values, max_size=2)
    if f.nullable is not None and version in f.nullable:
        return st.none() | values
    return values


def _primitives(f: Field, tame: bool) -> st.SearchStrategy[Any]:
    match f.type:
        case "bool":
            return st.booleans()
        case "float64":
            return st.floats(allow_nan=False)
        case "string":
            return st.text(max_size=5) | st.just("x" * 130)
        case "bytes" | "records":
            return st.binary(max_size=5) | st.just(b"y" * 130)
        case "uuid":
            return st.sampled_from([NO_ID, UUID(int=7)]) | st.uuids()
        case "int16" if tame and "error_code" in f.name:
            return st.integers(0, 120)
        case "int32" | "int64" if tame and ("time" in f.name or f.name.endswith("_ms")):
            return st.integers(0, 2**31 - 1)
        case _:
            return st.integers(*_RANGES[f.type])
