"""ListPartitionReassignments request and response (api 46), versions 0.

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
    read_nullable_compact_count,
    read_nullable_compact_string,
    read_numbers,
    skip_tags,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class ListPartitionReassignmentsTopics(Message):
    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        name: str = "",
        partition_indexes: list[int] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is NOT_GIVEN else partition_indexes


class ListPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "topics")

    def __init__(
        self,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class OngoingPartitionReassignment(Message):
    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")

    def __init__(
        self,
        partition_index: int = 0,
        replicas: list[int] = NOT_GIVEN,
        adding_replicas: list[int] = NOT_GIVEN,
        removing_replicas: list[int] = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.replicas: list[int] = [] if replicas is NOT_GIVEN else replicas
        self.adding_replicas: list[int] = [] if adding_replicas is NOT_GIVEN else adding_replicas
        self.removing_replicas: list[int] = [] if removing_replicas is NOT_GIVEN else removing_replicas


class OngoingTopicReassignment(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[OngoingPartitionReassignment] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[OngoingPartitionReassignment] = [] if partitions is NOT_GIVEN else partitions


class ListPartitionReassignmentsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics: list[OngoingTopicReassignment] = [] if topics is NOT_GIVEN else topics


def encode_list_partition_reassignments_request(m: ListPartitionReassignmentsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.timeout_ms))
        values_1 = m.topics
        if values_1 is None:
            add(pack_compact_count(-1))
        else:
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
        raise unencodable("ListPartitionReassignmentsRequest", version, error) from error


def decode_list_partition_reassignments_request(data: memoryview, version: int) -> ListPartitionReassignmentsRequest:
    try:
        p = 0
        (timeout_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_nullable_compact_count(data, p, 3)
        topics: list[ListPartitionReassignmentsTopics] | None
        if count < 0:
            topics = None
        else:
            topics = []
            for _ in range(count):
                name_1, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 4)
                partition_indexes_1, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics.append(ListPartitionReassignmentsTopics(name_1, partition_indexes_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListPartitionReassignmentsRequest(timeout_ms, topics)
    except DECODE_ERRORS as error:
        raise malformed("ListPartitionReassignmentsRequest", version, error) from None


def encode_list_partition_reassignments_response(m: ListPartitionReassignmentsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_i(m_4.partition_index))
                values_5 = m_4.replicas
                add(pack_compact_count(len(values_5)))
                add(pack_numbers(values_5, "i"))
                values_6 = m_4.adding_replicas
                add(pack_compact_count(len(values_6)))
                add(pack_numbers(values_6, "i"))
                values_7 = m_4.removing_replicas
                add(pack_compact_count(len(values_7)))
                add(pack_numbers(values_7, "i"))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListPartitionReassignmentsResponse", version, error) from error


def decode_list_partition_reassignments_response(data: memoryview, version: int) -> ListPartitionReassignmentsResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        count, p = read_compact_count(data, p, 3)
        topics: list[OngoingTopicReassignment] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 8)
            partitions_1: list[OngoingPartitionReassignment] = []
            for _ in range(count):
                (partition_index_2,) = _unpack_i(data, p)
                p += 4
                count, p = read_compact_count(data, p, 4)
                replicas_2, p = read_numbers(data, p, count, "i")
                count, p = read_compact_count(data, p, 4)
                adding_replicas_2, p = read_numbers(data, p, count, "i")
                count, p = read_compact_count(data, p, 4)
                removing_replicas_2, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(OngoingPartitionReassignment(partition_index_2, replicas_2, adding_replicas_2, removing_replicas_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(OngoingTopicReassignment(name_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListPartitionReassignmentsResponse(throttle_time_ms, error_code, error_message, topics)
    except DECODE_ERRORS as error:
        raise malformed("ListPartitionReassignmentsResponse", version, error) from None
