"""AlterPartitionReassignments request and response (api 45), versions 0-1.

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
_io = Struct(">i?")
_pack_io, _unpack_io = _io.pack, _io.unpack_from
_ioh = Struct(">i?h")
_pack_ioh, _unpack_ioh = _ioh.pack, _ioh.unpack_from


class ReassignablePartition(Message):
    __slots__ = ("partition_index", "replicas")

    def __init__(
        self,
        partition_index: int = 0,
        replicas: list[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class ReassignableTopic(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[ReassignablePartition] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[ReassignablePartition] = [] if partitions is NOT_GIVEN else partitions


class AlterPartitionReassignmentsRequest(Message):
    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics")

    def __init__(
        self,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] = NOT_GIVEN,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics: list[ReassignableTopic] = [] if topics is NOT_GIVEN else topics


class ReassignablePartitionResponse(Message):
    __slots__ = ("partition_index", "error_code", "error_message")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class ReassignableTopicResponse(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[ReassignablePartitionResponse] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[ReassignablePartitionResponse] = [] if partitions is NOT_GIVEN else partitions


class AlterPartitionReassignmentsResponse(Message):
    __slots__ = ("throttle_time_ms", "allow_replication_factor_change", "error_code", "error_message", "responses")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[ReassignableTopicResponse] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses: list[ReassignableTopicResponse] = [] if responses is NOT_GIVEN else responses


def encode_alter_partition_reassignments_request(m: AlterPartitionReassignmentsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            add(_pack_io(m.timeout_ms, m.allow_replication_factor_change))
        else:
            add(_pack_i(m.timeout_ms))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_i(m_4.partition_index))
                values_5 = m_4.replicas
                if values_5 is None:
                    add(pack_compact_count(-1))
                else:
                    add(pack_compact_count(len(values_5)))
                    add(pack_numbers(values_5, "i"))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterPartitionReassignmentsRequest", version, error) from error


def decode_alter_partition_reassignments_request(data: memoryview, version: int) -> AlterPartitionReassignmentsRequest:
    try:
        p = 0
        if version >= 1:
            timeout_ms, allow_replication_factor_change = _unpack_io(data, p)
            p += 5
        else:
            (timeout_ms,) = _unpack_i(data, p)
            p += 4
            allow_replication_factor_change = True
        count, p = read_compact_count(data, p, 3)
        topics: list[ReassignableTopic] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 6)
            partitions_1: list[ReassignablePartition] = []
            for _ in range(count):
                (partition_index_2,) = _unpack_i(data, p)
                p += 4
                count, p = read_nullable_compact_count(data, p, 4)
                replicas_2: list[int] | None
                if count < 0:
                    replicas_2 = None
                else:
                    replicas_2, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(ReassignablePartition(partition_index_2, replicas_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(ReassignableTopic(name_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterPartitionReassignmentsRequest(timeout_ms, allow_replication_factor_change, topics)
    except DECODE_ERRORS as error:
        raise malformed("AlterPartitionReassignmentsRequest", version, error) from None


def encode_alter_partition_reassignments_response(m: AlterPartitionReassignmentsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            add(_pack_ioh(m.throttle_time_ms, m.allow_replication_factor_change, m.error_code))
        else:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        values_1 = m.responses
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
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
        raise unencodable("AlterPartitionReassignmentsResponse", version, error) from error


def decode_alter_partition_reassignments_response(data: memoryview, version: int) -> AlterPartitionReassignmentsResponse:
    try:
        p = 0
        if version >= 1:
            throttle_time_ms, allow_replication_factor_change, error_code = _unpack_ioh(data, p)
            p += 7
        else:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
            allow_replication_factor_change = True
        error_message, p = read_nullable_compact_string(data, p)
        count, p = read_compact_count(data, p, 3)
        responses: list[ReassignableTopicResponse] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 8)
            partitions_1: list[ReassignablePartitionResponse] = []
            for _ in range(count):
                partition_index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2, p = read_nullable_compact_string(data, p)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(ReassignablePartitionResponse(partition_index_2, error_code_2, error_message_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            responses.append(ReassignableTopicResponse(name_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterPartitionReassignmentsResponse(throttle_time_ms, allow_replication_factor_change, error_code, error_message, responses)
    except DECODE_ERRORS as error:
        raise malformed("AlterPartitionReassignmentsResponse", version, error) from None
