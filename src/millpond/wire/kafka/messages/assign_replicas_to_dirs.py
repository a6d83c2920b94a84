"""AssignReplicasToDirs request and response (api 73), versions 0.

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
    read_compact_count,
    skip_tags,
    unencodable,
    uuid_of,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class PartitionData(Message):
    __slots__ = ("partition_index",)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class TopicData(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is NOT_GIVEN else partitions


class DirectoryData(Message):
    __slots__ = ("id", "topics")

    def __init__(
        self,
        id: UUID = NO_ID,
        topics: list[TopicData] = NOT_GIVEN,
    ) -> None:
        self.id = id
        self.topics: list[TopicData] = [] if topics is NOT_GIVEN else topics


class AssignReplicasToDirsRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "directories")

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[DirectoryData] = NOT_GIVEN,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories: list[DirectoryData] = [] if directories is NOT_GIVEN else directories


class PartitionResult(Message):
    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TopicResult(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionResult] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is NOT_GIVEN else partitions


class DirectoryResult(Message):
    __slots__ = ("id", "topics")

    def __init__(
        self,
        id: UUID = NO_ID,
        topics: list[TopicResult] = NOT_GIVEN,
    ) -> None:
        self.id = id
        self.topics: list[TopicResult] = [] if topics is NOT_GIVEN else topics


class AssignReplicasToDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "directories")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[DirectoryResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories: list[DirectoryResult] = [] if directories is NOT_GIVEN else directories


def encode_assign_replicas_to_dirs_request(m: AssignReplicasToDirsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_iq(m.broker_id, m.broker_epoch))
        values_1 = m.directories
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_u(m_2.id.bytes))
            values_3 = m_2.topics
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_u(m_4.topic_id.bytes))
                values_5 = m_4.partitions
                add(pack_compact_count(len(values_5)))
                for m_6 in values_5:
                    add(_pack_i(m_6.partition_index))
                    add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AssignReplicasToDirsRequest", version, error) from error


def decode_assign_replicas_to_dirs_request(data: memoryview, version: int) -> AssignReplicasToDirsRequest:
    try:
        p = 0
        broker_id, broker_epoch = _unpack_iq(data, p)
        p += 12
        count, p = read_compact_count(data, p, 18)
        directories: list[DirectoryData] = []
        for _ in range(count):
            (id_1,) = _unpack_u(data, p)
            p += 16
            id_1 = uuid_of(id_1)
            count, p = read_compact_count(data, p, 18)
            topics_1: list[TopicData] = []
            for _ in range(count):
                (topic_id_2,) = _unpack_u(data, p)
                p += 16
                topic_id_2 = uuid_of(topic_id_2)
                count, p = read_compact_count(data, p, 5)
                partitions_2: list[PartitionData] = []
                for _ in range(count):
                    (partition_index_3,) = _unpack_i(data, p)
                    p += 4
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    partitions_2.append(PartitionData(partition_index_3))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics_1.append(TopicData(topic_id_2, partitions_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            directories.append(DirectoryData(id_1, topics_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AssignReplicasToDirsRequest(broker_id, broker_epoch, directories)
    except DECODE_ERRORS as error:
        raise malformed("AssignReplicasToDirsRequest", version, error) from None


def encode_assign_replicas_to_dirs_response(m: AssignReplicasToDirsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        values_1 = m.directories
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_u(m_2.id.bytes))
            values_3 = m_2.topics
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_u(m_4.topic_id.bytes))
                values_5 = m_4.partitions
                add(pack_compact_count(len(values_5)))
                for m_6 in values_5:
                    add(_pack_ih(m_6.partition_index, m_6.error_code))
                    add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AssignReplicasToDirsResponse", version, error) from error


def decode_assign_replicas_to_dirs_response(data: memoryview, version: int) -> AssignReplicasToDirsResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        count, p = read_compact_count(data, p, 18)
        directories: list[DirectoryResult] = []
        for _ in range(count):
            (id_1,) = _unpack_u(data, p)
            p += 16
            id_1 = uuid_of(id_1)
            count, p = read_compact_count(data, p, 18)
            topics_1: list[TopicResult] = []
            for _ in range(count):
                (topic_id_2,) = _unpack_u(data, p)
                p += 16
                topic_id_2 = uuid_of(topic_id_2)
                count, p = read_compact_count(data, p, 7)
                partitions_2: list[PartitionResult] = []
                for _ in range(count):
                    partition_index_3, error_code_3 = _unpack_ih(data, p)
                    p += 6
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    partitions_2.append(PartitionResult(partition_index_3, error_code_3))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics_1.append(TopicResult(topic_id_2, partitions_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            directories.append(DirectoryResult(id_1, topics_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AssignReplicasToDirsResponse(throttle_time_ms, error_code, directories)
    except DECODE_ERRORS as error:
        raise malformed("AssignReplicasToDirsResponse", version, error) from None
