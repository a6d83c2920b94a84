"""ElectLeaders request and response (api 43), versions 0-2.

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
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_numbers,
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_count,
    read_nullable_compact_string,
    read_nullable_count,
    read_nullable_string,
    read_numbers,
    read_string,
    skip_tags,
    unencodable,
)

_b = Struct(">b")
_pack_b, _unpack_b = _b.pack, _b.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class TopicPartitions(Message):
    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class ElectLeadersRequest(Message):
    __slots__ = ("election_type", "topic_partitions", "timeout_ms")

    def __init__(
        self,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = NOT_GIVEN,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions: list[TopicPartitions] | None = [] if topic_partitions is NOT_GIVEN else topic_partitions
        self.timeout_ms = timeout_ms


class PartitionResult(Message):
    __slots__ = ("partition_id", "error_code", "error_message")

    def __init__(
        self,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(Message):
    __slots__ = ("topic", "partition_result")

    def __init__(
        self,
        topic: str = "",
        partition_result: list[PartitionResult] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.partition_result: list[PartitionResult] = [] if partition_result is NOT_GIVEN else partition_result


class ElectLeadersResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results: list[ReplicaElectionResult] = [] if replica_election_results is NOT_GIVEN else replica_election_results


def encode_elect_leaders_request(m: ElectLeadersRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            add(_pack_b(m.election_type))
        values_1 = m.topic_partitions
        if values_1 is None:
            add(count_(-1))
        else:
            add(count_(len(values_1)))
            for m_2 in values_1:
                add(string_(m_2.topic))
                values_3 = m_2.partitions
                add(count_(len(values_3)))
                add(pack_numbers(values_3, "i"))
                if flexible:
                    add(b"\x00")
        add(_pack_i(m.timeout_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ElectLeadersRequest", version, error) from error


def decode_elect_leaders_request(data: memoryview, version: int) -> ElectLeadersRequest:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 1:
            (election_type,) = _unpack_b(data, p)
            p += 1
        else:
            election_type = 0
        count, p = nullable_count_(data, p, 3)
        topic_partitions: list[TopicPartitions] | None
        if count < 0:
            topic_partitions = None
        else:
            topic_partitions = []
            for _ in range(count):
                topic_1, p = string_(data, p)
                count, p = count_(data, p, 4)
                partitions_1, p = read_numbers(data, p, count, "i")
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topic_partitions.append(TopicPartitions(topic_1, partitions_1))
        (timeout_ms,) = _unpack_i(data, p)
        p += 4
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ElectLeadersRequest(election_type, topic_partitions, timeout_ms)
    except DECODE_ERRORS as error:
        raise malformed("ElectLeadersRequest", version, error) from None


def encode_elect_leaders_response(m: ElectLeadersResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        else:
            add(_pack_i(m.throttle_time_ms))
        values_1 = m.replica_election_results
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.topic))
            values_3 = m_2.partition_result
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.partition_id, m_4.error_code))
                add(nullable_string_(m_4.error_message))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ElectLeadersResponse", version, error) from error


def decode_elect_leaders_response(data: memoryview, version: int) -> ElectLeadersResponse:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 1:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
        else:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
            error_code = 0
        count, p = count_(data, p, 3)
        replica_election_results: list[ReplicaElectionResult] = []
        for _ in range(count):
            topic_1, p = string_(data, p)
            count, p = count_(data, p, 8)
            partition_result_1: list[PartitionResult] = []
            for _ in range(count):
                partition_id_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2, p = nullable_string_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partition_result_1.append(PartitionResult(partition_id_2, error_code_2, error_message_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            replica_election_results.append(ReplicaElectionResult(topic_1, partition_result_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ElectLeadersResponse(throttle_time_ms, error_code, replica_election_results)
    except DECODE_ERRORS as error:
        raise malformed("ElectLeadersResponse", version, error) from None
