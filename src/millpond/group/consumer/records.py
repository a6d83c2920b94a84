"""Records of consumer groups (KIP-848) in ``__consumer_offsets``, in Kafka 4.3's record schemas.

A group is many records: its epoch, each member's metadata, the epoch of the target assignment, each member's
target and each member's present assignment, and which topics each pattern stands for. A key's version says
which; a missing value is a tombstone. Keys are in the older encoding, values in the flexible one.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias
from uuid import UUID

from millpond.base.errors import MalformedData
from millpond.base.kafka_encoding import (
    NO_TAGS,
    Reader,
    compact_array,
    compact_bytes,
    compact_int32s,
    compact_string,
    nullable_compact_string,
    string,
    tagged,
)
from millpond.group.records import GONE, GroupRecord, Notice

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupStored(GroupRecord):
    """The group's epoch, and a hash of its topics then."""

    group_id: str
    epoch: int
    metadata_hash: int = 0

    def notice(self) -> Notice:
        text = f"group={self.group_id} epoch={self.epoch}: members or topics changed"
        return Notice(text, is_detail=True)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochStored(GroupRecord):
    """The group epoch for which the targets were made, and when."""

    group_id: str
    epoch: int
    made_at_ms: int = 0

    def notice(self) -> Notice:
        return Notice(f"group={self.group_id} epoch={self.epoch}: new targets")


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
class FactForgotten(GroupRecord):
    """A tombstone of a record of a member, of a pattern or of the group."""

    group_id: str
    kind: FactKind
    name: str = ""

    def notice(self) -> Notice | None:
        if self.kind is not FactKind.GROUP:
            return None
        return Notice(f"group={self.group_id}: {GONE}")


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

_VERSION = b"\x00\x00"


def encode(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and its value, None for a tombstone."""
    match record:
        case ConsumerGroupStored():
            tags = (0, struct.pack(">q", record.metadata_hash)) if record.metadata_hash else None
            value = struct.pack(">i", record.epoch) + (tagged(tags) if tags else NO_TAGS)
            return _key(FactKind.GROUP, record.group_id), _VERSION + value
        case PartitionsStored():
            raise AssertionError("only tombstones of this kind are written")
        case MemberStored():
            key = _key(FactKind.MEMBER, record.group_id, record.member_id)
            return key, _VERSION + _member_value(record)
        case TargetEpochStored():
            tags = (0, struct.pack(">q", record.made_at_ms)) if record.made_at_ms else None
            value = struct.pack(">i", record.epoch) + (tagged(tags) if tags else NO_TAGS)
            return _key(FactKind.TARGET_EPOCH, record.group_id), _VERSION + value
        case TargetStored():
            key = _key(FactKind.TARGET, record.group_id, record.member_id)
            topics = (
                topic_id.bytes + compact_int32s(sorted(partitions)) + NO_TAGS
                for topic_id, partitions in record.partitions.items()
            )
            return key, _VERSION + compact_array(topics) + NO_TAGS
        case CurrentStored():
            key = _key(FactKind.CURRENT, record.group_id, record.member_id)
            head = struct.pack(">iib", record.epoch, record.previous_epoch, record.state)
            value = head + _holding(record.assigned) + _holding(record.revoking) + NO_TAGS
            return key, _VERSION + value
        case PatternStored():
            key = _key(FactKind.PATTERN, record.group_id, record.pattern)
            names = compact_array(map(compact_string, sorted(record.topics)))
            times = struct.pack(">qq", record.version, record.resolved_at_ms)
            return key, _VERSION + names + times + NO_TAGS
        case FactForgotten():
            if record.kind in _OF_GROUP:
                return _key(record.kind, record.group_id), None
            return _key(record.kind, record.group_id, record.name), None


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
            epoch, number = reader.int32(), _tagged_number(reader)
            return ConsumerGroupStored(group_id=group_id, epoch=epoch, metadata_hash=number)
        case FactKind.PARTITIONS:
            return PartitionsStored(group_id=group_id)
        case FactKind.MEMBER:
            return _read_member(group_id, name, reader)
        case FactKind.TARGET_EPOCH:
            epoch, number = reader.int32(), _tagged_number(reader)
            return TargetEpochStored(group_id=group_id, epoch=epoch, made_at_ms=number)
        case FactKind.TARGET:
            topics = reader.compact_array(lambda: _read_target(reader))
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


def _key(kind: FactKind, *names: str) -> bytes:
    return struct.pack(">h", kind) + b"".join(map(string, names))


def _member_value(record: MemberStored) -> bytes:
    if record.classic is None:
        # Kafka takes a missing field for an empty face: that there is none must be said.
        face = b"\x00"
    else:
        protocols = compact_array(
            compact_string(name) + compact_bytes(metadata) + NO_TAGS
            for name, metadata in record.classic.protocols
        )
        timeout = struct.pack(">i", record.classic.session_timeout_ms)
        face = b"\x01" + timeout + protocols + NO_TAGS
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
            tagged((0, face)),
        )
    )


def _holding(holding: Holding) -> bytes:
    return compact_array(_holding_items(holding))


def _holding_items(holding: Holding) -> Iterable[bytes]:
    for topic_id, epochs in holding.items():
        partitions = sorted(epochs)
        told = compact_int32s(epochs[partition] for partition in partitions)
        yield topic_id.bytes + compact_int32s(partitions) + tagged((0, told))


# --- reading --------------------------------------------------------------------------------------


def _tagged_number(reader: Reader) -> int:
    data = reader.tagged_fields().get(0)
    return 0 if data is None else Reader(data).int64()


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
    face = reader.tagged_fields().get(0, b"\x00")
    if face == b"\x00":
        return record
    classic = _read_face(Reader(face))
    return MemberStored(
        group_id=group_id,
        member_id=member_id,
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        topics=record.topics,
        pattern=record.pattern,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        assignor=record.assignor,
        classic=classic,
    )


def _read_face(reader: Reader) -> ClassicMemberInfo:
    if reader.take(1) != b"\x01":
        raise MalformedData("a member's classic metadata is neither there nor missing")

    def protocol() -> tuple[str, bytes]:
        pair = reader.compact_string(), reader.compact_bytes()
        reader.tagged_fields()
        return pair

    session_timeout_ms = reader.int32()
    protocols = tuple(reader.compact_array(protocol))
    return ClassicMemberInfo(session_timeout_ms=session_timeout_ms, protocols=protocols)


def _read_target(reader: Reader) -> tuple[UUID, frozenset[int]]:
    topic_id, partitions = reader.uuid(), reader.compact_int32s()
    reader.tagged_fields()
    return topic_id, frozenset(partitions)


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
        assigned=dict(reader.compact_array(lambda: _read_holding(reader, epoch))),
        revoking=dict(reader.compact_array(lambda: _read_holding(reader, epoch))),
    )


def _read_holding(reader: Reader, epoch: int) -> tuple[UUID, dict[int, int]]:
    topic_id, partitions = reader.uuid(), reader.compact_int32s()
    told = reader.tagged_fields().get(0)
    if told is not None and told != b"\x00":
        inner = Reader(told)
        epochs = inner.compact_int32s()
        if len(epochs) == len(partitions):
            return topic_id, dict(zip(partitions, epochs, strict=True))
    # Kafka before 4.3 did not write them.
    return topic_id, dict.fromkeys(partitions, max(epoch, 0))
