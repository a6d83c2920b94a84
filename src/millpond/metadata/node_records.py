"""Facts about nodes: who registered, who may serve, who was forgotten. In Kafka's own record encoding."""

from dataclasses import dataclass
from uuid import UUID

from millpond.base.kafka_encoding import (
    I8,
    I16,
    I32,
    I64,
    NO_TAGS,
    U16,
    Reader,
    compact_string,
    compact_uuids,
    nullable_compact_string,
    tagged,
)
from millpond.base.varint import encode_unsigned


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """Where a broker can be reached, by listener name. Security protocol 0 is PLAINTEXT."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevels:
    """The levels of one feature that a node understands."""

    name: str
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker joined (type 0, version 3). A fenced broker is known but serves no client yet."""

    broker_id: int
    incarnation_id: UUID
    broker_epoch: int
    end_points: tuple[BrokerEndpoint, ...] = ()
    rack: str | None = None
    fenced: bool = False
    log_dirs: tuple[UUID, ...] = ()
    features: tuple[FeatureLevels, ...] = ()
    in_controlled_shutdown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    """A broker is not coming back (type 1)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """A broker is fenced, unfenced, or about to stop (type 17, version 2). None means unchanged."""

    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    # A broker leaves this state only by registering again.
    in_controlled_shutdown: bool = False
    # Those of its directories that are online.
    log_dirs: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord:
    """A controller said where it is and what it understands (type 27)."""

    controller_id: int
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[FeatureLevels, ...] = ()


# --- writing ------------------------------------------------------------------------------------


def put_register_broker(out: bytearray, record: RegisterBrokerRecord) -> None:
    """Write the fields."""
    out += I32.pack(record.broker_id)
    out.append(0)  # is_migrating_zk_broker
    out += record.incarnation_id.bytes
    out += I64.pack(record.broker_epoch)
    _put_end_points(out, record.end_points)
    _put_features(out, record.features)
    out += nullable_compact_string(record.rack)
    out.append(record.fenced)
    out.append(record.in_controlled_shutdown)
    out += tagged(*_uuids_tag(0, record.log_dirs or None))


def put_unregister_broker(out: bytearray, record: UnregisterBrokerRecord) -> None:
    """Write the fields."""
    out += I32.pack(record.broker_id)
    out += I64.pack(record.broker_epoch)
    out += NO_TAGS


def put_registration_change(out: bytearray, record: BrokerRegistrationChangeRecord) -> None:
    """Write the fields."""
    out += I32.pack(record.broker_id)
    out += I64.pack(record.broker_epoch)
    tags = []
    if record.fenced is not None:
        tags.append((0, I8.pack(1 if record.fenced else -1)))
    if record.in_controlled_shutdown:
        tags.append((1, I8.pack(1)))
    out += tagged(*tags, *_uuids_tag(2, record.log_dirs))


def put_register_controller(out: bytearray, record: RegisterControllerRecord) -> None:
    """Write the fields."""
    out += I32.pack(record.controller_id)
    out += record.incarnation_id.bytes
    out.append(0)  # zk_migration_ready
    _put_end_points(out, record.end_points)
    _put_features(out, record.features)
    out += NO_TAGS


def _put_end_points(out: bytearray, end_points: tuple[BrokerEndpoint, ...]) -> None:
    out += encode_unsigned(len(end_points) + 1)
    for end_point in end_points:
        out += compact_string(end_point.name)
        out += compact_string(end_point.host)
        out += U16.pack(end_point.port)
        out += I16.pack(end_point.security_protocol)
        out += NO_TAGS


def _put_features(out: bytearray, features: tuple[FeatureLevels, ...]) -> None:
    out += encode_unsigned(len(features) + 1)
    for one in features:
        out += compact_string(one.name)
        out += I16.pack(one.lowest)
        out += I16.pack(one.highest)
        out += NO_TAGS


def _uuids_tag(tag: int, values: tuple[UUID, ...] | None) -> list[tuple[int, bytes]]:
    if values is None:
        return []
    return [(tag, compact_uuids(values))]


# --- reading ------------------------------------------------------------------------------------


def get_register_broker(reader: Reader, version: int) -> RegisterBrokerRecord:
    """Read the fields."""
    broker_id = reader.int32()
    if version >= 2:
        reader.boolean()  # is_migrating_zk_broker
    incarnation_id = reader.uuid()
    broker_epoch = reader.int64()
    end_points, features = _get_end_points(reader), _get_features(reader)
    rack = reader.nullable_compact_string()
    fenced = reader.boolean()
    stopping = reader.boolean() if version >= 1 else False
    log_dirs = reader.tagged_fields().get(0)
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=incarnation_id,
        broker_epoch=broker_epoch,
        end_points=end_points,
        rack=rack,
        fenced=fenced,
        log_dirs=Reader(log_dirs).compact_uuids() if log_dirs is not None else (),
        features=features,
        in_controlled_shutdown=stopping,
    )


def get_unregister_broker(reader: Reader, _version: int) -> UnregisterBrokerRecord:
    """Read the fields."""
    return UnregisterBrokerRecord(broker_id=reader.int32(), broker_epoch=reader.int64())


def get_registration_change(reader: Reader, _version: int) -> BrokerRegistrationChangeRecord:
    """Read the fields."""
    broker_id, broker_epoch = reader.int32(), reader.int64()
    tags = reader.tagged_fields()
    fencing = Reader(tags[0]).int8() if 0 in tags else 0
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        fenced=None if fencing == 0 else fencing > 0,
        in_controlled_shutdown=1 in tags and Reader(tags[1]).int8() == 1,
        log_dirs=Reader(tags[2]).compact_uuids() if 2 in tags else None,
    )


def get_fence_broker(reader: Reader, _version: int) -> BrokerRegistrationChangeRecord:
    """Read the fields of the older form of fencing (type 7)."""
    return BrokerRegistrationChangeRecord(
        broker_id=reader.int32(), broker_epoch=reader.int64(), fenced=True
    )


def get_unfence_broker(reader: Reader, _version: int) -> BrokerRegistrationChangeRecord:
    """Read the fields of the older form of unfencing (type 8)."""
    return BrokerRegistrationChangeRecord(
        broker_id=reader.int32(), broker_epoch=reader.int64(), fenced=False
    )


def get_register_controller(reader: Reader, _version: int) -> RegisterControllerRecord:
    """Read the fields."""
    controller_id, incarnation_id = reader.int32(), reader.uuid()
    reader.boolean()  # zk_migration_ready
    return RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        end_points=_get_end_points(reader),
        features=_get_features(reader),
    )


def _get_end_points(reader: Reader) -> tuple[BrokerEndpoint, ...]:
    end_points = []
    for _ in range(reader.array_length()):
        name, host = reader.compact_string(), reader.compact_string()
        port, security = reader.uint16(), reader.int16()
        reader.tagged_fields()
        end_points.append(
            BrokerEndpoint(name=name, host=host, port=port, security_protocol=security)
        )
    return tuple(end_points)


def _get_features(reader: Reader) -> tuple[FeatureLevels, ...]:
    features = []
    for _ in range(reader.array_length()):
        name, lowest, highest = reader.compact_string(), reader.int16(), reader.int16()
        reader.tagged_fields()
        features.append(FeatureLevels(name=name, lowest=lowest, highest=highest))
    return tuple(features)
