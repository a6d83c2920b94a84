"""CreatePartitions request and response (api 37), versions 0-3.

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

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_io = Struct(">i?")
_pack_io, _unpack_io = _io.pack, _io.unpack_from


class CreatePartitionsAssignment(Message):
    __slots__ = ("broker_ids",)

    def __init__(
        self,
        broker_ids: list[int] = NOT_GIVEN,
    ) -> None:
        self.broker_ids: list[int] = [] if broker_ids is NOT_GIVEN else broker_ids


class CreatePartitionsTopic(Message):
    __slots__ = ("name", "count", "assignments")

    def __init__(
        self,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments: list[CreatePartitionsAssignment] | None = [] if assignments is NOT_GIVEN else assignments


class CreatePartitionsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")

    def __init__(
        self,
        topics: list[CreatePartitionsTopic] = NOT_GIVEN,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatePartitionsTopic] = [] if topics is NOT_GIVEN else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopicResult(Message):
    __slots__ = ("name", "error_code", "error_message")

    def __init__(
        self,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsTopicResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[CreatePartitionsTopicResult] = [] if results is NOT_GIVEN else results


def encode_create_partitions_request(m: CreatePartitionsRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.name))
            add(_pack_i(m_2.count))
            values_3 = m_2.assignments
            if values_3 is None:
                add(count_(-1))
            else:
                add(count_(len(values_3)))
                for m_4 in values_3:
                    values_5 = m_4.broker_ids
                    add(count_(len(values_5)))
                    add(pack_numbers(values_5, "i"))
                    if flexible:
                        add(b"\x00")
            if flexible:
                add(b"\x00")
        add(_pack_io(m.timeout_ms, m.validate_only))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("CreatePartitionsRequest", version, error) from error


def decode_create_partitions_request(data: memoryview, version: int) -> CreatePartitionsRequest:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 7)
        topics: list[CreatePartitionsTopic] = []
        for _ in range(count):
            name_1, p = string_(data, p)
            (count_1,) = _unpack_i(data, p)
            p += 4
            count, p = nullable_count_(data, p, 2)
            assignments_1: list[CreatePartitionsAssignment] | None
            if count < 0:
                assignments_1 = None
            else:
                assignments_1 = []
                for _ in range(count):
                    count, p = count_(data, p, 4)
                    broker_ids_2, p = read_numbers(data, p, count, "i")
                    if flexible:
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    assignments_1.append(CreatePartitionsAssignment(broker_ids_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(CreatePartitionsTopic(name_1, count_1, assignments_1))
        timeout_ms, validate_only = _unpack_io(data, p)
        p += 5
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return CreatePartitionsRequest(topics, timeout_ms, validate_only)
    except DECODE_ERRORS as error:
        raise malformed("CreatePartitionsRequest", version, error) from None


def encode_create_partitions_response(m: CreatePartitionsResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.results
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.name))
            add(_pack_h(m_2.error_code))
            add(nullable_string_(m_2.error_message))
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("CreatePartitionsResponse", version, error) from error


def decode_create_partitions_response(data: memoryview, version: int) -> CreatePartitionsResponse:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 5)
        results: list[CreatePartitionsTopicResult] = []
        for _ in range(count):
            name_1, p = string_(data, p)
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = nullable_string_(data, p)
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(CreatePartitionsTopicResult(name_1, error_code_1, error_message_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return CreatePartitionsResponse(throttle_time_ms, results)
    except DECODE_ERRORS as error:
        raise malformed("CreatePartitionsResponse", version, error) from None
