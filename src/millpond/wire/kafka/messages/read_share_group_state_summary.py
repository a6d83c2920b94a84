"""ReadShareGroupStateSummary request and response (api 87), versions 0-1.

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
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_iiq = Struct(">iiq")
_pack_iiq, _unpack_iiq = _iiq.pack, _iiq.unpack_from
_iiqi = Struct(">iiqi")
_pack_iiqi, _unpack_iiqi = _iiqi.pack, _iiqi.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class PartitionData(Message):
    __slots__ = ("partition", "leader_epoch")

    def __init__(
        self,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateSummaryData(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is NOT_GIVEN else partitions


class ReadShareGroupStateSummaryRequest(Message):
    __slots__ = ("group_id", "topics")

    def __init__(
        self,
        group_id: str = "",
        topics: list[ReadStateSummaryData] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.topics: list[ReadStateSummaryData] = [] if topics is NOT_GIVEN else topics


class PartitionResult(Message):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count


class ReadStateSummaryResult(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionResult] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is NOT_GIVEN else partitions


class ReadShareGroupStateSummaryResponse(Message):
    __slots__ = ("results",)

    def __init__(
        self,
        results: list[ReadStateSummaryResult] = NOT_GIVEN,
    ) -> None:
        self.results: list[ReadStateSummaryResult] = [] if results is NOT_GIVEN else results


def encode_read_share_group_state_summary_request(m: ReadShareGroupStateSummaryRequest, version: int) -> bytes:
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
                add(_pack_ii(m_4.partition, m_4.leader_epoch))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ReadShareGroupStateSummaryRequest", version, error) from error


def decode_read_share_group_state_summary_request(data: memoryview, version: int) -> ReadShareGroupStateSummaryRequest:
    try:
        p = 0
        group_id, p = read_compact_string(data, p)
        count, p = read_compact_count(data, p, 18)
        topics: list[ReadStateSummaryData] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 9)
            partitions_1: list[PartitionData] = []
            for _ in range(count):
                partition_2, leader_epoch_2 = _unpack_ii(data, p)
                p += 8
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionData(partition_2, leader_epoch_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(ReadStateSummaryData(topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ReadShareGroupStateSummaryRequest(group_id, topics)
    except DECODE_ERRORS as error:
        raise malformed("ReadShareGroupStateSummaryRequest", version, error) from None


def encode_read_share_group_state_summary_response(m: ReadShareGroupStateSummaryResponse, version: int) -> bytes:
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
                if version >= 1:
                    add(_pack_iiqi(m_4.state_epoch, m_4.leader_epoch, m_4.start_offset, m_4.delivery_complete_count))
                else:
                    add(_pack_iiq(m_4.state_epoch, m_4.leader_epoch, m_4.start_offset))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ReadShareGroupStateSummaryResponse", version, error) from error


def decode_read_share_group_state_summary_response(data: memoryview, version: int) -> ReadShareGroupStateSummaryResponse:
    try:
        p = 0
        count, p = read_compact_count(data, p, 18)
        results: list[ReadStateSummaryResult] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 24)
            partitions_1: list[PartitionResult] = []
            for _ in range(count):
                partition_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2, p = read_nullable_compact_string(data, p)
                if version >= 1:
                    state_epoch_2, leader_epoch_2, start_offset_2, delivery_complete_count_2 = _unpack_iiqi(data, p)
                    p += 20
                else:
                    state_epoch_2, leader_epoch_2, start_offset_2 = _unpack_iiq(data, p)
                    p += 16
                    delivery_complete_count_2 = -1
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionResult(partition_2, error_code_2, error_message_2, state_epoch_2, leader_epoch_2, start_offset_2, delivery_complete_count_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(ReadStateSummaryResult(topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ReadShareGroupStateSummaryResponse(results)
    except DECODE_ERRORS as error:
        raise malformed("ReadShareGroupStateSummaryResponse", version, error) from None
