"""AlterShareGroupOffsets request and response (api 91), versions 0.

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

_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class AlterShareGroupOffsetsRequestPartition(Message):
    __slots__ = ("partition_index", "start_offset")

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


class AlterShareGroupOffsetsRequestTopic(Message):
    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[AlterShareGroupOffsetsRequestPartition] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[AlterShareGroupOffsetsRequestPartition] = [] if partitions is NOT_GIVEN else partitions


class AlterShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics")

    def __init__(
        self,
        group_id: str = "",
        topics: list[AlterShareGroupOffsetsRequestTopic] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.topics: list[AlterShareGroupOffsetsRequestTopic] = [] if topics is NOT_GIVEN else topics


class AlterShareGroupOffsetsResponsePartition(Message):
    __slots__ = ("partition_index", "error_code", "error_message")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class AlterShareGroupOffsetsResponseTopic(Message):
    __slots__ = ("topic_name", "topic_id", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        topic_id: UUID = NO_ID,
        partitions: list[AlterShareGroupOffsetsResponsePartition] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions: list[AlterShareGroupOffsetsResponsePartition] = [] if partitions is NOT_GIVEN else partitions


class AlterShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses: list[AlterShareGroupOffsetsResponseTopic] = [] if responses is NOT_GIVEN else responses


def encode_alter_share_group_offsets_request(m: AlterShareGroupOffsetsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_compact_string(m.group_id))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.topic_name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_iq(m_4.partition_index, m_4.start_offset))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterShareGroupOffsetsRequest", version, error) from error


def decode_alter_share_group_offsets_request(data: memoryview, version: int) -> AlterShareGroupOffsetsRequest:
    try:
        p = 0
        group_id, p = read_compact_string(data, p)
        count, p = read_compact_count(data, p, 3)
        topics: list[AlterShareGroupOffsetsRequestTopic] = []
        for _ in range(count):
            topic_name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 13)
            partitions_1: list[AlterShareGroupOffsetsRequestPartition] = []
            for _ in range(count):
                partition_index_2, start_offset_2 = _unpack_iq(data, p)
                p += 12
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(AlterShareGroupOffsetsRequestPartition(partition_index_2, start_offset_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(AlterShareGroupOffsetsRequestTopic(topic_name_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterShareGroupOffsetsRequest(group_id, topics)
    except DECODE_ERRORS as error:
        raise malformed("AlterShareGroupOffsetsRequest", version, error) from None


def encode_alter_share_group_offsets_response(m: AlterShareGroupOffsetsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        values_1 = m.responses
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.topic_name))
            add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.partition_index, m_4.error_code))
                add(pack_nullable_compact_string(m_4.error_message))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterShareGroupOffsetsResponse", version, error) from error


def decode_alter_share_group_offsets_response(data: memoryview, version: int) -> AlterShareGroupOffsetsResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        count, p = read_compact_count(data, p, 19)
        responses: list[AlterShareGroupOffsetsResponseTopic] = []
        for _ in range(count):
            topic_name_1, p = read_compact_string(data, p)
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 8)
            partitions_1: list[AlterShareGroupOffsetsResponsePartition] = []
            for _ in range(count):
                partition_index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2, p = read_nullable_compact_string(data, p)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(AlterShareGroupOffsetsResponsePartition(partition_index_2, error_code_2, error_message_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            responses.append(AlterShareGroupOffsetsResponseTopic(topic_name_1, topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterShareGroupOffsetsResponse(throttle_time_ms, error_code, error_message, responses)
    except DECODE_ERRORS as error:
        raise malformed("AlterShareGroupOffsetsResponse", version, error) from None
