"""DeleteRecords request and response (api 21), versions 0-2.

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
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_string,
    skip_tags,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_iqh = Struct(">iqh")
_pack_iqh, _unpack_iqh = _iqh.pack, _iqh.unpack_from


class DeleteRecordsPartition(Message):
    __slots__ = ("partition_index", "offset")

    def __init__(
        self,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[DeleteRecordsPartition] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[DeleteRecordsPartition] = [] if partitions is NOT_GIVEN else partitions


class DeleteRecordsRequest(Message):
    __slots__ = ("topics", "timeout_ms")

    def __init__(
        self,
        topics: list[DeleteRecordsTopic] = NOT_GIVEN,
        timeout_ms: int = 0,
    ) -> None:
        self.topics: list[DeleteRecordsTopic] = [] if topics is NOT_GIVEN else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsPartitionResult(Message):
    __slots__ = ("partition_index", "low_watermark", "error_code")

    def __init__(
        self,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[DeleteRecordsPartitionResult] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[DeleteRecordsPartitionResult] = [] if partitions is NOT_GIVEN else partitions


class DeleteRecordsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsTopicResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[DeleteRecordsTopicResult] = [] if topics is NOT_GIVEN else topics


def encode_delete_records_request(m: DeleteRecordsRequest, version: int) -> bytes:
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
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_iq(m_4.partition_index, m_4.offset))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        add(_pack_i(m.timeout_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteRecordsRequest", version, error) from error


def decode_delete_records_request(data: memoryview, version: int) -> DeleteRecordsRequest:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 3)
        topics: list[DeleteRecordsTopic] = []
        for _ in range(count):
            name_1, p = string_(data, p)
            count, p = count_(data, p, 12)
            partitions_1: list[DeleteRecordsPartition] = []
            for _ in range(count):
                partition_index_2, offset_2 = _unpack_iq(data, p)
                p += 12
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(DeleteRecordsPartition(partition_index_2, offset_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(DeleteRecordsTopic(name_1, partitions_1))
        (timeout_ms,) = _unpack_i(data, p)
        p += 4
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteRecordsRequest(topics, timeout_ms)
    except DECODE_ERRORS as error:
        raise malformed("DeleteRecordsRequest", version, error) from None


def encode_delete_records_response(m: DeleteRecordsResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.name))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_iqh(m_4.partition_index, m_4.low_watermark, m_4.error_code))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteRecordsResponse", version, error) from error


def decode_delete_records_response(data: memoryview, version: int) -> DeleteRecordsResponse:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 3)
        topics: list[DeleteRecordsTopicResult] = []
        for _ in range(count):
            name_1, p = string_(data, p)
            count, p = count_(data, p, 14)
            partitions_1: list[DeleteRecordsPartitionResult] = []
            for _ in range(count):
                partition_index_2, low_watermark_2, error_code_2 = _unpack_iqh(data, p)
                p += 14
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(DeleteRecordsPartitionResult(partition_index_2, low_watermark_2, error_code_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(DeleteRecordsTopicResult(name_1, partitions_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteRecordsResponse(throttle_time_ms, topics)
    except DECODE_ERRORS as error:
        raise malformed("DeleteRecordsResponse", version, error) from None
