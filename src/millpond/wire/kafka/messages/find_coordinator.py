"""FindCoordinator request and response (api 10), versions 0-6.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    NOT_GIVEN,
    pack_compact_count,
    pack_compact_string,
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_nullable_string,
    read_string,
    skip_tags,
    unencodable,
)

_b = Struct(">b")
_pack_b, _unpack_b = _b.pack, _b.unpack_from
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class FindCoordinatorRequest(Message):
    __slots__ = ("key", "key_type", "coordinator_keys")

    def __init__(
        self,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] = NOT_GIVEN,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys: list[str] = [] if coordinator_keys is NOT_GIVEN else coordinator_keys


class Coordinator(Message):
    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")

    def __init__(
        self,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators: list[Coordinator] = [] if coordinators is NOT_GIVEN else coordinators


def encode_find_coordinator_request(m: FindCoordinatorRequest, version: int) -> bytes:
    try:
        flexible = version >= 3
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version <= 3:
            add(string_(m.key))
        if version >= 1:
            add(_pack_b(m.key_type))
        if version >= 4:
            values_1 = m.coordinator_keys
            add(count_(len(values_1)))
            for text in values_1:
                add(string_(text))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("FindCoordinatorRequest", version, error) from error


def decode_find_coordinator_request(data: memoryview, version: int) -> FindCoordinatorRequest:
    try:
        flexible = version >= 3
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version <= 3:
            key, p = string_(data, p)
        else:
            key = ""
        if version >= 1:
            (key_type,) = _unpack_b(data, p)
            p += 1
        else:
            key_type = 0
        coordinator_keys: list[str]
        if version >= 4:
            count, p = count_(data, p, 1)
            coordinator_keys = []
            for _ in range(count):
                item, p = string_(data, p)
                coordinator_keys.append(item)
        else:
            coordinator_keys = []
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return FindCoordinatorRequest(key, key_type, coordinator_keys)
    except DECODE_ERRORS as error:
        raise malformed("FindCoordinatorRequest", version, error) from None


def encode_find_coordinator_response(m: FindCoordinatorResponse, version: int) -> bytes:
    try:
        flexible = version >= 3
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 4:
            add(_pack_i(m.throttle_time_ms))
        elif version >= 1:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        else:
            add(_pack_h(m.error_code))
        if 1 <= version <= 3:
            add(nullable_string_(m.error_message))
        if version <= 3:
            add(_pack_i(m.node_id))
            add(string_(m.host))
            add(_pack_i(m.port))
        if version >= 4:
            values_1 = m.coordinators
            add(count_(len(values_1)))
            for m_2 in values_1:
                add(string_(m_2.key))
                add(_pack_i(m_2.node_id))
                add(string_(m_2.host))
                add(_pack_ih(m_2.port, m_2.error_code))
                add(nullable_string_(m_2.error_message))
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("FindCoordinatorResponse", version, error) from error


def decode_find_coordinator_response(data: memoryview, version: int) -> FindCoordinatorResponse:
    try:
        flexible = version >= 3
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 4:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
            error_code = 0
        elif version >= 1:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
        else:
            (error_code,) = _unpack_h(data, p)
            p += 2
            throttle_time_ms = 0
        error_message: str | None
        if 1 <= version <= 3:
            error_message, p = nullable_string_(data, p)
        else:
            error_message = ""
        if version <= 3:
            (node_id,) = _unpack_i(data, p)
            p += 4
            host, p = string_(data, p)
            (port,) = _unpack_i(data, p)
            p += 4
        else:
            node_id = 0
            host = ""
            port = 0
        coordinators: list[Coordinator]
        if version >= 4:
            count, p = count_(data, p, 14)
            coordinators = []
            for _ in range(count):
                key_1, p = string_(data, p)
                (node_id_1,) = _unpack_i(data, p)
                p += 4
                host_1, p = string_(data, p)
                port_1, error_code_1 = _unpack_ih(data, p)
                p += 6
                error_message_1, p = nullable_string_(data, p)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                coordinators.append(Coordinator(key_1, node_id_1, host_1, port_1, error_code_1, error_message_1))
        else:
            coordinators = []
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return FindCoordinatorResponse(throttle_time_ms, error_code, error_message, node_id, host, port, coordinators)
    except DECODE_ERRORS as error:
        raise malformed("FindCoordinatorResponse", version, error) from None
