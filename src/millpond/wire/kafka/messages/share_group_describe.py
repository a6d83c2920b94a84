"""ShareGroupDescribe request and response (api 77), versions 1.

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
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    read_numbers,
    skip_tags,
    unencodable,
    uuid_of,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class ShareGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations")

    def __init__(
        self,
        group_ids: list[str] = NOT_GIVEN,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids: list[str] = [] if group_ids is NOT_GIVEN else group_ids
        self.include_authorized_operations = include_authorized_operations


class TopicPartitions(Message):
    __slots__ = ("topic_id", "topic_name", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        topic_name: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class Assignment(Message):
    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        topic_partitions: list[TopicPartitions] = NOT_GIVEN,
    ) -> None:
        self.topic_partitions: list[TopicPartitions] = [] if topic_partitions is NOT_GIVEN else topic_partitions


class Member(Message):
    __slots__ = ("member_id", "rack_id", "member_epoch", "client_id", "client_host", "subscribed_topic_names", "assignment")

    def __init__(
        self,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = NOT_GIVEN,
        assignment: Assignment = NOT_GIVEN,
    ) -> None:
        self.member_id = member_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is NOT_GIVEN else subscribed_topic_names
        self.assignment: Assignment = Assignment() if assignment is NOT_GIVEN else assignment


class DescribedGroup(Message):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "assignor_name", "members", "authorized_operations")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] = NOT_GIVEN,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members: list[Member] = [] if members is NOT_GIVEN else members
        self.authorized_operations = authorized_operations


class ShareGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is NOT_GIVEN else groups


def encode_share_group_describe_request(m: ShareGroupDescribeRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.group_ids
        add(pack_compact_count(len(values_1)))
        for text in values_1:
            add(pack_compact_string(text))
        add(_pack_o(m.include_authorized_operations))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ShareGroupDescribeRequest", version, error) from error


def decode_share_group_describe_request(data: memoryview, version: int) -> ShareGroupDescribeRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 1)
        group_ids: list[str] = []
        for _ in range(count):
            item, p = read_compact_string(data, p)
            group_ids.append(item)
        include_authorized_operations = data[p] != 0
        p += 1
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ShareGroupDescribeRequest(group_ids, include_authorized_operations)
    except DECODE_ERRORS as error:
        raise malformed("ShareGroupDescribeRequest", version, error) from None


def encode_share_group_describe_response(m: ShareGroupDescribeResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.groups
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(pack_nullable_compact_string(m_2.error_message))
            add(pack_compact_string(m_2.group_id))
            add(pack_compact_string(m_2.group_state))
            add(_pack_ii(m_2.group_epoch, m_2.assignment_epoch))
            add(pack_compact_string(m_2.assignor_name))
            values_3 = m_2.members
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(pack_compact_string(m_4.member_id))
                add(pack_nullable_compact_string(m_4.rack_id))
                add(_pack_i(m_4.member_epoch))
                add(pack_compact_string(m_4.client_id))
                add(pack_compact_string(m_4.client_host))
                values_5 = m_4.subscribed_topic_names
                add(pack_compact_count(len(values_5)))
                for text in values_5:
                    add(pack_compact_string(text))
                m_6 = m_4.assignment
                values_7 = m_6.topic_partitions
                add(pack_compact_count(len(values_7)))
                for m_8 in values_7:
                    add(_pack_u(m_8.topic_id.bytes))
                    add(pack_compact_string(m_8.topic_name))
                    values_9 = m_8.partitions
                    add(pack_compact_count(len(values_9)))
                    add(pack_numbers(values_9, "i"))
                    add(b"\x00")
                add(b"\x00")
                add(b"\x00")
            add(_pack_i(m_2.authorized_operations))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ShareGroupDescribeResponse", version, error) from error


def decode_share_group_describe_response(data: memoryview, version: int) -> ShareGroupDescribeResponse:
    try:
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 20)
        groups: list[DescribedGroup] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = read_nullable_compact_string(data, p)
            group_id_1, p = read_compact_string(data, p)
            group_state_1, p = read_compact_string(data, p)
            group_epoch_1, assignment_epoch_1 = _unpack_ii(data, p)
            p += 8
            assignor_name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 12)
            members_1: list[Member] = []
            for _ in range(count):
                member_id_2, p = read_compact_string(data, p)
                rack_id_2, p = read_nullable_compact_string(data, p)
                (member_epoch_2,) = _unpack_i(data, p)
                p += 4
                client_id_2, p = read_compact_string(data, p)
                client_host_2, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 1)
                subscribed_topic_names_2: list[str] = []
                for _ in range(count):
                    item, p = read_compact_string(data, p)
                    subscribed_topic_names_2.append(item)
                count, p = read_compact_count(data, p, 19)
                topic_partitions_3: list[TopicPartitions] = []
                for _ in range(count):
                    (topic_id_4,) = _unpack_u(data, p)
                    p += 16
                    topic_id_4 = uuid_of(topic_id_4)
                    topic_name_4, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_4, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    topic_partitions_3.append(TopicPartitions(topic_id_4, topic_name_4, partitions_4))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                assignment_2 = Assignment(topic_partitions_3)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                members_1.append(Member(member_id_2, rack_id_2, member_epoch_2, client_id_2, client_host_2, subscribed_topic_names_2, assignment_2))
            (authorized_operations_1,) = _unpack_i(data, p)
            p += 4
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            groups.append(DescribedGroup(error_code_1, error_message_1, group_id_1, group_state_1, group_epoch_1, assignment_epoch_1, assignor_name_1, members_1, authorized_operations_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ShareGroupDescribeResponse(throttle_time_ms, groups)
    except DECODE_ERRORS as error:
        raise malformed("ShareGroupDescribeResponse", version, error) from None
