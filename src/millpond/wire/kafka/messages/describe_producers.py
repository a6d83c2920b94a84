"""DescribeProducers request and response (api 61), versions 0.

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
    pack_nullable_compact_string,
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    read_numbers,
    skip_tags,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_qiiqiq = Struct(">qiiqiq")
_pack_qiiqiq, _unpack_qiiqiq = _qiiqiq.pack, _qiiqiq.unpack_from


class TopicRequest(Message):
    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        name: str = "",
        partition_indexes: list[int] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is NOT_GIVEN else partition_indexes


class DescribeProducersRequest(Message):
    __slots__ = ("topics",)

    def __init__(
        self,
        topics: list[TopicRequest] = NOT_GIVEN,
    ) -> None:
        self.topics: list[TopicRequest] = [] if topics is NOT_GIVEN else topics


class ProducerState(Message):
    __slots__ = ("producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch", "current_txn_start_offset")

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(Message):
    __slots__ = ("partition_index", "error_code", "error_message", "active_producers")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers: list[ProducerState] = [] if active_producers is NOT_GIVEN else active_producers


class TopicResponse(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[PartitionResponse] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[PartitionResponse] = [] if partitions is NOT_GIVEN else partitions


class DescribeProducersResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[TopicResponse] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[TopicResponse] = [] if topics is NOT_GIVEN else topics


def encode_describe_producers_request(m: DescribeProducersRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            values_3 = m_2.partition_indexes
            add(pack_compact_count(len(values_3)))
            add(pack_numbers(values_3, "i"))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeProducersRequest", version, error) from error


def decode_describe_producers_request(data: memoryview, version: int) -> DescribeProducersRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 3)
        topics: list[TopicRequest] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 4)
            partition_indexes_1, p = read_numbers(data, p, count, "i")
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicRequest(name_1, partition_indexes_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeProducersRequest(topics)
    except DECODE_ERRORS as error:
        raise malformed("DescribeProducersRequest", version, error) from None


def encode_describe_producers_response(m: DescribeProducersResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.partition_index, m_4.error_code))
                add(pack_nullable_compact_string(m_4.error_message))
                values_5 = m_4.active_producers
                add(pack_compact_count(len(values_5)))
                for m_6 in values_5:
                    add(_pack_qiiqiq(m_6.producer_id, m_6.producer_epoch, m_6.last_sequence, m_6.last_timestamp, m_6.coordinator_epoch, m_6.current_txn_start_offset))
                    add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeProducersResponse", version, error) from error


def decode_describe_producers_response(data: memoryview, version: int) -> DescribeProducersResponse:
    try:
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 3)
        topics: list[TopicResponse] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 9)
            partitions_1: list[PartitionResponse] = []
            for _ in range(count):
                partition_index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2, p = read_nullable_compact_string(data, p)
                count, p = read_compact_count(data, p, 37)
                active_producers_2: list[ProducerState] = []
                for _ in range(count):
                    producer_id_3, producer_epoch_3, last_sequence_3, last_timestamp_3, coordinator_epoch_3, current_txn_start_offset_3 = _unpack_qiiqiq(data, p)
                    p += 36
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    active_producers_2.append(ProducerState(producer_id_3, producer_epoch_3, last_sequence_3, last_timestamp_3, coordinator_epoch_3, current_txn_start_offset_3))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionResponse(partition_index_2, error_code_2, error_message_2, active_producers_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicResponse(name_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeProducersResponse(throttle_time_ms, topics)
    except DECODE_ERRORS as error:
        raise malformed("DescribeProducersResponse", version, error) from None
