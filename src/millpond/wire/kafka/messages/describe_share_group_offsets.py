"""DescribeShareGroupOffsets request and response (api 90), versions 0-1.

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
    read_nullable_compact_count,
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
_iqih = Struct(">iqih")
_pack_iqih, _unpack_iqih = _iqih.pack, _iqih.unpack_from
_iqiqh = Struct(">iqiqh")
_pack_iqiqh, _unpack_iqiqh = _iqiqh.pack, _iqiqh.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class DescribeShareGroupOffsetsRequestTopic(Message):
    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class DescribeShareGroupOffsetsRequestGroup(Message):
    __slots__ = ("group_id", "topics")

    def __init__(
        self,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DescribeShareGroupOffsetsRequestTopic] | None = [] if topics is NOT_GIVEN else topics


class DescribeShareGroupOffsetsRequest(Message):
    __slots__ = ("groups",)

    def __init__(
        self,
        groups: list[DescribeShareGroupOffsetsRequestGroup] = NOT_GIVEN,
    ) -> None:
        self.groups: list[DescribeShareGroupOffsetsRequestGroup] = [] if groups is NOT_GIVEN else groups


class DescribeShareGroupOffsetsResponsePartition(Message):
    __slots__ = ("partition_index", "start_offset", "leader_epoch", "lag", "error_code", "error_message")

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponseTopic(Message):
    __slots__ = ("topic_name", "topic_id", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        topic_id: UUID = NO_ID,
        partitions: list[DescribeShareGroupOffsetsResponsePartition] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions: list[DescribeShareGroupOffsetsResponsePartition] = [] if partitions is NOT_GIVEN else partitions


class DescribeShareGroupOffsetsResponseGroup(Message):
    __slots__ = ("group_id", "topics", "error_code", "error_message")

    def __init__(
        self,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsResponseTopic] = NOT_GIVEN,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DescribeShareGroupOffsetsResponseTopic] = [] if topics is NOT_GIVEN else topics
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[DescribeShareGroupOffsetsResponseGroup] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribeShareGroupOffsetsResponseGroup] = [] if groups is NOT_GIVEN else groups


def encode_describe_share_group_offsets_request(m: DescribeShareGroupOffsetsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.groups
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.group_id))
            values_3 = m_2.topics
            if values_3 is None:
                add(pack_compact_count(-1))
            else:
                add(pack_compact_count(len(values_3)))
                for m_4 in values_3:
                    add(pack_compact_string(m_4.topic_name))
                    values_5 = m_4.partitions
                    add(pack_compact_count(len(values_5)))
                    add(pack_numbers(values_5, "i"))
                    add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeShareGroupOffsetsRequest", version, error) from error


def decode_describe_share_group_offsets_request(data: memoryview, version: int) -> DescribeShareGroupOffsetsRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 3)
        groups: list[DescribeShareGroupOffsetsRequestGroup] = []
        for _ in range(count):
            group_id_1, p = read_compact_string(data, p)
            count, p = read_nullable_compact_count(data, p, 3)
            topics_1: list[DescribeShareGroupOffsetsRequestTopic] | None
            if count < 0:
                topics_1 = None
            else:
                topics_1 = []
                for _ in range(count):
                    topic_name_2, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_2, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    topics_1.append(DescribeShareGroupOffsetsRequestTopic(topic_name_2, partitions_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            groups.append(DescribeShareGroupOffsetsRequestGroup(group_id_1, topics_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeShareGroupOffsetsRequest(groups)
    except DECODE_ERRORS as error:
        raise malformed("DescribeShareGroupOffsetsRequest", version, error) from None


def encode_describe_share_group_offsets_response(m: DescribeShareGroupOffsetsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.groups
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.group_id))
            values_3 = m_2.topics
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(pack_compact_string(m_4.topic_name))
                add(_pack_u(m_4.topic_id.bytes))
                values_5 = m_4.partitions
                add(pack_compact_count(len(values_5)))
                for m_6 in values_5:
                    if version >= 1:
                        add(_pack_iqiqh(m_6.partition_index, m_6.start_offset, m_6.leader_epoch, m_6.lag, m_6.error_code))
                    else:
                        add(_pack_iqih(m_6.partition_index, m_6.start_offset, m_6.leader_epoch, m_6.error_code))
                    add(pack_nullable_compact_string(m_6.error_message))
                    add(b"\x00")
                add(b"\x00")
            add(_pack_h(m_2.error_code))
            add(pack_nullable_compact_string(m_2.error_message))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeShareGroupOffsetsResponse", version, error) from error


def decode_describe_share_group_offsets_response(data: memoryview, version: int) -> DescribeShareGroupOffsetsResponse:
    try:
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 6)
        groups: list[DescribeShareGroupOffsetsResponseGroup] = []
        for _ in range(count):
            group_id_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 19)
            topics_1: list[DescribeShareGroupOffsetsResponseTopic] = []
            for _ in range(count):
                topic_name_2, p = read_compact_string(data, p)
                (topic_id_2,) = _unpack_u(data, p)
                p += 16
                topic_id_2 = uuid_of(topic_id_2)
                count, p = read_compact_count(data, p, 20)
                partitions_2: list[DescribeShareGroupOffsetsResponsePartition] = []
                for _ in range(count):
                    if version >= 1:
                        partition_index_3, start_offset_3, leader_epoch_3, lag_3, error_code_3 = _unpack_iqiqh(data, p)
                        p += 26
                    else:
                        partition_index_3, start_offset_3, leader_epoch_3, error_code_3 = _unpack_iqih(data, p)
                        p += 18
                        lag_3 = -1
                    error_message_3, p = read_nullable_compact_string(data, p)
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    partitions_2.append(DescribeShareGroupOffsetsResponsePartition(partition_index_3, start_offset_3, leader_epoch_3, lag_3, error_code_3, error_message_3))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics_1.append(DescribeShareGroupOffsetsResponseTopic(topic_name_2, topic_id_2, partitions_2))
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = read_nullable_compact_string(data, p)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            groups.append(DescribeShareGroupOffsetsResponseGroup(group_id_1, topics_1, error_code_1, error_message_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeShareGroupOffsetsResponse(throttle_time_ms, groups)
    except DECODE_ERRORS as error:
        raise malformed("DescribeShareGroupOffsetsResponse", version, error) from None
