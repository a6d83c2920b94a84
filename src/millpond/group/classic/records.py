"""Records of classic groups in ``__consumer_offsets``, in Kafka's schemas.

A group is one record: its last stable or empty generation. We write version 3, as Kafka 4.3 does, and read
all versions.
"""

import struct
from dataclasses import dataclass
from typing import TypeAlias

from millpond.base.kafka_encoding import Reader, nullable_string, string
from millpond.group.records import GONE, GroupRecord, Notice

GROUP_KEY_VERSION = 2
GROUP_VALUE_VERSION = 3


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
class GroupStored(GroupRecord):
    """A generation of a group: stable with these members, or empty."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_ms: int
    members: tuple[StoredMember, ...] = ()

    def notice(self) -> Notice | None:
        if self.generation <= 0:
            return None
        return Notice(
            f"group={self.group_id} generation={self.generation}: stored with "
            f"{len(self.members)} members"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForgotten(GroupRecord):
    """The group is gone."""

    group_id: str

    def notice(self) -> Notice:
        return Notice(f"group={self.group_id}: {GONE}")


ClassicRecord: TypeAlias = GroupStored | GroupForgotten


def encode(record: ClassicRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and its value, None for a tombstone."""
    key = struct.pack(">h", GROUP_KEY_VERSION) + string(record.group_id)
    return key, None if isinstance(record, GroupForgotten) else _group_value(record)


def decode(version: int, key: Reader, value: bytes | None) -> ClassicRecord:
    """Read a record back; ``key`` is behind its version. Raises ``MalformedData``."""
    assert version == GROUP_KEY_VERSION
    group_id = key.string()
    if value is None:
        return GroupForgotten(group_id=group_id)
    return _decode_group_value(group_id, Reader(value))


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
