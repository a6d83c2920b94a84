"""ListOffsets request and response (api 2), versions 1-11.

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
_ib = Struct(">ib")
_pack_ib, _unpack_ib = _ib.pack, _ib.unpack_from
_ihqq = Struct(">ihqq")
_pack_ihqq, _unpack_ihqq = _ihqq.pack, _ihqq.unpack_from
_ihqqi = Struct(">ihqqi")
_pack_ihqqi, _unpack_ihqqi = _ihqqi.pack, _ihqqi.unpack_from
_iiq = Struct(">iiq")
_pack_iiq, _unpack_iiq = _iiq.pack, _iiq.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from


class ListOffsetsPartition(Message):
    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")

    def __init__(
        self,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsTopic(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[ListOffsetsPartition] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[ListOffsetsPartition] = [] if partitions is NOT_GIVEN else partitions


class ListOffsetsRequest(Message):
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")

    def __init__(
        self,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] = NOT_GIVEN,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics: list[ListOffsetsTopic] = [] if topics is NOT_GIVEN else topics
        self.timeout_ms = timeout_ms


class ListOffsetsPartitionResponse(Message):
    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsTopicResponse(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[ListOffsetsPartitionResponse] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[ListOffsetsPartitionResponse] = [] if partitions is NOT_GIVEN else partitions


class ListOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsTopicResponse] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[ListOffsetsTopicResponse] = [] if topics is NOT_GIVEN else topics


def encode_list_offsets_request(m: ListOffsetsRequest, version: int) -> bytes:
    try:
        flexible = version >= 6
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 2:
            add(_pack_ib(m.replica_id, m.isolation_level))
        else:
            add(_pack_i(m.replica_id))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.name))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                if version >= 4:
                    add(_pack_iiq(m_4.partition_index, m_4.current_leader_epoch, m_4.timestamp))
                else:
                    add(_pack_iq(m_4.partition_index, m_4.timestamp))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if version >= 10:
            add(_pack_i(m.timeout_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListOffsetsRequest", version, error) from error


def decode_list_offsets_request(data: memoryview, version: int) -> ListOffsetsRequest:
    try:
        flexible = version >= 6
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 2:
            replica_id, isolation_level = _unpack_ib(data, p)
            p += 5
        else:
            (replica_id,) = _unpack_i(data, p)
            p += 4
            isolation_level = 0
        count, p = count_(data, p, 3)
        topics: list[ListOffsetsTopic] = []
        for _ in range(count):
            name_1, p = string_(data, p)
            count, p = count_(data, p, 12)
            partitions_1: list[ListOffsetsPartition] = []
            for _ in range(count):
                if version >= 4:
                    partition_index_2, current_leader_epoch_2, timestamp_2 = _unpack_iiq(data, p)
                    p += 16
                else:
                    partition_index_2, timestamp_2 = _unpack_iq(data, p)
                    p += 12
                    current_leader_epoch_2 = -1
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(ListOffsetsPartition(partition_index_2, current_leader_epoch_2, timestamp_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(ListOffsetsTopic(name_1, partitions_1))
        if version >= 10:
            (timeout_ms,) = _unpack_i(data, p)
            p += 4
        else:
            timeout_ms = 0
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListOffsetsRequest(replica_id, isolation_level, topics, timeout_ms)
    except DECODE_ERRORS as error:
        raise malformed("ListOffsetsRequest", version, error) from None


def encode_list_offsets_response(m: ListOffsetsResponse, version: int) -> bytes:
    try:
        flexible = version >= 6
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 2:
            add(_pack_i(m.throttle_time_ms))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.name))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                if version >= 4:
                    add(_pack_ihqqi(m_4.partition_index, m_4.error_code, m_4.timestamp, m_4.offset, m_4.leader_epoch))
                else:
                    add(_pack_ihqq(m_4.partition_index, m_4.error_code, m_4.timestamp, m_4.offset))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListOffsetsResponse", version, error) from error


def decode_list_offsets_response(data: memoryview, version: int) -> ListOffsetsResponse:
    try:
        flexible = version >= 6
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 2:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
        else:
            throttle_time_ms = 0
        count, p = count_(data, p, 3)
        topics: list[ListOffsetsTopicResponse] = []
        for _ in range(count):
            name_1, p = string_(data, p)
            count, p = count_(data, p, 22)
            partitions_1: list[ListOffsetsPartitionResponse] = []
            for _ in range(count):
                if version >= 4:
                    partition_index_2, error_code_2, timestamp_2, offset_2, leader_epoch_2 = _unpack_ihqqi(data, p)
                    p += 26
                else:
                    partition_index_2, error_code_2, timestamp_2, offset_2 = _unpack_ihqq(data, p)
                    p += 22
                    leader_epoch_2 = -1
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(ListOffsetsPartitionResponse(partition_index_2, error_code_2, timestamp_2, offset_2, leader_epoch_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(ListOffsetsTopicResponse(name_1, partitions_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListOffsetsResponse(throttle_time_ms, topics)
    except DECODE_ERRORS as error:
        raise malformed("ListOffsetsResponse", version, error) from None
