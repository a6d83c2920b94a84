"""A family of records of a protocol that Millpond does not have: numbers by name."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from millpond.base.errors import MalformedData
from millpond.metadata.families import RecordFamily
from millpond.metadata.levels import NEWEST

_NUMBER = struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSet:
    """A name has a number."""

    name: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberDeleted:
    """A name has none any more."""

    name: str


ToyFact: TypeAlias = NumberSet | NumberDeleted
Numbers: TypeAlias = Mapping[str, int]


def _encode(fact: ToyFact) -> bytes:
    match fact:
        case NumberSet():
            return _NUMBER.pack(fact.value) + fact.name.encode()
        case NumberDeleted():
            return fact.name.encode()


def _decode(kind: int, data: bytes) -> ToyFact:
    try:
        if kind == _SET:
            (value,) = _NUMBER.unpack_from(data)
            return NumberSet(name=data[_NUMBER.size :].decode(), value=value)
        return NumberDeleted(name=data.decode())
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedData(str(error)) from None


def _apply(numbers: Numbers, fact: ToyFact) -> Numbers:
    match fact:
        case NumberSet(name=name, value=value):
            return {**numbers, name: value}
        case NumberDeleted(name=gone):
            return {name: value for name, value in numbers.items() if name != gone}


def _diff(before: Numbers, after: Numbers) -> Iterator[ToyFact]:
    for name in before:
        if name not in after:
            yield NumberDeleted(name=name)
    for name, value in after.items():
        if before.get(name) != value:
            yield NumberSet(name=name, value=value)


_SET, _DELETED = 32_001, 32_002

TOY: Final[RecordFamily[ToyFact, Numbers]] = RecordFamily(
    name="toy",
    types=frozenset((_SET, _DELETED)),
    level=NEWEST,
    empty=MappingProxyType({}),
    type_of=lambda fact: _SET if isinstance(fact, NumberSet) else _DELETED,
    encode=_encode,
    decode=_decode,
    apply=_apply,
    diff=_diff,
)
