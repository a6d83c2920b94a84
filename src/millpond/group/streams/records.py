"""Records of streams groups (KIP-1071) in ``__consumer_offsets``, in Kafka 4.3's record schemas.

A group is many records, as a consumer group's is: its epoch, its topology, each member's description of
itself, the epoch of the targets, each member's target tasks and each member's present ones. A key's version
says which.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from millpond.base import varint
from millpond.base.errors import GroupError, MalformedData
from millpond.base.kafka_encoding import (
    NO_TAGS,
    Reader,
    compact_array,
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
from millpond.group.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology

# Subtopology → numbers of tasks.
Tasks: TypeAlias = Mapping[str, frozenset[int]]
# Subtopology → number of a task → the epoch in which the member was given it.
DatedTasks: TypeAlias = Mapping[str, Mapping[int, int]]


_NO_TASKS: Tasks = MappingProxyType({})
_NO_DATED_TASKS: DatedTasks = MappingProxyType({})


class TaskSet(NamedTuple):
    """Tasks that run, those that only follow their state, and those that catch up with it."""

    active: Tasks = _NO_TASKS
    standby: Tasks = _NO_TASKS
    warmup: Tasks = _NO_TASKS


class HeldTasks(NamedTuple):
    """The same, with the epochs of those that run."""

    active: DatedTasks = _NO_DATED_TASKS
    standby: Tasks = _NO_TASKS
    warmup: Tasks = _NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def undated(self) -> TaskSet:
        active = {part: frozenset(dated) for part, dated in self.active.items()}
        return TaskSet(active, self.standby, self.warmup)


NO_TASKS = TaskSet()
NOTHING_HELD = HeldTasks()


class StreamsKind(IntEnum):
    """The types of records; each is the version of its key."""

    GROUP = 17
    MEMBER = 19
    TARGET_EPOCH = 20
    TARGET = 21
    CURRENT = 22
    TOPOLOGY = 23


class TaskState(IntEnum):
    """How far a member has come towards its target."""

    STABLE = 1
    UNREVOKED = 2
    UNRELEASED = 3
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupStored(EpochStored):
    """The group's epoch, a hash of its topics then, and the topology that they fit (or -1)."""

    validated_epoch: int = -1
    # What the assignor was told, by name.
    assignment_configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMemberStored(GroupRecord):
    """What a member says of itself."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    # Where the application answers questions about its state.
    endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()


class StreamsTargetEpochStored(TargetsMade):
    """The group epoch for which the targets were made, and when."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsTargetStored(GroupRecord):
    """The target of a member."""

    group_id: str
    member_id: str
    tasks: TaskSet = NO_TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsCurrentStored(GroupRecord):
    """A member's tasks, those that it must give up, and its epoch."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: TaskState = TaskState.STABLE
    assigned: HeldTasks = NOTHING_HELD
    revoking: HeldTasks = NOTHING_HELD


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyStored(GroupRecord):
    """The topology of the application."""

    group_id: str
    topology: Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsForgotten(Tombstone):
    """A tombstone of a record of a member or of the group."""

    group_id: str
    kind: StreamsKind
    name: str = ""

    @property
    def ends_group(self) -> bool:
        return self.kind is StreamsKind.GROUP


StreamsRecord: TypeAlias = (
    StreamsGroupStored
    | StreamsMemberStored
    | StreamsTargetEpochStored
    | StreamsTargetStored
    | StreamsCurrentStored
    | TopologyStored
    | StreamsForgotten
)

STREAMS_KEY_VERSIONS = frozenset(StreamsKind)

_OF_MEMBER = {StreamsKind.MEMBER, StreamsKind.TARGET, StreamsKind.CURRENT}

# Before an object that may be missing.
_THERE, _MISSING = b"\x01", b"\xff"


def encode(record: StreamsRecord) -> tuple[bytes, bytes | None]:
    """Return the record's key and its value, None for a tombstone."""
    match record:
        case StreamsGroupStored():
            return record_key(StreamsKind.GROUP, record.group_id), VALUE_VERSION + _group_value(
                record
            )
        case StreamsMemberStored():
            key = record_key(StreamsKind.MEMBER, record.group_id, record.member_id)
            return key, VALUE_VERSION + _member_value(record)
        case StreamsTargetEpochStored():
            value = epoch_value(record.epoch, record.made_at_ms)
            return record_key(StreamsKind.TARGET_EPOCH, record.group_id), value
        case StreamsTargetStored():
            key = record_key(StreamsKind.TARGET, record.group_id, record.member_id)
            return key, VALUE_VERSION + b"".join(map(_tasks, record.tasks)) + NO_TAGS
        case StreamsCurrentStored():
            key = record_key(StreamsKind.CURRENT, record.group_id, record.member_id)
            head = struct.pack(">iib", record.epoch, record.previous_epoch, record.state)
            value = head + _held(record.assigned) + _held(record.revoking) + NO_TAGS
            return key, VALUE_VERSION + value
        case TopologyStored():
            key = record_key(StreamsKind.TOPOLOGY, record.group_id)
            return key, VALUE_VERSION + _topology_value(record.topology)
        case StreamsForgotten():
            if record.kind in _OF_MEMBER:
                return record_key(record.kind, record.group_id, record.name), None
            return record_key(record.kind, record.group_id), None


def decode(version: int, key: Reader, value: bytes | None) -> StreamsRecord:
    """Read a record back; ``key`` is behind its version. Raises ``MalformedData``."""
    kind = StreamsKind(version)
    group_id = key.string()
    name = key.string() if kind in _OF_MEMBER else ""
    if value is None:
        return StreamsForgotten(group_id=group_id, kind=kind, name=name)
    reader = Reader(value)
    reader.version(0, 0, of="a streams group")
    match kind:
        case StreamsKind.GROUP:
            return _read_group(group_id, reader)
        case StreamsKind.MEMBER:
            return _read_member(group_id, name, reader)
        case StreamsKind.TARGET_EPOCH:
            epoch, made_at_ms = read_epoch(reader)
            return StreamsTargetEpochStored(group_id=group_id, epoch=epoch, made_at_ms=made_at_ms)
        case StreamsKind.TARGET:
            tasks = TaskSet(*(_read_tasks(reader) for _ in range(3)))
            return StreamsTargetStored(group_id=group_id, member_id=name, tasks=tasks)
        case StreamsKind.CURRENT:
            return _read_current(group_id, name, reader)
        case StreamsKind.TOPOLOGY:
            return TopologyStored(group_id=group_id, topology=_read_topology(reader))


# --- writing --------------------------------------------------------------------------------------


def _pairs(pairs: Iterable[tuple[str, str]]) -> bytes:
    return compact_array(
        compact_string(key) + compact_string(value) + NO_TAGS for key, value in pairs
    )


def _strings(texts: Iterable[str]) -> bytes:
    return compact_array(map(compact_string, texts))


def _shorts(numbers: Iterable[int]) -> bytes:
    parts = list(numbers)
    return varint.encode_unsigned(len(parts) + 1) + struct.pack(f">{len(parts)}h", *parts)


def _group_value(record: StreamsGroupStored) -> bytes:
    tags = []
    if record.validated_epoch != -1:
        tags.append((0, struct.pack(">i", record.validated_epoch)))
    if record.assignment_configs:
        tags.append((1, _pairs(record.assignment_configs)))
    return struct.pack(">iq", record.epoch, record.metadata_hash) + tagged(*tags)


def _member_value(record: StreamsMemberStored) -> bytes:
    endpoint = _MISSING
    if record.endpoint is not None:
        host, port = record.endpoint
        endpoint = _THERE + compact_string(host) + struct.pack(">H", port) + NO_TAGS
    return b"".join(
        (
            nullable_compact_string(record.instance_id),
            nullable_compact_string(record.rack_id),
            compact_string(record.client_id),
            compact_string(record.client_host),
            struct.pack(">ii", record.rebalance_timeout_ms, record.topology_epoch),
            compact_string(record.process_id),
            endpoint,
            _pairs(record.client_tags),
            NO_TAGS,
        )
    )


def _tasks(tasks: Tasks) -> bytes:
    return compact_array(part_value(compact_string(part), tasks[part]) for part in sorted(tasks))


def _held(held: HeldTasks) -> bytes:
    return _dated(held.active) + _tasks(held.standby) + _tasks(held.warmup)


def _dated(tasks: DatedTasks) -> bytes:
    return compact_array(
        dated_part_value(compact_string(part), tasks[part]) for part in sorted(tasks)
    )


def _topology_value(topology: Topology) -> bytes:
    parts = compact_array(map(_subtopology, topology.subtopologies.values()))
    return struct.pack(">i", topology.epoch) + parts + NO_TAGS


def _subtopology(part: Subtopology) -> bytes:
    return b"".join(
        (
            compact_string(part.subtopology_id),
            _strings(part.sources),
            _strings(part.source_patterns),
            compact_array(map(_topic, part.changelogs)),
            _strings(part.repartition_sinks),
            compact_array(map(_topic, part.repartition_sources)),
            compact_array(map(_copartition_group, part.copartition_groups)),
            NO_TAGS,
        )
    )


def _topic(topic: InternalTopic) -> bytes:
    shape = struct.pack(">ih", topic.partitions, topic.replication_factor)
    return compact_string(topic.name) + shape + _pairs(topic.configs) + NO_TAGS


def _copartition_group(group: CopartitionGroup) -> bytes:
    lists = (group.sources, group.source_patterns, group.repartition_sources)
    return b"".join(map(_shorts, lists)) + NO_TAGS


# --- reading --------------------------------------------------------------------------------------


def _read_pairs(reader: Reader) -> tuple[tuple[str, str], ...]:
    def pair() -> tuple[str, str]:
        read = reader.compact_string(), reader.compact_string()
        reader.tagged_fields()
        return read

    return tuple(reader.compact_array(pair))


def _read_group(group_id: str, reader: Reader) -> StreamsGroupStored:
    epoch, metadata_hash, tags = reader.int32(), reader.int64(), reader.tagged_fields()
    return StreamsGroupStored(
        group_id=group_id,
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_epoch=Reader(tags[0]).int32() if 0 in tags else -1,
        assignment_configs=(
            _read_pairs(Reader(tags[1])) if tags.get(1, b"\x00") != b"\x00" else ()
        ),
    )


def _read_member(group_id: str, member_id: str, reader: Reader) -> StreamsMemberStored:
    return StreamsMemberStored(
        group_id=group_id,
        member_id=member_id,
        instance_id=reader.nullable_compact_string(),
        rack_id=reader.nullable_compact_string(),
        client_id=reader.compact_string(),
        client_host=reader.compact_string(),
        rebalance_timeout_ms=reader.int32(),
        topology_epoch=reader.int32(),
        process_id=reader.compact_string(),
        endpoint=_read_endpoint(reader),
        client_tags=_read_pairs(reader),
    )


def _read_endpoint(reader: Reader) -> tuple[str, int] | None:
    presence = reader.take(1)
    if presence == _MISSING:
        return None
    if presence != _THERE:
        raise MalformedData("a member's endpoint is neither there nor missing")
    host, port = reader.compact_string(), reader.uint16()
    reader.tagged_fields()
    return host, port


def _read_tasks(reader: Reader) -> Tasks:
    return dict(reader.compact_array(lambda: read_part(reader, reader.compact_string)))


def _read_dated(reader: Reader, epoch: int) -> DatedTasks:
    names = reader.compact_string
    return dict(reader.compact_array(lambda: read_dated_part(reader, names, epoch)))


def _read_held(reader: Reader, epoch: int) -> HeldTasks:
    return HeldTasks(_read_dated(reader, epoch), _read_tasks(reader), _read_tasks(reader))


def _read_current(group_id: str, member_id: str, reader: Reader) -> StreamsCurrentStored:
    epoch, previous_epoch = reader.int32(), reader.int32()
    number = reader.int8()
    return StreamsCurrentStored(
        group_id=group_id,
        member_id=member_id,
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=TaskState(number) if number in frozenset(TaskState) else TaskState.UNKNOWN,
        assigned=_read_held(reader, epoch),
        revoking=_read_held(reader, epoch),
    )


def _read_topology(reader: Reader) -> Topology:
    epoch = reader.int32()
    parts = reader.compact_array(lambda: _read_subtopology(reader))
    try:
        return Topology.of(epoch, parts)
    except GroupError as error:
        raise MalformedData(str(error)) from None


def _read_subtopology(reader: Reader) -> Subtopology:
    def texts() -> tuple[str, ...]:
        return tuple(reader.compact_array(reader.compact_string))

    def topics() -> tuple[InternalTopic, ...]:
        return tuple(reader.compact_array(lambda: _read_topic(reader)))

    part = Subtopology(
        subtopology_id=reader.compact_string(),
        sources=texts(),
        source_patterns=texts(),
        changelogs=topics(),
        repartition_sinks=texts(),
        repartition_sources=topics(),
        copartition_groups=tuple(reader.compact_array(lambda: _read_copartition_group(reader))),
    )
    reader.tagged_fields()
    return part


def _read_topic(reader: Reader) -> InternalTopic:
    topic = InternalTopic(
        name=reader.compact_string(),
        partitions=reader.int32(),
        replication_factor=reader.int16(),
        configs=_read_pairs(reader),
    )
    reader.tagged_fields()
    return topic


def _read_copartition_group(reader: Reader) -> CopartitionGroup:
    lists = [tuple(reader.compact_array(reader.int16)) for _ in range(3)]
    reader.tagged_fields()
    return CopartitionGroup(
        sources=lists[0], source_patterns=lists[1], repartition_sources=lists[2]
    )
