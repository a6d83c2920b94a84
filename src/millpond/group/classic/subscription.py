"""Parses and writes the messages of consumers inside the classic protocol.

They belong to the clients ("consumer" protocol type) and travel as bytes: a *subscription* with each join, an
*assignment* with each sync. Later versions only add fields at the end. The coordinator must know which topics
are read, and everything when a group goes over from one protocol to the other.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millpond.base.errors import MalformedData
from millpond.base.kafka_encoding import Reader, string

PROTOCOL_TYPE = "consumer"

_OWNED_FROM = 1
_GENERATION_FROM = 2
_RACK_FROM = 3
_VERSION_MAX = 3

_NO_USER_DATA = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The topics a consumer reads, the partitions it owns, and its rack."""

    version: int
    topics: frozenset[str]
    owned: Mapping[str, tuple[int, ...]]
    rack_id: str | None = None


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topic names in a subscription. MalformedData if it is not one."""
    reader = Reader(metadata)
    reader.int16()
    return _topics(reader)


def read_subscription(metadata: bytes) -> Subscription:
    """A whole subscription. MalformedData if it is not one."""
    reader = Reader(metadata)
    version = reader.int16()
    if version < 0:
        raise MalformedData(f"a subscription cannot have version {version}")
    topics = _topics(reader)
    _user_data(reader)
    owned = _partitions(reader) if version >= _OWNED_FROM else {}
    if version >= _GENERATION_FROM:
        reader.int32()
    rack_id = reader.nullable_string() if version >= _RACK_FROM else None
    return Subscription(
        version=min(version, _VERSION_MAX), topics=topics, owned=owned, rack_id=rack_id or None
    )


def read_assignment(data: bytes) -> tuple[dict[str, tuple[int, ...]], bytes]:
    """Partitions by topic, and what an assignor of the client's own added. MalformedData."""
    if not data:
        return {}, b""
    reader = Reader(data)
    if reader.int16() < 0:
        raise MalformedData("an assignment cannot have a negative version")
    return _partitions(reader), _user_data(reader)


def write_assignment(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    """An assignment in the version of the member's subscription."""
    parts = [struct.pack(">hi", version, len(partitions))]
    for topic, numbers in partitions.items():
        ordered = sorted(numbers)
        parts += (string(topic), struct.pack(f">i{len(ordered)}i", len(ordered), *ordered))
    return b"".join((*parts, _NO_USER_DATA))


def _topics(reader: Reader) -> frozenset[str]:
    return frozenset(reader.string() for _ in range(_count(reader)))


def _partitions(reader: Reader) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for _ in range(_count(reader)):
        topic = reader.string()
        found[topic] = tuple(reader.int32() for _ in range(_count(reader)))
    return found


def _user_data(reader: Reader) -> bytes:
    size = reader.int32()
    return b"" if size == -1 else reader.take(size)


def _count(reader: Reader) -> int:
    count = reader.int32()
    if not 0 <= count <= reader.size:
        raise MalformedData(f"a consumer's message cannot have {count} items")
    return count
