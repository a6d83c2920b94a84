"""DescribeGroups request and response (api 15), versions 0-6.

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
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from


class DescribeGroupsRequest(Message):
    __slots__ = ("groups", "include_authorized_operations")

    def __init__(
        self,
        groups: list[str] = NOT_GIVEN,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups: list[str] = [] if groups is NOT_GIVEN else groups
        self.include_authorized_operations = include_authorized_operations


class DescribedGroupMember(Message):
    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment")

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribedGroup(Message):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "protocol_type", "protocol_data", "members", "authorized_operations")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] = NOT_GIVEN,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members: list[DescribedGroupMember] = [] if members is NOT_GIVEN else members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is NOT_GIVEN else groups


def encode_describe_groups_request(m: DescribeGroupsRequest, version: int) -> bytes:
    try:
        flexible = version >= 5
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.groups
        add(count_(len(values_1)))
        for text in values_1:
            add(string_(text))
        if version >= 3:
            add(_pack_o(m.include_authorized_operations))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeGroupsRequest", version, error) from error


def decode_describe_groups_request(data: memoryview, version: int) -> DescribeGroupsRequest:
    try:
        flexible = version >= 5
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 1)
        groups: list[str] = []
        for _ in range(count):
            item, p = string_(data, p)
            groups.append(item)
        if version >= 3:
            include_authorized_operations = data[p] != 0
            p += 1
        else:
            include_authorized_operations = False
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeGroupsRequest(groups, include_authorized_operations)
    except DECODE_ERRORS as error:
        raise malformed("DescribeGroupsRequest", version, error) from None


def encode_describe_groups_response(m: DescribeGroupsResponse, version: int) -> bytes:
    try:
        flexible = version >= 5
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        size_ = pack_compact_size if flexible else pack_size
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            add(_pack_i(m.throttle_time_ms))
        values_1 = m.groups
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            if version >= 6:
                add(nullable_string_(m_2.error_message))
            add(string_(m_2.group_id))
            add(string_(m_2.group_state))
            add(string_(m_2.protocol_type))
            add(string_(m_2.protocol_data))
            values_3 = m_2.members
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(string_(m_4.member_id))
                if version >= 4:
                    add(nullable_string_(m_4.group_instance_id))
                add(string_(m_4.client_id))
                add(string_(m_4.client_host))
                value_5 = m_4.member_metadata
                add(size_(value_5))
                add(value_5)
                value_6 = m_4.member_assignment
                add(size_(value_6))
                add(value_6)
                if flexible:
                    add(b"\x00")
            if version >= 3:
                add(_pack_i(m_2.authorized_operations))
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeGroupsResponse", version, error) from error


def decode_describe_groups_response(data: memoryview, version: int) -> DescribeGroupsResponse:
    try:
        flexible = version >= 5
        bytes_ = read_compact_bytes if flexible else read_bytes
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 1:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
        else:
            throttle_time_ms = 0
        count, p = count_(data, p, 12)
        groups: list[DescribedGroup] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1: str | None
            if version >= 6:
                error_message_1, p = nullable_string_(data, p)
            else:
                error_message_1 = None
            group_id_1, p = string_(data, p)
            group_state_1, p = string_(data, p)
            protocol_type_1, p = string_(data, p)
            protocol_data_1, p = string_(data, p)
            count, p = count_(data, p, 7)
            members_1: list[DescribedGroupMember] = []
            for _ in range(count):
                member_id_2, p = string_(data, p)
                group_instance_id_2: str | None
                if version >= 4:
                    group_instance_id_2, p = nullable_string_(data, p)
                else:
                    group_instance_id_2 = None
                client_id_2, p = string_(data, p)
                client_host_2, p = string_(data, p)
                member_metadata_2, p = bytes_(data, p)
                member_assignment_2, p = bytes_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                members_1.append(DescribedGroupMember(member_id_2, group_instance_id_2, client_id_2, client_host_2, member_metadata_2, member_assignment_2))
            if version >= 3:
                (authorized_operations_1,) = _unpack_i(data, p)
                p += 4
            else:
                authorized_operations_1 = -2147483648
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            groups.append(DescribedGroup(error_code_1, error_message_1, group_id_1, group_state_1, protocol_type_1, protocol_data_1, members_1, authorized_operations_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeGroupsResponse(throttle_time_ms, groups)
    except DECODE_ERRORS as error:
        raise malformed("DescribeGroupsResponse", version, error) from None
