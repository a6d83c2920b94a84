"""The facts that the cluster agrees on, one record each, in Kafka's own metadata record encoding.

A record's value is a frame: frame version, record type and record version as unsigned varints, then
the fields in the flexible encoding (compact strings and arrays, a tagged section at the end). So
Kafka's dump tool reads our ``__cluster_metadata-0``, and its own metadata log would read here.
Unknown tagged fields are skipped; an unknown record type is an error, since state built without it
would be wrong.

Pure: bytes in, facts out. Knows nothing of the log that keeps them.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, assert_never
from uuid import UUID

from millpond.base.errors import CorruptLog, MalformedData
from millpond.base.flexible import (
    I8,
    I16,
    I32,
    I64,
    U16,
    Reader,
    put_ints,
    put_string,
    put_tags,
    put_uuids,
)
from millpond.base.varint import encode_unsigned
from millpond.metadata.client_records import (
    ClientQuotaRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    get_client_quota,
    get_remove_user_scram,
    get_user_scram,
    put_client_quota,
    put_remove_user_scram,
    put_user_scram,
)

FRAME_VERSION = 1

NO_LEADER = -1
LEADER_UNCHANGED = -2

# Each replica chooses its directory itself; Kafka calls it "unassigned".
NO_DIRECTORY = UUID(int=0)

# Kafka's ConfigResource types, kept in ConfigRecord.
RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """Where a broker can be reached, by listener name. Security protocol 0 is PLAINTEXT."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker joined (type 0, version 3)."""

    broker_id: int
    incarnation_id: UUID
    broker_epoch: int
    end_points: tuple[BrokerEndpoint, ...] = ()
    rack: str | None = None
    fenced: bool = False
    log_dirs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic exists (type 2)."""

    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition exists (type 3, version 1)."""

    partition_id: int
    topic_id: UUID
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A setting of a topic or broker was set, or removed when ``value`` is None (type 4)."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A partition has a new leader or in-sync set (type 5, version 1). None and -2 mean unchanged.

    A leader given, even the same one, starts a new leader epoch.
    """

    partition_id: int
    topic_id: UUID
    isr: tuple[int, ...] | None = None
    leader: int = LEADER_UNCHANGED


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic and its partitions are gone (type 9)."""

    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """A feature of the cluster is at this level (type 12)."""

    name: str
    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """Every producer id below ``next_producer_id`` has been handed out in blocks (type 15)."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | ClientQuotaRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
)


def encode_record(record: MetadataRecord) -> bytes:
    """The value of the log record that keeps this fact."""
    out = bytearray()
    match record:
        case RegisterBrokerRecord():
            _put_frame(out, 0, 3)
            _put_register_broker(out, record)
        case TopicRecord():
            _put_frame(out, 2, 0)
            _put_topic(out, record)
        case PartitionRecord():
            _put_frame(out, 3, 1)
            _put_partition(out, record)
        case ConfigRecord():
            _put_frame(out, 4, 0)
            _put_config(out, record)
        case PartitionChangeRecord():
            _put_frame(out, 5, 1)
            _put_partition_change(out, record)
        case RemoveTopicRecord():
            _put_frame(out, 9, 0)
            _put_remove_topic(out, record)
        case FeatureLevelRecord():
            _put_frame(out, 12, 0)
            _put_feature_level(out, record)
        case ProducerIdsRecord():
            _put_frame(out, 15, 0)
            _put_producer_ids(out, record)
        case ClientQuotaRecord():
            _put_frame(out, 14, 0)
            put_client_quota(out, record)
        case UserScramCredentialRecord():
            _put_frame(out, 11, 0)
            put_user_scram(out, record)
        case RemoveUserScramCredentialRecord():
            _put_frame(out, 22, 0)
            put_remove_user_scram(out, record)
        case _:
            assert_never(record)
    return bytes(out)


def decode_record(value: bytes | memoryview) -> MetadataRecord:
    """Read what ``encode_record`` (or Kafka) wrote. ``CorruptLog`` when it cannot be read."""
    reader = Reader(memoryview(value))
    try:
        frame = reader.unsigned()
        kind = reader.unsigned()
        version = reader.unsigned()
        if frame != FRAME_VERSION:
            raise CorruptLog(f"metadata record frame version {frame} is not known")
        decoder = _DECODERS.get(kind)
        if decoder is None:
            raise CorruptLog(f"metadata record type {kind} is not known")
        return decoder(reader, version)
    except (MalformedData, struct.error, IndexError, UnicodeDecodeError) as error:
        raise CorruptLog(f"metadata record cannot be read: {error}") from error


# --- writing ------------------------------------------------------------------------------------


def _put_frame(out: bytearray, kind: int, version: int) -> None:
    out += encode_unsigned(FRAME_VERSION)
    out += encode_unsigned(kind)
    out += encode_unsigned(version)


def _put_register_broker(out: bytearray, record: RegisterBrokerRecord) -> None:
    out += I32.pack(record.broker_id)
    out.append(0)  # is_migrating_zk_broker
    out += record.incarnation_id.bytes
    out += I64.pack(record.broker_epoch)
    out += encode_unsigned(len(record.end_points) + 1)
    for end_point in record.end_points:
        put_string(out, end_point.name)
        put_string(out, end_point.host)
        out += U16.pack(end_point.port)
        out += I16.pack(end_point.security_protocol)
        put_tags(out, [])
    out += encode_unsigned(1)  # no features
    put_string(out, record.rack)
    out.append(record.fenced)
    out.append(0)  # in_controlled_shutdown
    tags = []
    if record.log_dirs:
        data = bytearray()
        put_uuids(data, record.log_dirs)
        tags.append((0, bytes(data)))
    put_tags(out, tags)


def _put_topic(out: bytearray, record: TopicRecord) -> None:
    put_string(out, record.name)
    out += record.topic_id.bytes
    put_tags(out, [])


def _put_partition(out: bytearray, record: PartitionRecord) -> None:
    out += I32.pack(record.partition_id)
    out += record.topic_id.bytes
    put_ints(out, record.replicas)
    put_ints(out, record.isr)
    put_ints(out, ())  # removing_replicas
    put_ints(out, ())  # adding_replicas
    out += I32.pack(record.leader)
    out += I32.pack(record.leader_epoch)
    out += I32.pack(record.partition_epoch)
    put_uuids(out, record.directories)
    put_tags(out, [])


def _put_config(out: bytearray, record: ConfigRecord) -> None:
    out += I8.pack(record.resource_type)
    put_string(out, record.resource_name)
    put_string(out, record.name)
    put_string(out, record.value)
    put_tags(out, [])


def _put_partition_change(out: bytearray, record: PartitionChangeRecord) -> None:
    out += I32.pack(record.partition_id)
    out += record.topic_id.bytes
    tags = []
    if record.isr is not None:
        data = bytearray()
        put_ints(data, record.isr)
        tags.append((0, bytes(data)))
    if record.leader != LEADER_UNCHANGED:
        tags.append((1, I32.pack(record.leader)))
    put_tags(out, tags)


def _put_remove_topic(out: bytearray, record: RemoveTopicRecord) -> None:
    out += record.topic_id.bytes
    put_tags(out, [])


def _put_feature_level(out: bytearray, record: FeatureLevelRecord) -> None:
    put_string(out, record.name)
    out += I16.pack(record.feature_level)
    put_tags(out, [])


def _put_producer_ids(out: bytearray, record: ProducerIdsRecord) -> None:
    out += I32.pack(record.broker_id)
    out += I64.pack(record.broker_epoch)
    out += I64.pack(record.next_producer_id)
    put_tags(out, [])


# --- reading ------------------------------------------------------------------------------------


def _get_register_broker(reader: Reader, version: int) -> RegisterBrokerRecord:
    broker_id = reader.number(I32)
    if version >= 2:
        reader.flag()  # is_migrating_zk_broker
    incarnation_id = reader.uuid()
    broker_epoch = reader.number(I64)
    end_points = []
    for _ in range(reader.unsigned() - 1):
        name, host = reader.string(), reader.string()
        port, security = reader.number(U16), reader.number(I16)
        reader.tags()
        end_points.append(
            BrokerEndpoint(name=name, host=host, port=port, security_protocol=security)
        )
    for _ in range(reader.unsigned() - 1):  # features
        reader.string()
        reader.number(I16)
        reader.number(I16)
        reader.tags()
    rack = reader.nullable_string()
    fenced = reader.flag()
    if version >= 1:
        reader.flag()  # in_controlled_shutdown
    log_dirs = reader.tags().get(0)
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=incarnation_id,
        broker_epoch=broker_epoch,
        end_points=tuple(end_points),
        rack=rack,
        fenced=fenced,
        log_dirs=log_dirs.uuids() if log_dirs is not None else (),
    )


def _get_topic(reader: Reader, _version: int) -> TopicRecord:
    return TopicRecord(name=reader.string(), topic_id=reader.uuid())


def _get_partition(reader: Reader, version: int) -> PartitionRecord:
    partition_id = reader.number(I32)
    topic_id = reader.uuid()
    replicas, isr = reader.ints(), reader.ints()
    reader.ints()  # removing_replicas
    reader.ints()  # adding_replicas
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=reader.number(I32),
        leader_epoch=reader.number(I32),
        partition_epoch=reader.number(I32),
        directories=reader.uuids() if version >= 1 else (),
    )


def _get_config(reader: Reader, _version: int) -> ConfigRecord:
    return ConfigRecord(
        resource_type=reader.number(I8),
        resource_name=reader.string(),
        name=reader.string(),
        value=reader.nullable_string(),
    )


def _get_partition_change(reader: Reader, _version: int) -> PartitionChangeRecord:
    partition_id = reader.number(I32)
    topic_id = reader.uuid()
    tags = reader.tags()
    isr, leader = tags.get(0), tags.get(1)
    return PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        isr=isr.ints() if isr is not None else None,
        leader=leader.number(I32) if leader is not None else LEADER_UNCHANGED,
    )


def _get_remove_topic(reader: Reader, _version: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=reader.uuid())


def _get_feature_level(reader: Reader, _version: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=reader.string(), feature_level=reader.number(I16))


def _get_producer_ids(reader: Reader, _version: int) -> ProducerIdsRecord:
    return ProducerIdsRecord(
        broker_id=reader.number(I32),
        broker_epoch=reader.number(I64),
        next_producer_id=reader.number(I64),
    )


_DECODERS: dict[int, Callable[[Reader, int], MetadataRecord]] = {
    0: _get_register_broker,
    2: _get_topic,
    3: _get_partition,
    4: _get_config,
    5: _get_partition_change,
    9: _get_remove_topic,
    11: get_user_scram,
    12: _get_feature_level,
    14: get_client_quota,
    15: _get_producer_ids,
    22: get_remove_user_scram,
}
