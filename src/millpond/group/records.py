"""Records of ``__consumer_offsets``: what all of them have in common, and those of committed offsets.

Every record is a key and a value that each begin with a 16-bit version, in Kafka's own schemas. Key versions
0 and 1 name an offset of a group; each kind of group has its own (``kinds`` finds the kind by the version). A
missing value is a tombstone. We write what Kafka 4.3 writes (offsets in version 4 with the topic's id, or
version 1 when the commit carries its own expiry) and read all versions.
"""

import functools
import struct
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from millpond.base import limits
from millpond.base.kafka_encoding import Reader, compact_string, string

OFFSET_KEY_VERSION = 1
OFFSET_KEY_VERSIONS = frozenset({0, 1})
OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1

NO_TOPIC_ID = UUID(int=0)

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_VALUE_HEAD = struct.Struct(">hqi")
_EMPTY_COMPACT_STRING = b"\x01"


class GroupRecord:
    """A record that a group, or the offsets of a group, leave in the log."""

    __slots__ = ()

    group_id: str

    def notice(self) -> "Notice | None":
        """Return what the node's log shall say when this record has been written."""
        return None


class Notice(NamedTuple):
    """A line for the operators of a node."""

    text: str
    # Whether it is only of interest while debugging.
    is_detail: bool = False


# What a notice says of a group whose records are deleted.
GONE = "deleted, or of another kind from now on"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """How far a group has read in one partition, with what it noted beside it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = -1
    expires_at_ms: int | None = None
    topic_id: UUID = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitted(GroupRecord):
    """A group has read a partition up to here."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPended(GroupRecord):
    """A group will have read a partition up to here, if this producer's transaction commits.

    In the log it is the record of a committed offset in a transactional batch; a marker ends it.
    """

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEnded:
    """A producer's transaction has ended: its pending offsets of this group count, or are dropped."""

    group_id: str
    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForgotten(GroupRecord):
    """A group's position in a partition is gone."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRecord:
    """A record of a kind of group that this version does not keep; left where it is."""

    key_version: int


OffsetRecord: TypeAlias = OffsetCommitted | OffsetPended | OffsetForgotten


def encode_offset(record: OffsetRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and its value, None for a tombstone."""
    if isinstance(record, OffsetForgotten):
        return _offset_key(record), None
    return _offset_key(record), _offset_value(record.value)


def decode_offset(key: Reader, value: bytes | None) -> OffsetCommitted | OffsetForgotten:
    """Read a record back; ``key`` is behind its version. Raises ``MalformedData``."""
    group_id, topic, partition = key.string(), key.string(), key.int32()
    if value is None:
        return OffsetForgotten(group_id=group_id, topic=topic, partition=partition)
    committed = _decode_offset_value(Reader(value))
    return OffsetCommitted(group_id=group_id, topic=topic, partition=partition, value=committed)


# --- writing --------------------------------------------------------------------------------------


def _offset_key(record: OffsetRecord) -> bytes:
    return _offset_key_start(record.group_id, record.topic) + _INT32.pack(record.partition)


@functools.lru_cache(maxsize=limits.OFFSET_KEYS_CACHED)
def _offset_key_start(group_id: str, topic: str) -> bytes:
    """The same for all partitions of a topic, and for every commit that comes after."""
    return struct.pack(">h", OFFSET_KEY_VERSION) + string(group_id) + string(topic)


def _offset_value(value: CommittedOffset) -> bytes:
    if value.expires_at_ms is not None:
        return b"".join(
            (
                struct.pack(">hq", OFFSET_VALUE_VERSION_WITH_EXPIRY, value.offset),
                string(value.metadata),
                struct.pack(">qq", value.committed_at_ms, value.expires_at_ms),
            )
        )
    tags = b"\x00"
    if value.topic_id != NO_TOPIC_ID:
        tags = b"\x01\x00\x10" + value.topic_id.bytes  # one tagged field: tag 0, 16 bytes
    metadata = compact_string(value.metadata) if value.metadata else _EMPTY_COMPACT_STRING
    head = _OFFSET_VALUE_HEAD.pack(OFFSET_VALUE_VERSION, value.offset, value.leader_epoch)
    return head + metadata + _INT64.pack(value.committed_at_ms) + tags


# --- reading --------------------------------------------------------------------------------------


def _decode_offset_value(reader: Reader) -> CommittedOffset:
    version = reader.version(0, 4, of="an offset")
    flexible = version >= 4
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if flexible else reader.string()
    committed_at_ms = reader.int64()
    expires_at_ms = reader.int64() if version == 1 else -1
    topic_id = NO_TOPIC_ID
    if flexible:
        tagged = reader.tagged_fields()
        if len(tagged.get(0, b"")) == 16:
            topic_id = UUID(bytes=tagged[0])
    return CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        committed_at_ms=committed_at_ms,
        expires_at_ms=None if expires_at_ms == -1 else expires_at_ms,
        topic_id=topic_id,
    )
