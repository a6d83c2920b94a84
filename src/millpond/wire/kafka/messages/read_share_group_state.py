"""ReadShareGroupState request and response (api 84), versions 0.

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
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_qqbh = Struct(">qqbh")
_pack_qqbh, _unpack_qqbh = _qqbh.pack, _qqbh.unpack_from
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


class ReadStateData(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is NOT_GIVEN else partitions


class ReadShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")

    def __init__(
        self,
        group_id: str = "",
        topics: list[ReadStateData] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.topics: list[ReadStateData] = [] if topics is NOT_GIVEN else topics


class StateBatch(Message):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class PartitionResult(Message):
    __slots__ = ("partition", "error_code", "error_message", "state_epoch", "start_offset", "state_batches")

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[StateBatch] = NOT_GIVEN,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.start_offset = start_offset
        self.state_batches: list[StateBatch] = [] if state_batches is NOT_GIVEN else state_batches


class ReadStateResult(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionResult] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is NOT_GIVEN else partitions


class ReadShareGroupStateResponse(Message):
    __slots__ = ("results",)

    def __init__(
        self,
        results: list[ReadStateResult] = NOT_GIVEN,
    ) -> None:
        self.results: list[ReadStateResult] = [] if results is NOT_GIVEN else results


def encode_read_share_group_state_request(m: ReadShareGroupStateRequest, version: int) -> bytes:
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
        raise unencodable("ReadShareGroupStateRequest", version, error) from error


def decode_read_share_group_state_request(data: memoryview, version: int) -> ReadShareGroupStateRequest:
    try:
        p = 0
        group_id, p = read_compact_string(data, p)
        count, p = read_compact_count(data, p, 18)
        topics: list[ReadStateData] = []
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
            topics.append(ReadStateData(topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ReadShareGroupStateRequest(group_id, topics)
    except DECODE_ERRORS as error:
        raise malformed("ReadShareGroupStateRequest", version, error) from None


def encode_read_share_group_state_response(m: ReadShareGroupStateResponse, version: int) -> bytes:
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
                add(_pack_iq(m_4.state_epoch, m_4.start_offset))
                values_5 = m_4.state_batches
                add(pack_compact_count(len(values_5)))
                for m_6 in values_5:
                    add(_pack_qqbh(m_6.first_offset, m_6.last_offset, m_6.delivery_state, m_6.delivery_count))
                    add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ReadShareGroupStateResponse", version, error) from error


def decode_read_share_group_state_response(data: memoryview, version: int) -> ReadShareGroupStateResponse:
    try:
        p = 0
        count, p = read_compact_count(data, p, 18)
        results: list[ReadStateResult] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 21)
            partitions_1: list[PartitionResult] = []
            for _ in range(count):
                partition_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2, p = read_nullable_compact_string(data, p)
                state_epoch_2, start_offset_2 = _unpack_iq(data, p)
                p += 12
                count, p = read_compact_count(data, p, 20)
                state_batches_2: list[StateBatch] = []
                for _ in range(count):
                    first_offset_3, last_offset_3, delivery_state_3, delivery_count_3 = _unpack_qqbh(data, p)
                    p += 19
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    state_batches_2.append(StateBatch(first_offset_3, last_offset_3, delivery_state_3, delivery_count_3))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionResult(partition_2, error_code_2, error_message_2, state_epoch_2, start_offset_2, state_batches_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(ReadStateResult(topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ReadShareGroupStateResponse(results)
    except DECODE_ERRORS as error:
        raise malformed("ReadShareGroupStateResponse", version, error) from None
