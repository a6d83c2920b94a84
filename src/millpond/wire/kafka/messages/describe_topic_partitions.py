"""DescribeTopicPartitions request and response (api 75), versions 0.

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
    read_presence,
    skip_tags,
    unencodable,
    uuid_of,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_hiii = Struct(">hiii")
_pack_hiii, _unpack_hiii = _hiii.pack, _hiii.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_uo = Struct(">16s?")
_pack_uo, _unpack_uo = _uo.pack, _uo.unpack_from


class TopicRequest(Message):
    __slots__ = ("name",)

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class Cursor(Message):
    __slots__ = ("topic_name", "partition_index")

    def __init__(
        self,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(Message):
    __slots__ = ("topics", "response_partition_limit", "cursor")

    def __init__(
        self,
        topics: list[TopicRequest] = NOT_GIVEN,
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics: list[TopicRequest] = [] if topics is NOT_GIVEN else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsResponsePartition(Message):
    __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "eligible_leader_replicas", "last_known_elr", "offline_replicas")

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = NOT_GIVEN,
        isr_nodes: list[int] = NOT_GIVEN,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is NOT_GIVEN else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is NOT_GIVEN else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas: list[int] = [] if offline_replicas is NOT_GIVEN else offline_replicas


class DescribeTopicPartitionsResponseTopic(Message):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: UUID = NO_ID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = NOT_GIVEN,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions: list[DescribeTopicPartitionsResponsePartition] = [] if partitions is NOT_GIVEN else partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "next_cursor")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = NOT_GIVEN,
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[DescribeTopicPartitionsResponseTopic] = [] if topics is NOT_GIVEN else topics
        self.next_cursor = next_cursor


def encode_describe_topic_partitions_request(m: DescribeTopicPartitionsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            add(b"\x00")
        add(_pack_i(m.response_partition_limit))
        m_3 = m.cursor
        if m_3 is None:
            add(b"\xff")
        else:
            add(b"\x01")
            add(pack_compact_string(m_3.topic_name))
            add(_pack_i(m_3.partition_index))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeTopicPartitionsRequest", version, error) from error


def decode_describe_topic_partitions_request(data: memoryview, version: int) -> DescribeTopicPartitionsRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 2)
        topics: list[TopicRequest] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicRequest(name_1))
        (response_partition_limit,) = _unpack_i(data, p)
        p += 4
        cursor: Cursor | None
        present, p = read_presence(data, p)
        if present:
            topic_name_2, p = read_compact_string(data, p)
            (partition_index_2,) = _unpack_i(data, p)
            p += 4
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            cursor = Cursor(topic_name_2, partition_index_2)
        else:
            cursor = None
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeTopicPartitionsRequest(topics, response_partition_limit, cursor)
    except DECODE_ERRORS as error:
        raise malformed("DescribeTopicPartitionsRequest", version, error) from None


def encode_describe_topic_partitions_response(m: DescribeTopicPartitionsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(pack_nullable_compact_string(m_2.name))
            add(_pack_uo(m_2.topic_id.bytes, m_2.is_internal))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_hiii(m_4.error_code, m_4.partition_index, m_4.leader_id, m_4.leader_epoch))
                values_5 = m_4.replica_nodes
                add(pack_compact_count(len(values_5)))
                add(pack_numbers(values_5, "i"))
                values_6 = m_4.isr_nodes
                add(pack_compact_count(len(values_6)))
                add(pack_numbers(values_6, "i"))
                values_7 = m_4.eligible_leader_replicas
                if values_7 is None:
                    add(pack_compact_count(-1))
                else:
                    add(pack_compact_count(len(values_7)))
                    add(pack_numbers(values_7, "i"))
                values_8 = m_4.last_known_elr
                if values_8 is None:
                    add(pack_compact_count(-1))
                else:
                    add(pack_compact_count(len(values_8)))
                    add(pack_numbers(values_8, "i"))
                values_9 = m_4.offline_replicas
                add(pack_compact_count(len(values_9)))
                add(pack_numbers(values_9, "i"))
                add(b"\x00")
            add(_pack_i(m_2.topic_authorized_operations))
            add(b"\x00")
        m_10 = m.next_cursor
        if m_10 is None:
            add(b"\xff")
        else:
            add(b"\x01")
            add(pack_compact_string(m_10.topic_name))
            add(_pack_i(m_10.partition_index))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeTopicPartitionsResponse", version, error) from error


def decode_describe_topic_partitions_response(data: memoryview, version: int) -> DescribeTopicPartitionsResponse:
    try:
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 26)
        topics: list[DescribeTopicPartitionsResponseTopic] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            name_1, p = read_nullable_compact_string(data, p)
            topic_id_1, is_internal_1 = _unpack_uo(data, p)
            p += 17
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 20)
            partitions_1: list[DescribeTopicPartitionsResponsePartition] = []
            for _ in range(count):
                error_code_2, partition_index_2, leader_id_2, leader_epoch_2 = _unpack_hiii(data, p)
                p += 14
                count, p = read_compact_count(data, p, 4)
                replica_nodes_2, p = read_numbers(data, p, count, "i")
                count, p = read_compact_count(data, p, 4)
                isr_nodes_2, p = read_numbers(data, p, count, "i")
                count, p = read_nullable_compact_count(data, p, 4)
                eligible_leader_replicas_2: list[int] | None
                if count < 0:
                    eligible_leader_replicas_2 = None
                else:
                    eligible_leader_replicas_2, p = read_numbers(data, p, count, "i")
                count, p = read_nullable_compact_count(data, p, 4)
                last_known_elr_2: list[int] | None
                if count < 0:
                    last_known_elr_2 = None
                else:
                    last_known_elr_2, p = read_numbers(data, p, count, "i")
                count, p = read_compact_count(data, p, 4)
                offline_replicas_2, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(DescribeTopicPartitionsResponsePartition(error_code_2, partition_index_2, leader_id_2, leader_epoch_2, replica_nodes_2, isr_nodes_2, eligible_leader_replicas_2, last_known_elr_2, offline_replicas_2))
            (topic_authorized_operations_1,) = _unpack_i(data, p)
            p += 4
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(DescribeTopicPartitionsResponseTopic(error_code_1, name_1, topic_id_1, is_internal_1, partitions_1, topic_authorized_operations_1))
        next_cursor: Cursor | None
        present, p = read_presence(data, p)
        if present:
            topic_name_3, p = read_compact_string(data, p)
            (partition_index_3,) = _unpack_i(data, p)
            p += 4
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            next_cursor = Cursor(topic_name_3, partition_index_3)
        else:
            next_cursor = None
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeTopicPartitionsResponse(throttle_time_ms, topics, next_cursor)
    except DECODE_ERRORS as error:
        raise malformed("DescribeTopicPartitionsResponse", version, error) from None
