"""DescribeLogDirs request and response (api 35), versions 1-5.

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
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_count,
    read_nullable_compact_string,
    read_nullable_count,
    read_nullable_string,
    read_numbers,
    read_string,
    read_tag,
    read_uvarint,
    skip_tags,
    unencodable,
    wrong_tag_size,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_iqqo = Struct(">iqq?")
_pack_iqqo, _unpack_iqqo = _iqqo.pack, _iqqo.unpack_from
_qq = Struct(">qq")
_pack_qq, _unpack_qq = _qq.pack, _qq.unpack_from
_qqo = Struct(">qq?")
_pack_qqo, _unpack_qqo = _qqo.pack, _qqo.unpack_from


class DescribableLogDirTopic(Message):
    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class DescribeLogDirsRequest(Message):
    __slots__ = ("topics",)

    def __init__(
        self,
        topics: list[DescribableLogDirTopic] | None = NOT_GIVEN,
    ) -> None:
        self.topics: list[DescribableLogDirTopic] | None = [] if topics is NOT_GIVEN else topics


class DamagedRange(Message):
    __slots__ = ("first_offset", "next_offset", "reason")

    def __init__(
        self,
        first_offset: int = 0,
        next_offset: int = 0,
        reason: str = "",
    ) -> None:
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.reason = reason


class DescribeLogDirsPartition(Message):
    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key", "damage")

    def __init__(
        self,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
        damage: list[DamagedRange] = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key
        self.damage: list[DamagedRange] = [] if damage is NOT_GIVEN else damage


class DescribeLogDirsTopic(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[DescribeLogDirsPartition] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[DescribeLogDirsPartition] = [] if partitions is NOT_GIVEN else partitions


class DescribeLogDirsResult(Message):
    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned", "failure")

    def __init__(
        self,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] = NOT_GIVEN,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
        failure: str | None = None,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics: list[DescribeLogDirsTopic] = [] if topics is NOT_GIVEN else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned
        self.failure = failure


class DescribeLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results: list[DescribeLogDirsResult] = [] if results is NOT_GIVEN else results


def encode_describe_log_dirs_request(m: DescribeLogDirsRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.topics
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
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeLogDirsRequest", version, error) from error


def decode_describe_log_dirs_request(data: memoryview, version: int) -> DescribeLogDirsRequest:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = nullable_count_(data, p, 3)
        topics: list[DescribableLogDirTopic] | None
        if count < 0:
            topics = None
        else:
            topics = []
            for _ in range(count):
                topic_1, p = string_(data, p)
                count, p = count_(data, p, 4)
                partitions_1, p = read_numbers(data, p, count, "i")
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics.append(DescribableLogDirTopic(topic_1, partitions_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeLogDirsRequest(topics)
    except DECODE_ERRORS as error:
        raise malformed("DescribeLogDirsRequest", version, error) from None


def encode_describe_log_dirs_response(m: DescribeLogDirsResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 3:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        else:
            add(_pack_i(m.throttle_time_ms))
        values_1 = m.results
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(string_(m_2.log_dir))
            values_3 = m_2.topics
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(string_(m_4.name))
                values_5 = m_4.partitions
                add(count_(len(values_5)))
                for m_6 in values_5:
                    add(_pack_iqqo(m_6.partition_index, m_6.partition_size, m_6.offset_lag, m_6.is_future_key))
                    if flexible:
                        tags_7: list[tuple[int, bytes]] = []
                        if version >= 2 and m_6.damage:
                            parts_8: list[BytesLike] = []
                            add_8 = parts_8.append
                            values_9 = m_6.damage
                            add_8(count_(len(values_9)))
                            for m_10 in values_9:
                                add_8(_pack_qq(m_10.first_offset, m_10.next_offset))
                                add_8(string_(m_10.reason))
                                add_8(b"\x00")
                            tags_7.append((1000, b"".join(parts_8)))
                        add(pack_tags(tags_7))
                if flexible:
                    add(b"\x00")
            if version >= 5:
                add(_pack_qqo(m_2.total_bytes, m_2.usable_bytes, m_2.is_cordoned))
            elif version >= 4:
                add(_pack_qq(m_2.total_bytes, m_2.usable_bytes))
            if flexible:
                tags_11: list[tuple[int, bytes]] = []
                if version >= 2 and m_2.failure is not None:
                    parts_12: list[BytesLike] = []
                    add_12 = parts_12.append
                    add_12(nullable_string_(m_2.failure))
                    tags_11.append((1000, b"".join(parts_12)))
                add(pack_tags(tags_11))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeLogDirsResponse", version, error) from error


def decode_describe_log_dirs_response(data: memoryview, version: int) -> DescribeLogDirsResponse:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 3:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
        else:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
            error_code = 0
        count, p = count_(data, p, 5)
        results: list[DescribeLogDirsResult] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            log_dir_1, p = string_(data, p)
            count, p = count_(data, p, 3)
            topics_1: list[DescribeLogDirsTopic] = []
            for _ in range(count):
                name_2, p = string_(data, p)
                count, p = count_(data, p, 21)
                partitions_2: list[DescribeLogDirsPartition] = []
                for _ in range(count):
                    partition_index_3, partition_size_3, offset_lag_3, is_future_key_3 = _unpack_iqqo(data, p)
                    p += 21
                    damage_3: list[DamagedRange] = []
                    if flexible:
                        if data[p] == 0:
                            p += 1
                        else:
                            tag_count_3, p = read_uvarint(data, p)
                            for _ in range(tag_count_3):
                                tag_3, p, stop_3 = read_tag(data, p)
                                if tag_3 == 1000 and version >= 2:
                                    count, p = count_(data, p, 18)
                                    damage_3 = []
                                    for _ in range(count):
                                        first_offset_4, next_offset_4 = _unpack_qq(data, p)
                                        p += 16
                                        reason_4, p = string_(data, p)
                                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                                        damage_3.append(DamagedRange(first_offset_4, next_offset_4, reason_4))
                                    if p != stop_3:
                                        raise wrong_tag_size(tag_3, p, stop_3)
                                p = stop_3
                    partitions_2.append(DescribeLogDirsPartition(partition_index_3, partition_size_3, offset_lag_3, is_future_key_3, damage_3))
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics_1.append(DescribeLogDirsTopic(name_2, partitions_2))
            if version >= 5:
                total_bytes_1, usable_bytes_1, is_cordoned_1 = _unpack_qqo(data, p)
                p += 17
            elif version >= 4:
                total_bytes_1, usable_bytes_1 = _unpack_qq(data, p)
                p += 16
                is_cordoned_1 = False
            else:
                total_bytes_1 = -1
                usable_bytes_1 = -1
                is_cordoned_1 = False
            failure_1: str | None = None
            if flexible:
                if data[p] == 0:
                    p += 1
                else:
                    tag_count_1, p = read_uvarint(data, p)
                    for _ in range(tag_count_1):
                        tag_1, p, stop_1 = read_tag(data, p)
                        if tag_1 == 1000 and version >= 2:
                            failure_1, p = nullable_string_(data, p)
                            if p != stop_1:
                                raise wrong_tag_size(tag_1, p, stop_1)
                        p = stop_1
            results.append(DescribeLogDirsResult(error_code_1, log_dir_1, topics_1, total_bytes_1, usable_bytes_1, is_cordoned_1, failure_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeLogDirsResponse(throttle_time_ms, error_code, results)
    except DECODE_ERRORS as error:
        raise malformed("DescribeLogDirsResponse", version, error) from None
