"""AlterReplicaLogDirs request and response (api 34), versions 1-2.

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
    pack_numbers,
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_numbers,
    read_string,
    skip_tags,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class AlterReplicaLogDirTopic(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class AlterReplicaLogDir(Message):
    __slots__ = ("path", "topics")

    def __init__(
        self,
        path: str = "",
        topics: list[AlterReplicaLogDirTopic] = NOT_GIVEN,
    ) -> None:
        self.path = path
        self.topics: list[AlterReplicaLogDirTopic] = [] if topics is NOT_GIVEN else topics


class AlterReplicaLogDirsRequest(Message):
    __slots__ = ("dirs",)

    def __init__(
        self,
        dirs: list[AlterReplicaLogDir] = NOT_GIVEN,
    ) -> None:
        self.dirs: list[AlterReplicaLogDir] = [] if dirs is NOT_GIVEN else dirs


class AlterReplicaLogDirPartitionResult(Message):
    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class AlterReplicaLogDirTopicResult(Message):
    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[AlterReplicaLogDirPartitionResult] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[AlterReplicaLogDirPartitionResult] = [] if partitions is NOT_GIVEN else partitions


class AlterReplicaLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirTopicResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[AlterReplicaLogDirTopicResult] = [] if results is NOT_GIVEN else results


def encode_alter_replica_log_dirs_request(m: AlterReplicaLogDirsRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.dirs
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.path))
            values_3 = m_2.topics
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(string_(m_4.name))
                values_5 = m_4.partitions
                add(count_(len(values_5)))
                add(pack_numbers(values_5, "i"))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterReplicaLogDirsRequest", version, error) from error


def decode_alter_replica_log_dirs_request(data: memoryview, version: int) -> AlterReplicaLogDirsRequest:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 3)
        dirs: list[AlterReplicaLogDir] = []
        for _ in range(count):
            path_1, p = string_(data, p)
            count, p = count_(data, p, 3)
            topics_1: list[AlterReplicaLogDirTopic] = []
            for _ in range(count):
                name_2, p = string_(data, p)
                count, p = count_(data, p, 4)
                partitions_2, p = read_numbers(data, p, count, "i")
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics_1.append(AlterReplicaLogDirTopic(name_2, partitions_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            dirs.append(AlterReplicaLogDir(path_1, topics_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterReplicaLogDirsRequest(dirs)
    except DECODE_ERRORS as error:
        raise malformed("AlterReplicaLogDirsRequest", version, error) from None


def encode_alter_replica_log_dirs_response(m: AlterReplicaLogDirsResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.results
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.topic_name))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.partition_index, m_4.error_code))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterReplicaLogDirsResponse", version, error) from error


def decode_alter_replica_log_dirs_response(data: memoryview, version: int) -> AlterReplicaLogDirsResponse:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 3)
        results: list[AlterReplicaLogDirTopicResult] = []
        for _ in range(count):
            topic_name_1, p = string_(data, p)
            count, p = count_(data, p, 6)
            partitions_1: list[AlterReplicaLogDirPartitionResult] = []
            for _ in range(count):
                partition_index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(AlterReplicaLogDirPartitionResult(partition_index_2, error_code_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(AlterReplicaLogDirTopicResult(topic_name_1, partitions_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterReplicaLogDirsResponse(throttle_time_ms, results)
    except DECODE_ERRORS as error:
        raise malformed("AlterReplicaLogDirsResponse", version, error) from None
