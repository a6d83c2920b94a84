"""ControllerRegistration request and response (api 70), versions 0.

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
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    skip_tags,
    unencodable,
    uuid_of,
)

_Hh = Struct(">Hh")
_pack_Hh, _unpack_Hh = _Hh.pack, _Hh.unpack_from
_hh = Struct(">hh")
_pack_hh, _unpack_hh = _hh.pack, _hh.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_iuo = Struct(">i16s?")
_pack_iuo, _unpack_iuo = _iuo.pack, _iuo.unpack_from


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


class ControllerRegistrationRequest(Message):
    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "listeners", "features")

    def __init__(
        self,
        controller_id: int = 0,
        incarnation_id: UUID = NO_ID,
        zk_migration_ready: bool = False,
        listeners: list[Listener] = NOT_GIVEN,
        features: list[Feature] = NOT_GIVEN,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners: list[Listener] = [] if listeners is NOT_GIVEN else listeners
        self.features: list[Feature] = [] if features is NOT_GIVEN else features


class ControllerRegistrationResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


def encode_controller_registration_request(m: ControllerRegistrationRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_iuo(m.controller_id, m.incarnation_id.bytes, m.zk_migration_ready))
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
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ControllerRegistrationRequest", version, error) from error


def decode_controller_registration_request(data: memoryview, version: int) -> ControllerRegistrationRequest:
    try:
        p = 0
        controller_id, incarnation_id, zk_migration_ready = _unpack_iuo(data, p)
        p += 21
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
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ControllerRegistrationRequest(controller_id, incarnation_id, zk_migration_ready, listeners, features)
    except DECODE_ERRORS as error:
        raise malformed("ControllerRegistrationRequest", version, error) from None


def encode_controller_registration_response(m: ControllerRegistrationResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ControllerRegistrationResponse", version, error) from error


def decode_controller_registration_response(data: memoryview, version: int) -> ControllerRegistrationResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ControllerRegistrationResponse(throttle_time_ms, error_code, error_message)
    except DECODE_ERRORS as error:
        raise malformed("ControllerRegistrationResponse", version, error) from None
