"""BrokerRegistration request and response (api 62), versions 0-4.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct
from uuid import UUID

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    NO_ID,
    NOT_GIVEN,
    pack_compact_count,
    pack_compact_string,
    pack_nullable_compact_string,
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    read_tag,
    read_uuids,
    read_uvarint,
    skip_tags,
    unencodable,
    uuid_of,
    wrong_tag_size,
)

_Hh = Struct(">Hh")
_pack_Hh, _unpack_Hh = _Hh.pack, _Hh.unpack_from
_hh = Struct(">hh")
_pack_hh, _unpack_hh = _hh.pack, _hh.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ihq = Struct(">ihq")
_pack_ihq, _unpack_ihq = _ihq.pack, _ihq.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class Listener(Message):
    __slots__ = ("name", "host", "port", "security_protocol")

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class Feature(Message):
    __slots__ = ("name", "min_supported_version", "max_supported_version")

    def __init__(
        self,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class BrokerRegistrationRequest(Message):
    __slots__ = ("broker_id", "cluster_id", "incarnation_id", "listeners", "features", "rack", "is_migrating_zk_broker", "log_dirs", "previous_broker_epoch", "previous_incarnations")

    def __init__(
        self,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: UUID = NO_ID,
        listeners: list[Listener] = NOT_GIVEN,
        features: list[Feature] = NOT_GIVEN,
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: list[UUID] = NOT_GIVEN,
        previous_broker_epoch: int = -1,
        previous_incarnations: list[UUID] = NOT_GIVEN,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners: list[Listener] = [] if listeners is NOT_GIVEN else listeners
        self.features: list[Feature] = [] if features is NOT_GIVEN else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs: list[UUID] = [] if log_dirs is NOT_GIVEN else log_dirs
        self.previous_broker_epoch = previous_broker_epoch
        self.previous_incarnations: list[UUID] = [] if previous_incarnations is NOT_GIVEN else previous_incarnations


class BrokerRegistrationResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "broker_epoch")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.broker_epoch = broker_epoch


def encode_broker_registration_request(m: BrokerRegistrationRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.broker_id))
        add(pack_compact_string(m.cluster_id))
        add(_pack_u(m.incarnation_id.bytes))
        values_1 = m.listeners
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            add(pack_compact_string(m_2.host))
            add(_pack_Hh(m_2.port, m_2.security_protocol))
            add(b"\x00")
        values_3 = m.features
        add(pack_compact_count(len(values_3)))
        for m_4 in values_3:
            add(pack_compact_string(m_4.name))
            add(_pack_hh(m_4.min_supported_version, m_4.max_supported_version))
            add(b"\x00")
        add(pack_nullable_compact_string(m.rack))
        if version >= 1:
            add(_pack_o(m.is_migrating_zk_broker))
        if version >= 2:
            values_5 = m.log_dirs
            add(pack_compact_count(len(values_5)))
            add(b"".join([value.bytes for value in values_5]))
        if version >= 3:
            add(_pack_q(m.previous_broker_epoch))
        tags_6: list[tuple[int, bytes]] = []
        if version >= 3 and m.previous_incarnations:
            parts_7: list[BytesLike] = []
            add_7 = parts_7.append
            values_8 = m.previous_incarnations
            add_7(pack_compact_count(len(values_8)))
            add_7(b"".join([value.bytes for value in values_8]))
            tags_6.append((1000, b"".join(parts_7)))
        add(pack_tags(tags_6))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("BrokerRegistrationRequest", version, error) from error


def decode_broker_registration_request(data: memoryview, version: int) -> BrokerRegistrationRequest:
    try:
        p = 0
        (broker_id,) = _unpack_i(data, p)
        p += 4
        cluster_id, p = read_compact_string(data, p)
        (incarnation_id,) = _unpack_u(data, p)
        p += 16
        incarnation_id = uuid_of(incarnation_id)
        count, p = read_compact_count(data, p, 7)
        listeners: list[Listener] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            host_1, p = read_compact_string(data, p)
            port_1, security_protocol_1 = _unpack_Hh(data, p)
            p += 4
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            listeners.append(Listener(name_1, host_1, port_1, security_protocol_1))
        count, p = read_compact_count(data, p, 6)
        features: list[Feature] = []
        for _ in range(count):
            name_2, p = read_compact_string(data, p)
            min_supported_version_2, max_supported_version_2 = _unpack_hh(data, p)
            p += 4
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            features.append(Feature(name_2, min_supported_version_2, max_supported_version_2))
        rack, p = read_nullable_compact_string(data, p)
        if version >= 1:
            is_migrating_zk_broker = data[p] != 0
            p += 1
        else:
            is_migrating_zk_broker = False
        log_dirs: list[UUID]
        if version >= 2:
            count, p = read_compact_count(data, p, 16)
            log_dirs, p = read_uuids(data, p, count)
        else:
            log_dirs = []
        if version >= 3:
            (previous_broker_epoch,) = _unpack_q(data, p)
            p += 8
        else:
            previous_broker_epoch = -1
        previous_incarnations: list[UUID] = []
        if data[p] == 0:
            p += 1
        else:
            tag_count, p = read_uvarint(data, p)
            for _ in range(tag_count):
                tag, p, stop = read_tag(data, p)
                if tag == 1000 and version >= 3:
                    count, p = read_compact_count(data, p, 16)
                    previous_incarnations, p = read_uuids(data, p, count)
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                p = stop
        return BrokerRegistrationRequest(broker_id, cluster_id, incarnation_id, listeners, features, rack, is_migrating_zk_broker, log_dirs, previous_broker_epoch, previous_incarnations)
    except DECODE_ERRORS as error:
        raise malformed("BrokerRegistrationRequest", version, error) from None


def encode_broker_registration_response(m: BrokerRegistrationResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ihq(m.throttle_time_ms, m.error_code, m.broker_epoch))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("BrokerRegistrationResponse", version, error) from error


def decode_broker_registration_response(data: memoryview, version: int) -> BrokerRegistrationResponse:
    try:
        p = 0
        throttle_time_ms, error_code, broker_epoch = _unpack_ihq(data, p)
        p += 14
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return BrokerRegistrationResponse(throttle_time_ms, error_code, broker_epoch)
    except DECODE_ERRORS as error:
        raise malformed("BrokerRegistrationResponse", version, error) from None
