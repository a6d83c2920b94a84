"""OffsetDelete request and response (api 47), versions 0.

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
    pack_count,
    pack_string,
    read_count,
    read_string,
    unencodable,
)

_hi = Struct(">hi")
_pack_hi, _unpack_hi = _hi.pack, _hi.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class OffsetDeleteRequestPartition(Message):
    __slots__ = ("partition_index",)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[OffsetDeleteRequestPartition] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[OffsetDeleteRequestPartition] = [] if partitions is NOT_GIVEN else partitions


class OffsetDeleteRequest(Message):
    __slots__ = ("group_id", "topics")

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetDeleteRequestTopic] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetDeleteRequestTopic] = [] if topics is NOT_GIVEN else topics


class OffsetDeleteResponsePartition(Message):
    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[OffsetDeleteResponsePartition] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[OffsetDeleteResponsePartition] = [] if partitions is NOT_GIVEN else partitions


class OffsetDeleteResponse(Message):
    __slots__ = ("error_code", "throttle_time_ms", "topics")

    def __init__(
        self,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetDeleteResponseTopic] = [] if topics is NOT_GIVEN else topics


def encode_offset_delete_request(m: OffsetDeleteRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_string(m.group_id))
        values_1 = m.topics
        add(pack_count(len(values_1)))
        for m_2 in values_1:
            add(pack_string(m_2.name))
            values_3 = m_2.partitions
            add(pack_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_i(m_4.partition_index))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("OffsetDeleteRequest", version, error) from error


def decode_offset_delete_request(data: memoryview, version: int) -> OffsetDeleteRequest:
    try:
        p = 0
        group_id, p = read_string(data, p)
        count, p = read_count(data, p, 6)
        topics: list[OffsetDeleteRequestTopic] = []
        for _ in range(count):
            name_1, p = read_string(data, p)
            count, p = read_count(data, p, 4)
            partitions_1: list[OffsetDeleteRequestPartition] = []
            for _ in range(count):
                (partition_index_2,) = _unpack_i(data, p)
                p += 4
                partitions_1.append(OffsetDeleteRequestPartition(partition_index_2))
            topics.append(OffsetDeleteRequestTopic(name_1, partitions_1))
        return OffsetDeleteRequest(group_id, topics)
    except DECODE_ERRORS as error:
        raise malformed("OffsetDeleteRequest", version, error) from None


def encode_offset_delete_response(m: OffsetDeleteResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_hi(m.error_code, m.throttle_time_ms))
        values_1 = m.topics
        add(pack_count(len(values_1)))
        for m_2 in values_1:
            add(pack_string(m_2.name))
            values_3 = m_2.partitions
            add(pack_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.partition_index, m_4.error_code))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("OffsetDeleteResponse", version, error) from error


def decode_offset_delete_response(data: memoryview, version: int) -> OffsetDeleteResponse:
    try:
        p = 0
        error_code, throttle_time_ms = _unpack_hi(data, p)
        p += 6
        count, p = read_count(data, p, 6)
        topics: list[OffsetDeleteResponseTopic] = []
        for _ in range(count):
            name_1, p = read_string(data, p)
            count, p = read_count(data, p, 6)
            partitions_1: list[OffsetDeleteResponsePartition] = []
            for _ in range(count):
                partition_index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                partitions_1.append(OffsetDeleteResponsePartition(partition_index_2, error_code_2))
            topics.append(OffsetDeleteResponseTopic(name_1, partitions_1))
        return OffsetDeleteResponse(error_code, throttle_time_ms, topics)
    except DECODE_ERRORS as error:
        raise malformed("OffsetDeleteResponse", version, error) from None
