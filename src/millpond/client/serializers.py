"""Serializers and deserializers of keys and values.

A serializer is a callable that takes an object and returns bytes (or None), an object with a method
``serialize(topic, value)``, or a name: ``string``, ``bytes``, ``json``, ``int``, ``long``, ``double``, or the
class name that Java uses for the same. Without one, bytes stay bytes and text becomes UTF-8.
"""

import json
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from millpond.client.errors import BadConfig, NotSerializable

Serializer: TypeAlias = Callable[[str, Any], bytes | None]
Deserializer: TypeAlias = Callable[[str, bytes | None], Any]


def serializer_of(given: Any) -> Serializer | None:
    """Return the function to call with a topic and an object; None if bytes are passed unchanged."""
    found: Serializer | None = _resolve(given, "serialize", _SERIALIZERS)
    return found


def deserializer_of(given: Any) -> Deserializer | None:
    """Return the function to call with a topic and bytes; None if bytes are passed unchanged."""
    found: Deserializer | None = _resolve(given, "deserialize", _DESERIALIZERS)
    return found


def plain_bytes(what: str, value: object) -> bytes | None:
    """Encode a value without a serializer."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise NotSerializable(
        f"the {what} is {type(value).__name__}, not bytes or text;"
        f' give a {what}_serializer, for example {what}_serializer="json"'
    )


def _resolve(given: Any, method: str, named: dict[str, Any]) -> Any:
    if given is None:
        return None
    if isinstance(given, str):
        short = given.rsplit(".", 1)[-1].lower()
        short = short.removesuffix("deserializer").removesuffix("serializer")
        if short not in named:
            raise BadConfig(
                f"no {method}r is called {given!r}; known are {', '.join(sorted(named))}"
            )
        return named[short]
    instance = given() if isinstance(given, type) else given
    if hasattr(instance, method):
        return getattr(instance, method)
    if callable(instance):
        return lambda topic, value: instance(value)
    raise BadConfig(f"{given!r} is no {method}r: it cannot be called and has no {method}()")


def _packer(form: str) -> Serializer:
    pack = struct.Struct(form).pack
    return lambda topic, value: None if value is None else pack(value)


def _unpacker(form: str) -> Deserializer:
    unpack = struct.Struct(form).unpack
    return lambda topic, data: None if data is None else unpack(data)[0]


def _to_json(topic: str, value: Any) -> bytes | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# Numbers are big-endian, as Java's serializers write them.
_SERIALIZERS: dict[str, Serializer | None] = {
    "bytes": None,
    "bytearray": None,
    "string": lambda topic, value: None if value is None else str(value).encode(),
    "json": _to_json,
    "short": _packer(">h"),
    "int": _packer(">i"),
    "integer": _packer(">i"),
    "long": _packer(">q"),
    "float": _packer(">f"),
    "double": _packer(">d"),
}
_DESERIALIZERS: dict[str, Deserializer | None] = {
    "bytes": None,
    "bytearray": None,
    "string": lambda topic, data: None if data is None else data.decode(),
    "json": lambda topic, data: None if data is None else json.loads(data),
    "short": _unpacker(">h"),
    "int": _unpacker(">i"),
    "integer": _unpacker(">i"),
    "long": _unpacker(">q"),
    "float": _unpacker(">f"),
    "double": _unpacker(">d"),
}
