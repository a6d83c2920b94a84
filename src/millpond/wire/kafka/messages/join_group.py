"""JoinGroup request and response (api 11), versions 0-9.

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

_hi = Struct(">hi")
_pack_hi, _unpack_hi = _hi.pack, _hi.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ihi = Struct(">ihi")
_pack_ihi, _unpack_ihi = _ihi.pack, _ihi.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from


class JoinGroupRequestProtocol(Message):
    __slots__ = ("name", "metadata")

    def __init__(
        self,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(Message):
    __slots__ = ("group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id", "protocol_type", "protocols", "reason")

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] = NOT_GIVEN,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols: list[JoinGroupRequestProtocol] = [] if protocols is NOT_GIVEN else protocols
        self.reason = reason


class JoinGroupResponseMember(Message):
    __slots__ = ("member_id", "group_instance_id", "metadata")

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "generation_id", "protocol_type", "protocol_name", "leader", "skip_assignment", "member_id", "members")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members: list[JoinGroupResponseMember] = [] if members is NOT_GIVEN else members


def encode_join_group_request(m: JoinGroupRequest, version: int) -> bytes:
    try:
        flexible = version >= 6
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        size_ = pack_compact_size if flexible else pack_size
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(string_(m.group_id))
        if version >= 1:
            add(_pack_ii(m.session_timeout_ms, m.rebalance_timeout_ms))
        else:
            add(_pack_i(m.session_timeout_ms))
        add(string_(m.member_id))
        if version >= 5:
            add(nullable_string_(m.group_instance_id))
        add(string_(m.protocol_type))
        values_1 = m.protocols
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.name))
            value_3 = m_2.metadata
            add(size_(value_3))
            add(value_3)
            if flexible:
                add(b"\x00")
        if version >= 8:
            add(nullable_string_(m.reason))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("JoinGroupRequest", version, error) from error


def decode_join_group_request(data: memoryview, version: int) -> JoinGroupRequest:
    try:
        flexible = version >= 6
        bytes_ = read_compact_bytes if flexible else read_bytes
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        group_id, p = string_(data, p)
        if version >= 1:
            session_timeout_ms, rebalance_timeout_ms = _unpack_ii(data, p)
            p += 8
        else:
            (session_timeout_ms,) = _unpack_i(data, p)
            p += 4
            rebalance_timeout_ms = -1
        member_id, p = string_(data, p)
        group_instance_id: str | None
        if version >= 5:
            group_instance_id, p = nullable_string_(data, p)
        else:
            group_instance_id = None
        protocol_type, p = string_(data, p)
        count, p = count_(data, p, 3)
        protocols: list[JoinGroupRequestProtocol] = []
        for _ in range(count):
            name_1, p = string_(data, p)
            metadata_1, p = bytes_(data, p)
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            protocols.append(JoinGroupRequestProtocol(name_1, metadata_1))
        reason: str | None
        if version >= 8:
            reason, p = nullable_string_(data, p)
        else:
            reason = None
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return JoinGroupRequest(group_id, session_timeout_ms, rebalance_timeout_ms, member_id, group_instance_id, protocol_type, protocols, reason)
    except DECODE_ERRORS as error:
        raise malformed("JoinGroupRequest", version, error) from None


def encode_join_group_response(m: JoinGroupResponse, version: int) -> bytes:
    try:
        flexible = version >= 6
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        size_ = pack_compact_size if flexible else pack_size
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 2:
            add(_pack_ihi(m.throttle_time_ms, m.error_code, m.generation_id))
        else:
            add(_pack_hi(m.error_code, m.generation_id))
        if version >= 7:
            add(nullable_string_(m.protocol_type))
        if m.protocol_name is None and not version >= 7:
            raise TypeError("protocol_name may not be null")
        add(nullable_string_(m.protocol_name))
        add(string_(m.leader))
        if version >= 9:
            add(_pack_o(m.skip_assignment))
        add(string_(m.member_id))
        values_1 = m.members
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.member_id))
            if version >= 5:
                add(nullable_string_(m_2.group_instance_id))
            value_3 = m_2.metadata
            add(size_(value_3))
            add(value_3)
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("JoinGroupResponse", version, error) from error


def decode_join_group_response(data: memoryview, version: int) -> JoinGroupResponse:
    try:
        flexible = version >= 6
        bytes_ = read_compact_bytes if flexible else read_bytes
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 2:
            throttle_time_ms, error_code, generation_id = _unpack_ihi(data, p)
            p += 10
        else:
            error_code, generation_id = _unpack_hi(data, p)
            p += 6
            throttle_time_ms = 0
        protocol_type: str | None
        if version >= 7:
            protocol_type, p = nullable_string_(data, p)
        else:
            protocol_type = None
        protocol_name, p = (nullable_string_ if version >= 7 else string_)(data, p)
        leader, p = string_(data, p)
        if version >= 9:
            skip_assignment = data[p] != 0
            p += 1
        else:
            skip_assignment = False
        member_id, p = string_(data, p)
        count, p = count_(data, p, 4)
        members: list[JoinGroupResponseMember] = []
        for _ in range(count):
            member_id_1, p = string_(data, p)
            group_instance_id_1: str | None
            if version >= 5:
                group_instance_id_1, p = nullable_string_(data, p)
            else:
                group_instance_id_1 = None
            metadata_1, p = bytes_(data, p)
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            members.append(JoinGroupResponseMember(member_id_1, group_instance_id_1, metadata_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return JoinGroupResponse(throttle_time_ms, error_code, generation_id, protocol_type, protocol_name, leader, skip_assignment, member_id, members)
    except DECODE_ERRORS as error:
        raise malformed("JoinGroupResponse", version, error) from None
