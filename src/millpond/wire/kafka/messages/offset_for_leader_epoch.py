"""OffsetForLeaderEpoch request and response (api 23), versions 2-4.

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

_hiiq = Struct(">hiiq")
_pack_hiiq, _unpack_hiiq = _hiiq.pack, _hiiq.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_iii = Struct(">iii")
_pack_iii, _unpack_iii = _iii.pack, _iii.unpack_from


class OffsetForLeaderPartition(Message):
    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(Message):
    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        topic: str = "",
        partitions: list[OffsetForLeaderPartition] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.partitions: list[OffsetForLeaderPartition] = [] if partitions is NOT_GIVEN else partitions


class OffsetForLeaderEpochRequest(Message):
    __slots__ = ("replica_id", "topics")

    def __init__(
        self,
        replica_id: int = -2,
        topics: list[OffsetForLeaderTopic] = NOT_GIVEN,
    ) -> None:
        self.replica_id = replica_id
        self.topics: list[OffsetForLeaderTopic] = [] if topics is NOT_GIVEN else topics


class EpochEndOffset(Message):
    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")

    def __init__(
        self,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(Message):
    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        topic: str = "",
        partitions: list[EpochEndOffset] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.partitions: list[EpochEndOffset] = [] if partitions is NOT_GIVEN else partitions


class OffsetForLeaderEpochResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderTopicResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetForLeaderTopicResult] = [] if topics is NOT_GIVEN else topics


def encode_offset_for_leader_epoch_request(m: OffsetForLeaderEpochRequest, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 3:
            add(_pack_i(m.replica_id))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.topic))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_iii(m_4.partition, m_4.current_leader_epoch, m_4.leader_epoch))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("OffsetForLeaderEpochRequest", version, error) from error


def decode_offset_for_leader_epoch_request(data: memoryview, version: int) -> OffsetForLeaderEpochRequest:
    try:
        flexible = version >= 4
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 3:
            (replica_id,) = _unpack_i(data, p)
            p += 4
        else:
            replica_id = -2
        count, p = count_(data, p, 3)
        topics: list[OffsetForLeaderTopic] = []
        for _ in range(count):
            topic_1, p = string_(data, p)
            count, p = count_(data, p, 12)
            partitions_1: list[OffsetForLeaderPartition] = []
            for _ in range(count):
                partition_2, current_leader_epoch_2, leader_epoch_2 = _unpack_iii(data, p)
                p += 12
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(OffsetForLeaderPartition(partition_2, current_leader_epoch_2, leader_epoch_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(OffsetForLeaderTopic(topic_1, partitions_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return OffsetForLeaderEpochRequest(replica_id, topics)
    except DECODE_ERRORS as error:
        raise malformed("OffsetForLeaderEpochRequest", version, error) from None


def encode_offset_for_leader_epoch_response(m: OffsetForLeaderEpochResponse, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.topic))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_hiiq(m_4.error_code, m_4.partition, m_4.leader_epoch, m_4.end_offset))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("OffsetForLeaderEpochResponse", version, error) from error


def decode_offset_for_leader_epoch_response(data: memoryview, version: int) -> OffsetForLeaderEpochResponse:
    try:
        flexible = version >= 4
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 3)
        topics: list[OffsetForLeaderTopicResult] = []
        for _ in range(count):
            topic_1, p = string_(data, p)
            count, p = count_(data, p, 18)
            partitions_1: list[EpochEndOffset] = []
            for _ in range(count):
                error_code_2, partition_2, leader_epoch_2, end_offset_2 = _unpack_hiiq(data, p)
                p += 18
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(EpochEndOffset(error_code_2, partition_2, leader_epoch_2, end_offset_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(OffsetForLeaderTopicResult(topic_1, partitions_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return OffsetForLeaderEpochResponse(throttle_time_ms, topics)
    except DECODE_ERRORS as error:
        raise malformed("OffsetForLeaderEpochResponse", version, error) from None
