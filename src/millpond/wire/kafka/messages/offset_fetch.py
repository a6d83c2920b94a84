"""OffsetFetch request and response (api 9), versions 1-10.

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
    uuid_of,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_iqi = Struct(">iqi")
_pack_iqi, _unpack_iqi = _iqi.pack, _iqi.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class OffsetFetchRequestTopic(Message):
    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        name: str = "",
        partition_indexes: list[int] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partition_indexes: list[int] = [] if partition_indexes is NOT_GIVEN else partition_indexes


class OffsetFetchRequestTopics(Message):
    __slots__ = ("name", "topic_id", "partition_indexes")

    def __init__(
        self,
        name: str = "",
        topic_id: UUID = NO_ID,
        partition_indexes: list[int] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes: list[int] = [] if partition_indexes is NOT_GIVEN else partition_indexes


class OffsetFetchRequestGroup(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "topics")

    def __init__(
        self,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics: list[OffsetFetchRequestTopics] | None = [] if topics is NOT_GIVEN else topics


class OffsetFetchRequest(Message):
    __slots__ = ("group_id", "topics", "groups", "require_stable")

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = NOT_GIVEN,
        groups: list[OffsetFetchRequestGroup] = NOT_GIVEN,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetFetchRequestTopic] | None = [] if topics is NOT_GIVEN else topics
        self.groups: list[OffsetFetchRequestGroup] = [] if groups is NOT_GIVEN else groups
        self.require_stable = require_stable


class OffsetFetchResponsePartition(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[OffsetFetchResponsePartition] = [] if partitions is NOT_GIVEN else partitions


class OffsetFetchResponsePartitions(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(Message):
    __slots__ = ("name", "topic_id", "partitions")

    def __init__(
        self,
        name: str = "",
        topic_id: UUID = NO_ID,
        partitions: list[OffsetFetchResponsePartitions] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[OffsetFetchResponsePartitions] = [] if partitions is NOT_GIVEN else partitions


class OffsetFetchResponseGroup(Message):
    __slots__ = ("group_id", "topics", "error_code")

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] = NOT_GIVEN,
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics: list[OffsetFetchResponseTopics] = [] if topics is NOT_GIVEN else topics
        self.error_code = error_code


class OffsetFetchResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] = NOT_GIVEN,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[OffsetFetchResponseTopic] = [] if topics is NOT_GIVEN else topics
        self.error_code = error_code
        self.groups: list[OffsetFetchResponseGroup] = [] if groups is NOT_GIVEN else groups


def encode_offset_fetch_request(m: OffsetFetchRequest, version: int) -> bytes:
    try:
        flexible = version >= 6
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version <= 7:
            add(string_(m.group_id))
            values_1 = m.topics
            if values_1 is None:
                if not version >= 2:
                    raise TypeError("topics may not be null")
                add(count_(-1))
            else:
                add(count_(len(values_1)))
                for m_2 in values_1:
                    add(string_(m_2.name))
                    values_3 = m_2.partition_indexes
                    add(count_(len(values_3)))
                    add(pack_numbers(values_3, "i"))
                    if flexible:
                        add(b"\x00")
        if version >= 8:
            values_4 = m.groups
            add(count_(len(values_4)))
            for m_5 in values_4:
                add(string_(m_5.group_id))
                if version >= 9:
                    add(nullable_string_(m_5.member_id))
                    add(_pack_i(m_5.member_epoch))
                values_6 = m_5.topics
                if values_6 is None:
                    add(count_(-1))
                else:
                    add(count_(len(values_6)))
                    for m_7 in values_6:
                        if version <= 9:
                            add(string_(m_7.name))
                        if version >= 10:
                            add(_pack_u(m_7.topic_id.bytes))
                        values_8 = m_7.partition_indexes
                        add(count_(len(values_8)))
                        add(pack_numbers(values_8, "i"))
                        add(b"\x00")
                add(b"\x00")
        if version >= 7:
            add(_pack_o(m.require_stable))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("OffsetFetchRequest", version, error) from error


def decode_offset_fetch_request(data: memoryview, version: int) -> OffsetFetchRequest:
    try:
        flexible = version >= 6
        count_ = read_compact_count if flexible else read_count
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        topics: list[OffsetFetchRequestTopic] | None
        if version <= 7:
            group_id, p = string_(data, p)
            count, p = (nullable_count_ if version >= 2 else count_)(data, p, 3)
            if count < 0:
                topics = None
            else:
                topics = []
                for _ in range(count):
                    name_1, p = string_(data, p)
                    count, p = count_(data, p, 4)
                    partition_indexes_1, p = read_numbers(data, p, count, "i")
                    if flexible:
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    topics.append(OffsetFetchRequestTopic(name_1, partition_indexes_1))
        else:
            group_id = ""
            topics = []
        groups: list[OffsetFetchRequestGroup]
        if version >= 8:
            count, p = count_(data, p, 3)
            groups = []
            for _ in range(count):
                group_id_2, p = string_(data, p)
                member_id_2: str | None
                if version >= 9:
                    member_id_2, p = nullable_string_(data, p)
                    (member_epoch_2,) = _unpack_i(data, p)
                    p += 4
                else:
                    member_id_2 = None
                    member_epoch_2 = -1
                count, p = nullable_count_(data, p, 3)
                topics_2: list[OffsetFetchRequestTopics] | None
                if count < 0:
                    topics_2 = None
                else:
                    topics_2 = []
                    for _ in range(count):
                        if version <= 9:
                            name_3, p = string_(data, p)
                        else:
                            name_3 = ""
                        if version >= 10:
                            (topic_id_3,) = _unpack_u(data, p)
                            p += 16
                            topic_id_3 = uuid_of(topic_id_3)
                        else:
                            topic_id_3 = NO_ID
                        count, p = count_(data, p, 4)
                        partition_indexes_3, p = read_numbers(data, p, count, "i")
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        topics_2.append(OffsetFetchRequestTopics(name_3, topic_id_3, partition_indexes_3))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                groups.append(OffsetFetchRequestGroup(group_id_2, member_id_2, member_epoch_2, topics_2))
        else:
            groups = []
        if version >= 7:
            require_stable = data[p] != 0
            p += 1
        else:
            require_stable = False
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return OffsetFetchRequest(group_id, topics, groups, require_stable)
    except DECODE_ERRORS as error:
        raise malformed("OffsetFetchRequest", version, error) from None


def encode_offset_fetch_response(m: OffsetFetchResponse, version: int) -> bytes:
    try:
        flexible = version >= 6
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 3:
            add(_pack_i(m.throttle_time_ms))
        if version <= 7:
            values_1 = m.topics
            add(count_(len(values_1)))
            for m_2 in values_1:
                add(string_(m_2.name))
                values_3 = m_2.partitions
                add(count_(len(values_3)))
                for m_4 in values_3:
                    if version >= 5:
                        add(_pack_iqi(m_4.partition_index, m_4.committed_offset, m_4.committed_leader_epoch))
                    else:
                        add(_pack_iq(m_4.partition_index, m_4.committed_offset))
                    add(nullable_string_(m_4.metadata))
                    add(_pack_h(m_4.error_code))
                    if flexible:
                        add(b"\x00")
                if flexible:
                    add(b"\x00")
        if 2 <= version <= 7:
            add(_pack_h(m.error_code))
        if version >= 8:
            values_5 = m.groups
            add(count_(len(values_5)))
            for m_6 in values_5:
                add(string_(m_6.group_id))
                values_7 = m_6.topics
                add(count_(len(values_7)))
                for m_8 in values_7:
                    if version <= 9:
                        add(string_(m_8.name))
                    if version >= 10:
                        add(_pack_u(m_8.topic_id.bytes))
                    values_9 = m_8.partitions
                    add(count_(len(values_9)))
                    for m_10 in values_9:
                        add(_pack_iqi(m_10.partition_index, m_10.committed_offset, m_10.committed_leader_epoch))
                        add(nullable_string_(m_10.metadata))
                        add(_pack_h(m_10.error_code))
                        add(b"\x00")
                    add(b"\x00")
                add(_pack_h(m_6.error_code))
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("OffsetFetchResponse", version, error) from error


def decode_offset_fetch_response(data: memoryview, version: int) -> OffsetFetchResponse:
    try:
        flexible = version >= 6
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 3:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
        else:
            throttle_time_ms = 0
        topics: list[OffsetFetchResponseTopic]
        if version <= 7:
            count, p = count_(data, p, 3)
            topics = []
            for _ in range(count):
                name_1, p = string_(data, p)
                count, p = count_(data, p, 16)
                partitions_1: list[OffsetFetchResponsePartition] = []
                for _ in range(count):
                    if version >= 5:
                        partition_index_2, committed_offset_2, committed_leader_epoch_2 = _unpack_iqi(data, p)
                        p += 16
                    else:
                        partition_index_2, committed_offset_2 = _unpack_iq(data, p)
                        p += 12
                        committed_leader_epoch_2 = -1
                    metadata_2, p = nullable_string_(data, p)
                    (error_code_2,) = _unpack_h(data, p)
                    p += 2
                    if flexible:
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    partitions_1.append(OffsetFetchResponsePartition(partition_index_2, committed_offset_2, committed_leader_epoch_2, metadata_2, error_code_2))
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics.append(OffsetFetchResponseTopic(name_1, partitions_1))
        else:
            topics = []
        if 2 <= version <= 7:
            (error_code,) = _unpack_h(data, p)
            p += 2
        else:
            error_code = 0
        groups: list[OffsetFetchResponseGroup]
        if version >= 8:
            count, p = count_(data, p, 5)
            groups = []
            for _ in range(count):
                group_id_3, p = string_(data, p)
                count, p = count_(data, p, 3)
                topics_3: list[OffsetFetchResponseTopics] = []
                for _ in range(count):
                    if version <= 9:
                        name_4, p = string_(data, p)
                    else:
                        name_4 = ""
                    if version >= 10:
                        (topic_id_4,) = _unpack_u(data, p)
                        p += 16
                        topic_id_4 = uuid_of(topic_id_4)
                    else:
                        topic_id_4 = NO_ID
                    count, p = count_(data, p, 20)
                    partitions_4: list[OffsetFetchResponsePartitions] = []
                    for _ in range(count):
                        partition_index_5, committed_offset_5, committed_leader_epoch_5 = _unpack_iqi(data, p)
                        p += 16
                        metadata_5, p = nullable_string_(data, p)
                        (error_code_5,) = _unpack_h(data, p)
                        p += 2
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        partitions_4.append(OffsetFetchResponsePartitions(partition_index_5, committed_offset_5, committed_leader_epoch_5, metadata_5, error_code_5))
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    topics_3.append(OffsetFetchResponseTopics(name_4, topic_id_4, partitions_4))
                (error_code_3,) = _unpack_h(data, p)
                p += 2
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                groups.append(OffsetFetchResponseGroup(group_id_3, topics_3, error_code_3))
        else:
            groups = []
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return OffsetFetchResponse(throttle_time_ms, topics, error_code, groups)
    except DECODE_ERRORS as error:
        raise malformed("OffsetFetchResponse", version, error) from None
