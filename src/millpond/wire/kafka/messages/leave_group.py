"""LeaveGroup request and response (api 13), versions 0-5.

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

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class MemberIdentity(Message):
    __slots__ = ("member_id", "group_instance_id", "reason")

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(Message):
    __slots__ = ("group_id", "member_id", "members")

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        members: list[MemberIdentity] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members: list[MemberIdentity] = [] if members is NOT_GIVEN else members


class MemberResponse(Message):
    __slots__ = ("member_id", "group_instance_id", "error_code")

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "members")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members: list[MemberResponse] = [] if members is NOT_GIVEN else members


def encode_leave_group_request(m: LeaveGroupRequest, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(string_(m.group_id))
        if version <= 2:
            add(string_(m.member_id))
        if version >= 3:
            values_1 = m.members
            add(count_(len(values_1)))
            for m_2 in values_1:
                add(string_(m_2.member_id))
                add(nullable_string_(m_2.group_instance_id))
                if version >= 5:
                    add(nullable_string_(m_2.reason))
                if flexible:
                    add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("LeaveGroupRequest", version, error) from error


def decode_leave_group_request(data: memoryview, version: int) -> LeaveGroupRequest:
    try:
        flexible = version >= 4
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        group_id, p = string_(data, p)
        if version <= 2:
            member_id, p = string_(data, p)
        else:
            member_id = ""
        members: list[MemberIdentity]
        if version >= 3:
            count, p = count_(data, p, 3)
            members = []
            for _ in range(count):
                member_id_1, p = string_(data, p)
                group_instance_id_1, p = nullable_string_(data, p)
                reason_1: str | None
                if version >= 5:
                    reason_1, p = nullable_string_(data, p)
                else:
                    reason_1 = None
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                members.append(MemberIdentity(member_id_1, group_instance_id_1, reason_1))
        else:
            members = []
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return LeaveGroupRequest(group_id, member_id, members)
    except DECODE_ERRORS as error:
        raise malformed("LeaveGroupRequest", version, error) from None


def encode_leave_group_response(m: LeaveGroupResponse, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        else:
            add(_pack_h(m.error_code))
        if version >= 3:
            values_1 = m.members
            add(count_(len(values_1)))
            for m_2 in values_1:
                add(string_(m_2.member_id))
                add(nullable_string_(m_2.group_instance_id))
                add(_pack_h(m_2.error_code))
                if flexible:
                    add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("LeaveGroupResponse", version, error) from error


def decode_leave_group_response(data: memoryview, version: int) -> LeaveGroupResponse:
    try:
        flexible = version >= 4
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 1:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
        else:
            (error_code,) = _unpack_h(data, p)
            p += 2
            throttle_time_ms = 0
        members: list[MemberResponse]
        if version >= 3:
            count, p = count_(data, p, 5)
            members = []
            for _ in range(count):
                member_id_1, p = string_(data, p)
                group_instance_id_1, p = nullable_string_(data, p)
                (error_code_1,) = _unpack_h(data, p)
                p += 2
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                members.append(MemberResponse(member_id_1, group_instance_id_1, error_code_1))
        else:
            members = []
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return LeaveGroupResponse(throttle_time_ms, error_code, members)
    except DECODE_ERRORS as error:
        raise malformed("LeaveGroupResponse", version, error) from None
