"""SyncGroup request and response (api 14), versions 0-5.

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
    pack_compact_size,
    pack_compact_string,
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_size,
    pack_string,
    read_bytes,
    read_compact_bytes,
    read_compact_count,
    read_compact_string,
    read_count,
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


class SyncGroupRequestAssignment(Message):
    __slots__ = ("member_id", "assignment")

    def __init__(
        self,
        member_id: str = "",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name", "assignments")

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments: list[SyncGroupRequestAssignment] = [] if assignments is NOT_GIVEN else assignments


class SyncGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


def encode_sync_group_request(m: SyncGroupRequest, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        size_ = pack_compact_size if flexible else pack_size
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(string_(m.group_id))
        add(_pack_i(m.generation_id))
        add(string_(m.member_id))
        if version >= 3:
            add(nullable_string_(m.group_instance_id))
        if version >= 5:
            add(nullable_string_(m.protocol_type))
            add(nullable_string_(m.protocol_name))
        values_1 = m.assignments
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.member_id))
            value_3 = m_2.assignment
            add(size_(value_3))
            add(value_3)
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("SyncGroupRequest", version, error) from error


def decode_sync_group_request(data: memoryview, version: int) -> SyncGroupRequest:
    try:
        flexible = version >= 4
        bytes_ = read_compact_bytes if flexible else read_bytes
        count_ = read_compact_count if flexible else read_count
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
        protocol_type: str | None
        protocol_name: str | None
        if version >= 5:
            protocol_type, p = nullable_string_(data, p)
            protocol_name, p = nullable_string_(data, p)
        else:
            protocol_type = None
            protocol_name = None
        count, p = count_(data, p, 3)
        assignments: list[SyncGroupRequestAssignment] = []
        for _ in range(count):
            member_id_1, p = string_(data, p)
            assignment_1, p = bytes_(data, p)
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            assignments.append(SyncGroupRequestAssignment(member_id_1, assignment_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return SyncGroupRequest(group_id, generation_id, member_id, group_instance_id, protocol_type, protocol_name, assignments)
    except DECODE_ERRORS as error:
        raise malformed("SyncGroupRequest", version, error) from None


def encode_sync_group_response(m: SyncGroupResponse, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        size_ = pack_compact_size if flexible else pack_size
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        else:
            add(_pack_h(m.error_code))
        if version >= 5:
            add(nullable_string_(m.protocol_type))
            add(nullable_string_(m.protocol_name))
        value_1 = m.assignment
        add(size_(value_1))
        add(value_1)
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("SyncGroupResponse", version, error) from error


def decode_sync_group_response(data: memoryview, version: int) -> SyncGroupResponse:
    try:
        flexible = version >= 4
        bytes_ = read_compact_bytes if flexible else read_bytes
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        p = 0
        if version >= 1:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
        else:
            (error_code,) = _unpack_h(data, p)
            p += 2
            throttle_time_ms = 0
        protocol_type: str | None
        protocol_name: str | None
        if version >= 5:
            protocol_type, p = nullable_string_(data, p)
            protocol_name, p = nullable_string_(data, p)
        else:
            protocol_type = None
            protocol_name = None
        assignment, p = bytes_(data, p)
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return SyncGroupResponse(throttle_time_ms, error_code, protocol_type, protocol_name, assignment)
    except DECODE_ERRORS as error:
        raise malformed("SyncGroupResponse", version, error) from None
