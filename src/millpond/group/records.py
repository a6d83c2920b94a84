"""The facts that groups leave in ``__consumer_offsets``, in Kafka's own record schemas.

Every record is a key and a value that each begin with a 16-bit version. Key versions 0 and 1 name an
offset of a group, 2 names a classic group; those of consumer groups are in ``consumer_records``, those of
streams groups in ``streams_records``, the rest belong to other group types and are skipped by name. A missing
value is a tombstone. We write what Kafka 4.3 writes (offsets in version 4 with the topic's id, or version 1
when the commit carries its own expiry; groups in version 3) and read all of them.
"""

import functools
import struct
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from millpond.base import limits
from millpond.base.schema import Reader, compact_string, nullable_string, string
from millpond.group import consumer_records, streams_records
from millpond.group.consumer_records import CONSUMER_KEY_VERSIONS, ConsumerRecord
from millpond.group.streams_records import STREAMS_KEY_VERSIONS, StreamsRecord

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3

NO_TOPIC_ID = UUID(int=0)

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_VALUE_HEAD = struct.Struct(">hqi")
_EMPTY_COMPACT_STRING = b"\x01"


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
class StoredMember:
    """What survives of a member: enough to go on with it after a restart."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitted:
    """A group has read a partition up to here."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPended:
    """A group will have read a partition up to here, if this producer's transaction commits."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEnded:
    """A producer's transaction has ended: its pending positions of this group count, or never were."""

    group_id: str
    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForgotten:
    """A group's position in a partition is gone."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStored:
    """A generation of a group: stable with these members, or empty."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_ms: int
    members: tuple[StoredMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForgotten:
    """The group is gone."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRecord:
    """A record of a kind of group that this version does not keep; left where it is."""

    key_version: int


# A pended position is the record of a committed one in a transactional batch; its end is a marker.
GroupRecord: TypeAlias = (
    OffsetCommitted
    | OffsetPended
    | OffsetForgotten
    | GroupStored
    | GroupForgotten
    | ConsumerRecord
    | StreamsRecord
)


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The key and the value (None for a tombstone) that say this fact."""
    match record:
        case OffsetCommitted() | OffsetPended():
            return _offset_key(record), _offset_value(record.value)
        case OffsetForgotten():
            return _offset_key(record), None
        case GroupStored():
            return _group_key(record.group_id), _group_value(record)
        case GroupForgotten():
            return _group_key(record.group_id), None
        case (
            streams_records.StreamsGroupStored()
            | streams_records.StreamsMemberStored()
            | streams_records.StreamsTargetEpochStored()
            | streams_records.StreamsTargetStored()
            | streams_records.StreamsCurrentStored()
            | streams_records.TopologyStored()
            | streams_records.StreamsForgotten()
        ):
            return streams_records.encode(record)
        case _:
            return consumer_records.encode(record)


def decode(key: bytes, value: bytes | None) -> GroupRecord | ForeignRecord:
    """Read a fact back. MalformedData if the bytes cannot be one."""
    reader = Reader(key)
    version = reader.int16()
    if version in {0, 1}:
        group_id, topic, partition = reader.string(), reader.string(), reader.int32()
        if value is None:
            return OffsetForgotten(group_id=group_id, topic=topic, partition=partition)
        committed = _decode_offset_value(Reader(value))
        return OffsetCommitted(group_id=group_id, topic=topic, partition=partition, value=committed)
    if version == GROUP_KEY_VERSION:
        group_id = reader.string()
        if value is None:
            return GroupForgotten(group_id=group_id)
        return _decode_group_value(group_id, Reader(value))
    if version in CONSUMER_KEY_VERSIONS:
        return consumer_records.decode(version, reader, value)
    if version in STREAMS_KEY_VERSIONS:
        return streams_records.decode(version, reader, value)
    return ForeignRecord(key_version=version)


# --- writing --------------------------------------------------------------------------------------


def _offset_key(record: OffsetCommitted | OffsetPended | OffsetForgotten) -> bytes:
    return _offset_key_start(record.group_id, record.topic) + _INT32.pack(record.partition)


@functools.lru_cache(maxsize=limits.OFFSET_KEYS_CACHED)
def _offset_key_start(group_id: str, topic: str) -> bytes:
    """The same for all partitions of a topic, and for every commit that comes after."""
    return struct.pack(">h", OFFSET_KEY_VERSION) + string(group_id) + string(topic)


def _group_key(group_id: str) -> bytes:
    return struct.pack(">h", GROUP_KEY_VERSION) + string(group_id)


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


def _group_value(record: GroupStored) -> bytes:
    parts = [
        struct.pack(">h", GROUP_VALUE_VERSION),
        string(record.protocol_type),
        struct.pack(">i", record.generation),
        nullable_string(record.protocol),
        nullable_string(record.leader),
        struct.pack(">qi", record.state_since_ms, len(record.members)),
    ]
    for member in record.members:
        parts += (
            string(member.member_id),
            nullable_string(member.instance_id),
            string(member.client_id),
            string(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            struct.pack(">i", len(member.subscription)),
            member.subscription,
            struct.pack(">i", len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


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


def _decode_group_value(group_id: str, reader: Reader) -> GroupStored:
    version = reader.version(0, 4, of="a group")
    flexible = version >= 4
    protocol_type = (reader.compact_string if flexible else reader.string)()
    generation = reader.int32()
    nullable = reader.nullable_compact_string if flexible else reader.nullable_string
    protocol, leader = nullable(), nullable()
    state_since_ms = reader.int64() if version >= 2 else -1
    count = reader.compact_length() if flexible else reader.int32()
    members = tuple(_decode_member(reader, version) for _ in range(count))
    if flexible:
        reader.tagged_fields()
    return GroupStored(
        group_id=group_id,
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        state_since_ms=state_since_ms,
        members=members,
    )


def _decode_member(reader: Reader, version: int) -> StoredMember:
    flexible = version >= 4
    string = reader.compact_string if flexible else reader.string
    nullable = reader.nullable_compact_string if flexible else reader.nullable_string
    data = reader.compact_bytes if flexible else reader.sized_bytes
    member_id = string()
    instance_id = nullable() if version >= 3 else None
    client_id, client_host = string(), string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription, assignment = data(), data()
    if flexible:
        reader.tagged_fields()
    return StoredMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        # Before version 1 there was one time-out for both.
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms
        ),
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )
