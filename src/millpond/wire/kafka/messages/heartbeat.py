"""Heartbeat request and response (api 12), versions 0-4.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    pack_compact_string,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_string,
    read_compact_string,
    read_nullable_compact_string,
    read_nullable_string,
    read_string,
    skip_tags,
    unencodable,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class HeartbeatRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


def encode_heartbeat_request(m: HeartbeatRequest, version: int) -> bytes:
    try:
        flexible = version >= 4
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(string_(m.group_id))
        add(_pack_i(m.generation_id))
        add(string_(m.member_id))
        if version >= 3:
            add(nullable_string_(m.group_instance_id))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("HeartbeatRequest", version, error) from error


def decode_heartbeat_request(data: memoryview, version: int) -> HeartbeatRequest:
    try:
        flexible = version >= 4
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        group_id, p = string_(data, p)
        (generation_id,) = _unpack_i(data, p)
        p += 4
        member_id, p = string_(data, p)
        group_instance_id: str | None
        if version >= 3:
            group_instance_id, p = nullable_string_(data, p)
        else:
            group_instance_id = None
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return HeartbeatRequest(group_id, generation_id, member_id, group_instance_id)
    except DECODE_ERRORS as error:
        raise malformed("HeartbeatRequest", version, error) from None


def encode_heartbeat_response(m: HeartbeatResponse, version: int) -> bytes:
    try:
        flexible = version >= 4
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        else:
            add(_pack_h(m.error_code))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("HeartbeatResponse", version, error) from error


def decode_heartbeat_response(data: memoryview, version: int) -> HeartbeatResponse:
    try:
        flexible = version >= 4
        p = 0
        if version >= 1:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
        else:
            (error_code,) = _unpack_h(data, p)
            p += 2
            throttle_time_ms = 0
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return HeartbeatResponse(throttle_time_ms, error_code)
    except DECODE_ERRORS as error:
        raise malformed("HeartbeatResponse", version, error) from None
