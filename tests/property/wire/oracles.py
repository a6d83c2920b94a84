"""Two other implementations of the Kafka protocol, asked what our bytes mean.

Each oracle reads our bytes into its own objects, which are then turned into plain values in the order of
the wire (lists for structures and arrays) and compared with ours, and writes them again. What an oracle
cannot hold is listed where it is skipped, with the reason.
"""

import datetime
import enum
import importlib
import io
import warnings
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from codegen.table import Api, Structure
from kio.index import UnknownEntity, load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from millpond.wire.kafka.primitives import NO_ID
from tests.property.wire.instances import is_own

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas in a deprecated way
    for _part in ("admin", "consumer", "metadata", "producer", "sasl"):
        importlib.import_module(f"kafka.protocol.{_part}")
    _api_message: Any = importlib.import_module("kafka.protocol.api_message")
    _data_container: Any = importlib.import_module("kafka.protocol.data_container")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# The nil id, the time -1, and "operations were not asked for".
_NONE_ELSEWHERE = (NO_ID, -1, -(2**31))
_MILLISECOND = datetime.timedelta(milliseconds=1)


def plain(value: Any, api: Api, structure: Structure, version: int) -> list[Any]:
    """Our message as plain values, in the order of the table, without fields of our own."""
    values: list[Any] = []
    for f in structure.fields:
        if version not in f.versions or is_own(f):
            continue
        item = getattr(value, f.name)
        if f.is_structure and item is not None:
            inner = api.structures[f.type]
            if f.is_array:
                item = [plain(each, api, inner, version) for each in item]
            else:
                item = plain(item, api, inner, version)
        elif isinstance(item, memoryview):
            item = bytes(item)
        values.append(item)
    return values


def agree(ours: Any, theirs: Any) -> bool:
    """Whether two plain values say the same. Some values of ours have no other name there than None."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    return bool(ours == theirs) or (theirs is None and ours in _NONE_ELSEWHERE)


class KioOracle:
    """The library ``kio``: every API up to Kafka 4.2, one class per version."""

    def __init__(self, entity: Any) -> None:
        self._entity = entity
        self._read = entity_reader(entity)
        self._write = entity_writer(entity)

    @staticmethod
    @cache
    def find(module: str, kind: str, version: int) -> "KioOracle | None":
        name = module.replace("kraft", "k_raft")
        try:
            types = {"request": EntityType.request, "response": EntityType.response}
            entity = load_entity_schema(name, version, types.get(kind, EntityType.data))
        except UnknownEntity:
            return None
        return KioOracle(entity)

    def decode(self, data: bytes) -> Any:
        value, size = self._read(data, 0)
        assert size == len(data)
        return value

    def encode(self, value: Any) -> bytes:
        out = io.BytesIO()
        self._write(out, value)
        return out.getvalue()

    def plain(self, value: Any) -> Any:
        if is_dataclass(value):
            return [self.plain(getattr(value, f.name)) for f in dataclass_fields(value)]
        match value:
            case tuple():
                return [self.plain(item) for item in value]
            case datetime.timedelta():
                return value // _MILLISECOND
            case datetime.datetime():
                return (value - _EPOCH) // _MILLISECOND
            case enum.Enum():
                return value.value
            case _:
                return value


class KafkaPythonOracle:
    """The library ``kafka-python``: the APIs that its client and admin use, from the schemas of Kafka 4.x."""

    def __init__(self, message: Any, version: int) -> None:
        self._message = message
        self._version = version

    @staticmethod
    @cache
    def find(name: str, kind: str, version: int) -> "KafkaPythonOracle | None":
        message = _kafka_python_classes().get(name + kind.title())
        if message is None or version > message.max_version:
            return None
        return KafkaPythonOracle(message, version)

    def decode(self, data: bytes) -> Any:
        return self._message.decode(data, version=self._version)

    def encode(self, value: Any) -> bytes:
        value._header = None  # decoding leaves it out, encoding asks for it
        return bytes(value.encode(version=self._version))

    def plain(self, value: Any) -> Any:
        if isinstance(value, _data_container.DataContainer):
            return [
                self.plain(getattr(value, f.name))
                for f in value._struct._fields
                if f.for_version_q(self._version)
            ]
        match value:
            case list() | tuple():
                return [self.plain(item) for item in value]
            case set() | frozenset():  # of operations, made from the bits of a number
                bits = sum(1 << int(item) for item in value)
                return bits - (1 << 32) if bits >= 1 << 31 else bits
            case memoryview():
                return bytes(value)
            case enum.Enum():
                return value.value
            case _:
                return value


@cache
def _kafka_python_classes() -> dict[str, Any]:
    return {message.__name__: message for message in _api_message.ApiMessage.__subclasses__()}
