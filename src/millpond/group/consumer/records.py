"""Records of consumer groups (KIP-848) in ``__consumer_offsets``, in Kafka 4.3's record schemas.

A group is many records: its epoch, each member's metadata, the epoch of the target assignment, each member's
target and each member's present assignment, and which topics each pattern stands for. A key's version says
which; a missing value is a tombstone.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias
from uuid import UUID

from millpond.base.errors import MalformedData
from millpond.base.kafka_encoding import (
    NO_TAGS,
    Reader,
    compact_array,
    compact_bytes,
    compact_string,
    nullable_compact_string,
    tagged,
)
from millpond.group.epoch_records import (
    VALUE_VERSION,
    EpochStored,
    TargetsMade,
    Tombstone,
    dated_part_value,
    epoch_value,
    part_value,
    read_dated_part,
    read_epoch,
    read_part,
    record_key,
)
from millpond.group.records import GroupRecord

# Topic → partitions that a member shall have.
Target: TypeAlias = Mapping[UUID, frozenset[int]]
# Topic → partition → the epoch at which the member was given it.
Holding: TypeAlias = Mapping[UUID, Mapping[int, int]]
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]


class FactKind(IntEnum):
    """The types of records; each is the version of its key."""

    GROUP = 3
    PARTITIONS = 4
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    PATTERN = 16


class MemberState(IntEnum):
    """How far a member has come towards its target."""

    STABLE = 0
    UNREVOKED = 1
    UNRELEASED = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberInfo:
    """What a member of the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: Protocols


class ConsumerGroupStored(EpochStored):
    """The group's epoch, and a hash of its topics then."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsStored(GroupRecord):
    """Before Kafka 4.1: what the group's topics looked like. Only that it is there matters."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStored(GroupRecord):
    """A member's metadata: what it reads, and how it can be reached."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberInfo | None = None


class TargetEpochStored(TargetsMade):
    """The group epoch for which the targets were made, and when."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStored(GroupRecord):
    """The target of a member."""

    group_id: str
    member_id: str
    partitions: Target = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentStored(GroupRecord):
    """A member's assignment, the partitions it must give up, and its epoch."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: MemberState = MemberState.STABLE
    assigned: Holding = field(default_factory=dict)
    revoking: Holding = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternStored(GroupRecord):
    """The topics that a pattern matched when they were last looked up."""

    group_id: str
    pattern: str
    topics: frozenset[str]
    version: int
    resolved_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FactForgotten(Tombstone):
    """A tombstone of a record of a member, of a pattern or of the group."""

    group_id: str
    kind: FactKind
    name: str = ""

    @property
    def ends_group(self) -> bool:
        return self.kind is FactKind.GROUP


ConsumerRecord: TypeAlias = (
    ConsumerGroupStored
    | PartitionsStored
    | MemberStored
    | TargetEpochStored
    | TargetStored
    | CurrentStored
    | PatternStored
    | FactForgotten
)

CONSUMER_KEY_VERSIONS = frozenset(FactKind)

# Types of records that have only the group's name as their key.
_OF_GROUP = {FactKind.GROUP, FactKind.PARTITIONS, FactKind.TARGET_EPOCH}


def encode(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and its value, None for a tombstone."""
    match record:
        case ConsumerGroupStored():
            value = epoch_value(record.epoch, record.metadata_hash)
            return record_key(FactKind.GROUP, record.group_id), value
        case PartitionsStored():
            raise AssertionError("only tombstones of this kind are written")
        case MemberStored():
            key = record_key(FactKind.MEMBER, record.group_id, record.member_id)
            return key, VALUE_VERSION + _member_value(record)
        case TargetEpochStored():
            value = epoch_value(record.epoch, record.made_at_ms)
            return record_key(FactKind.TARGET_EPOCH, record.group_id), value
        case TargetStored():
            key = record_key(FactKind.TARGET, record.group_id, record.member_id)
            topics = (
                part_value(topic_id.bytes, partitions)
                for topic_id, partitions in record.partitions.items()
            )
            return key, VALUE_VERSION + compact_array(topics) + NO_TAGS
        case CurrentStored():
            key = record_key(FactKind.CURRENT, record.group_id, record.member_id)
            head = struct.pack(">iib", record.epoch, record.previous_epoch, record.state)
            value = head + _holding(record.assigned) + _holding(record.revoking) + NO_TAGS
            return key, VALUE_VERSION + value
        case PatternStored():
            key = record_key(FactKind.PATTERN, record.group_id, record.pattern)
            names = compact_array(map(compact_string, sorted(record.topics)))
            times = struct.pack(">qq", record.version, record.resolved_at_ms)
            return key, VALUE_VERSION + names + times + NO_TAGS
        case FactForgotten():
            if record.kind in _OF_GROUP:
                return record_key(record.kind, record.group_id), None
            return record_key(record.kind, record.group_id, record.name), None


def decode(version: int, key: Reader, value: bytes | None) -> ConsumerRecord:
    """Read a record back; ``key`` is behind its version. Raises ``MalformedData``."""
    kind = FactKind(version)
    group_id = key.string()
    name = "" if kind in _OF_GROUP else key.string()
    if value is None:
        return FactForgotten(group_id=group_id, kind=kind, name=name)
    reader = Reader(value)
    reader.version(0, 0, of="a consumer group")
    match kind:
        case FactKind.GROUP:
            epoch, number = read_epoch(reader)
            return ConsumerGroupStored(group_id=group_id, epoch=epoch, metadata_hash=number)
        case FactKind.PARTITIONS:
            return PartitionsStored(group_id=group_id)
        case FactKind.MEMBER:
            return _read_member(group_id, name, reader)
        case FactKind.TARGET_EPOCH:
            epoch, number = read_epoch(reader)
            return TargetEpochStored(group_id=group_id, epoch=epoch, made_at_ms=number)
        case FactKind.TARGET:
            topics = reader.compact_array(lambda: read_part(reader, reader.uuid))
            return TargetStored(group_id=group_id, member_id=name, partitions=dict(topics))
        case FactKind.CURRENT:
            return _read_current(group_id, name, reader)
        case FactKind.PATTERN:
            names = reader.compact_array(reader.compact_string)
            return PatternStored(
                group_id=group_id,
                pattern=name,
                topics=frozenset(names),
                version=reader.int64(),
                resolved_at_ms=reader.int64(),
            )


# --- writing --------------------------------------------------------------------------------------


def _member_value(record: MemberStored) -> bytes:
    if record.classic is None:
        # Kafka takes a missing field for empty metadata, so that there is none must be written.
        classic = b"\x00"
    else:
        protocols = compact_array(
            compact_string(name) + compact_bytes(metadata) + NO_TAGS
            for name, metadata in record.classic.protocols
        )
        timeout = struct.pack(">i", record.classic.session_timeout_ms)
        classic = b"\x01" + timeout + protocols + NO_TAGS
    return b"".join(
        (
            nullable_compact_string(record.instance_id),
            nullable_compact_string(record.rack_id),
            compact_string(record.client_id),
            compact_string(record.client_host),
            compact_array(map(compact_string, sorted(record.topics))),
            nullable_compact_string(record.pattern),
            struct.pack(">i", record.rebalance_timeout_ms),
            nullable_compact_string(record.assignor),
            tagged((0, classic)),
        )
    )


def _holding(holding: Holding) -> bytes:
    return compact_array(
        dated_part_value(topic_id.bytes, epochs) for topic_id, epochs in holding.items()
    )


# --- reading --------------------------------------------------------------------------------------


def _read_member(group_id: str, member_id: str, reader: Reader) -> MemberStored:
    record = MemberStored(
        group_id=group_id,
        member_id=member_id,
        instance_id=reader.nullable_compact_string(),
        rack_id=reader.nullable_compact_string(),
        client_id=reader.compact_string(),
        client_host=reader.compact_string(),
        topics=frozenset(reader.compact_array(reader.compact_string)),
        pattern=reader.nullable_compact_string(),
        rebalance_timeout_ms=reader.int32(),
        assignor=reader.nullable_compact_string(),
    )
    classic = reader.tagged_fields().get(0, b"\x00")
    if classic == b"\x00":
        return record
    return replace(record, classic=_read_classic(Reader(classic)))


def _read_classic(reader: Reader) -> ClassicMemberInfo:
    if reader.take(1) != b"\x01":
        raise MalformedData("a member's classic metadata is neither there nor missing")

    def protocol() -> tuple[str, bytes]:
        pair = reader.compact_string(), reader.compact_bytes()
        reader.tagged_fields()
        return pair

    session_timeout_ms = reader.int32()
    protocols = tuple(reader.compact_array(protocol))
    return ClassicMemberInfo(session_timeout_ms=session_timeout_ms, protocols=protocols)


def _read_current(group_id: str, member_id: str, reader: Reader) -> CurrentStored:
    epoch, previous_epoch = reader.int32(), reader.int32()
    number = reader.int8()
    known = number in frozenset(MemberState)
    return CurrentStored(
        group_id=group_id,
        member_id=member_id,
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=MemberState(number) if known else MemberState.UNKNOWN,
        assigned=_read_holding(reader, epoch),
        revoking=_read_holding(reader, epoch),
    )


def _read_holding(reader: Reader, epoch: int) -> Holding:
    dated = max(epoch, 0)
    return dict(reader.compact_array(lambda: read_dated_part(reader, reader.uuid, dated)))
