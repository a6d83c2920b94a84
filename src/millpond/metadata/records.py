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
from millpond.base.kafka_encoding import (
    I8,
    I16,
    I32,
    I64,
    NO_TAGS,
    Reader,
    compact_string,
    nullable_compact_string,
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
from millpond.metadata.families import (
    NO_FAMILIES,
    VERSION,
    Families,
    FamilyRecord,
    get_family_record,
    put_family_record,
)
from millpond.metadata.node_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    FeatureLevels,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    get_fence_broker,
    get_register_broker,
    get_register_controller,
    get_registration_change,
    get_unfence_broker,
    get_unregister_broker,
    put_register_broker,
    put_register_controller,
    put_registration_change,
    put_unregister_broker,
)
from millpond.metadata.partition_records import (
    LEADER_UNCHANGED,
    LOST_DIRECTORY,
    NO_DIRECTORY,
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    PartitionChangeRecord,
    PartitionRecord,
    get_partition,
    get_partition_change,
    is_reserved_directory,
    put_partition,
    put_partition_change,
)

__all__ = [
    "FRAME_VERSION",
    "LEADER_UNCHANGED",
    "LOST_DIRECTORY",
    "NO_DIRECTORY",
    "NO_LEADER",
    "RESOURCE_BROKER",
    "RESOURCE_BROKER_LOGGER",
    "RESOURCE_CLIENT_METRICS",
    "RESOURCE_GROUP",
    "RESOURCE_TOPIC",
    "UNASSIGNED_DIRECTORY",
    "BrokerEndpoint",
    "BrokerRegistrationChangeRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "FamilyRecord",
    "FeatureLevelRecord",
    "FeatureLevels",
    "MetadataRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "decode_record",
    "encode_record",
    "is_reserved_directory",
]

FRAME_VERSION = 1

# Kafka's ConfigResource types, kept in ConfigRecord.
RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic exists (type 2)."""

    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A setting of a topic or broker was set, or removed when ``value`` is None (type 4)."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord:
    """Nothing changed (type 20): shows that the log moves on."""


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
    | UnregisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | RegisterControllerRecord
    | FamilyRecord
    | NoOpRecord
)


def encode_record(record: MetadataRecord) -> bytes:
    """The value of the log record that keeps this fact."""
    out = bytearray()
    match record:
        case RegisterBrokerRecord():
            _put_frame(out, 0, 3)
            put_register_broker(out, record)
        case TopicRecord():
            _put_frame(out, 2, 0)
            _put_topic(out, record)
        case PartitionRecord():
            _put_frame(out, 3, record.version)
            put_partition(out, record)
        case ConfigRecord():
            _put_frame(out, 4, 0)
            _put_config(out, record)
        case PartitionChangeRecord():
            _put_frame(out, 5, record.version)
            put_partition_change(out, record)
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
        case UnregisterBrokerRecord():
            _put_frame(out, 1, 0)
            put_unregister_broker(out, record)
        case BrokerRegistrationChangeRecord():
            _put_frame(out, 17, 2)
            put_registration_change(out, record)
        case RegisterControllerRecord():
            _put_frame(out, 27, 0)
            put_register_controller(out, record)
        case FamilyRecord():
            _put_frame(out, record.type, VERSION)
            put_family_record(out, record)
        case NoOpRecord():
            _put_frame(out, 20, 0)
            out += NO_TAGS
        case _:
            assert_never(record)
    return bytes(out)


def decode_record(value: bytes | memoryview, families: Families = NO_FAMILIES) -> MetadataRecord:
    """Read what ``encode_record`` (or Kafka) wrote. ``CorruptLog`` when it cannot be read."""
    reader = Reader(value)
    try:
        frame = reader.unsigned()
        kind = reader.unsigned()
        version = reader.unsigned()
        if frame != FRAME_VERSION:
            raise CorruptLog(f"metadata record frame version {frame} is not known")
        decoder = _DECODERS.get(kind)
        family = families.of_type(kind) if decoder is None else None
        if family is not None:
            return get_family_record(family, kind, reader)
        if decoder is None:
            raise CorruptLog(
                f"metadata record type {kind} is not known: a newer version of Millpond wrote it; use that"
            )
        return decoder(reader, version)
    except (MalformedData, struct.error, IndexError, UnicodeDecodeError) as error:
        raise CorruptLog(f"metadata record cannot be read: {error}") from error


# --- writing ------------------------------------------------------------------------------------


def _put_frame(out: bytearray, kind: int, version: int) -> None:
    out += encode_unsigned(FRAME_VERSION)
    out += encode_unsigned(kind)
    out += encode_unsigned(version)


def _put_topic(out: bytearray, record: TopicRecord) -> None:
    out += compact_string(record.name)
    out += record.topic_id.bytes
    out += NO_TAGS


def _put_config(out: bytearray, record: ConfigRecord) -> None:
    out += I8.pack(record.resource_type)
    out += compact_string(record.resource_name)
    out += compact_string(record.name)
    out += nullable_compact_string(record.value)
    out += NO_TAGS


def _put_remove_topic(out: bytearray, record: RemoveTopicRecord) -> None:
    out += record.topic_id.bytes
    out += NO_TAGS


def _put_feature_level(out: bytearray, record: FeatureLevelRecord) -> None:
    out += compact_string(record.name)
    out += I16.pack(record.feature_level)
    out += NO_TAGS


def _put_producer_ids(out: bytearray, record: ProducerIdsRecord) -> None:
    out += I32.pack(record.broker_id)
    out += I64.pack(record.broker_epoch)
    out += I64.pack(record.next_producer_id)
    out += NO_TAGS


# --- reading ------------------------------------------------------------------------------------


def _get_topic(reader: Reader, _version: int) -> TopicRecord:
    return TopicRecord(name=reader.compact_string(), topic_id=reader.uuid())


def _get_config(reader: Reader, _version: int) -> ConfigRecord:
    return ConfigRecord(
        resource_type=reader.int8(),
        resource_name=reader.compact_string(),
        name=reader.compact_string(),
        value=reader.nullable_compact_string(),
    )


def _get_remove_topic(reader: Reader, _version: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=reader.uuid())


def _get_feature_level(reader: Reader, _version: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=reader.compact_string(), feature_level=reader.int16())


def _get_producer_ids(reader: Reader, _version: int) -> ProducerIdsRecord:
    return ProducerIdsRecord(
        broker_id=reader.int32(),
        broker_epoch=reader.int64(),
        next_producer_id=reader.int64(),
    )


_DECODERS: dict[int, Callable[[Reader, int], MetadataRecord]] = {
    0: get_register_broker,
    1: get_unregister_broker,
    2: _get_topic,
    3: get_partition,
    4: _get_config,
    5: get_partition_change,
    7: get_fence_broker,
    8: get_unfence_broker,
    9: _get_remove_topic,
    11: get_user_scram,
    12: _get_feature_level,
    14: get_client_quota,
    15: _get_producer_ids,
    17: get_registration_change,
    20: lambda _reader, _version: NoOpRecord(),
    22: get_remove_user_scram,
    27: get_register_controller,
}
