"""DeleteShareGroupState request and response (api 86), versions 0.

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

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class PartitionData(Message):
    __slots__ = ("partition",)

    def __init__(
        self,
        partition: int = 0,
    ) -> None:
        self.partition = partition


class DeleteStateData(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is NOT_GIVEN else partitions


class DeleteShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")

    def __init__(
        self,
        group_id: str = "",
        topics: list[DeleteStateData] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DeleteStateData] = [] if topics is NOT_GIVEN else topics


class PartitionResult(Message):
    __slots__ = ("partition", "error_code", "error_message")

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class DeleteStateResult(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionResult] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is NOT_GIVEN else partitions


class DeleteShareGroupStateResponse(Message):
    __slots__ = ("results",)

    def __init__(
        self,
        results: list[DeleteStateResult] = NOT_GIVEN,
    ) -> None:
        self.results: list[DeleteStateResult] = [] if results is NOT_GIVEN else results


def encode_delete_share_group_state_request(m: DeleteShareGroupStateRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_compact_string(m.group_id))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_i(m_4.partition))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteShareGroupStateRequest", version, error) from error


def decode_delete_share_group_state_request(data: memoryview, version: int) -> DeleteShareGroupStateRequest:
    try:
        p = 0
        group_id, p = read_compact_string(data, p)
        count, p = read_compact_count(data, p, 18)
        topics: list[DeleteStateData] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 5)
            partitions_1: list[PartitionData] = []
            for _ in range(count):
                (partition_2,) = _unpack_i(data, p)
                p += 4
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionData(partition_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(DeleteStateData(topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteShareGroupStateRequest(group_id, topics)
    except DECODE_ERRORS as error:
        raise malformed("DeleteShareGroupStateRequest", version, error) from None


def encode_delete_share_group_state_response(m: DeleteShareGroupStateResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.results
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.partition, m_4.error_code))
                add(pack_nullable_compact_string(m_4.error_message))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteShareGroupStateResponse", version, error) from error


def decode_delete_share_group_state_response(data: memoryview, version: int) -> DeleteShareGroupStateResponse:
    try:
        p = 0
        count, p = read_compact_count(data, p, 18)
        results: list[DeleteStateResult] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 8)
            partitions_1: list[PartitionResult] = []
            for _ in range(count):
                partition_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2, p = read_nullable_compact_string(data, p)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionResult(partition_2, error_code_2, error_message_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(DeleteStateResult(topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteShareGroupStateResponse(results)
    except DECODE_ERRORS as error:
        raise malformed("DeleteShareGroupStateResponse", version, error) from None
