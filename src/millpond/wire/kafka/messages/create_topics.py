"""CreateTopics request and response (api 19), versions 2-7.

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
    uuid_of,
    wrong_tag_size,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_io = Struct(">i?")
_pack_io, _unpack_io = _io.pack, _io.unpack_from
_obo = Struct(">?b?")
_pack_obo, _unpack_obo = _obo.pack, _obo.unpack_from
_uh = Struct(">16sh")
_pack_uh, _unpack_uh = _uh.pack, _uh.unpack_from


class CreatableReplicaAssignment(Message):
    __slots__ = ("partition_index", "broker_ids")

    def __init__(
        self,
        partition_index: int = 0,
        broker_ids: list[int] = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids: list[int] = [] if broker_ids is NOT_GIVEN else broker_ids


class CreatableTopicConfig(Message):
    __slots__ = ("name", "value")

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name = name
        self.value = value


class CreatableTopic(Message):
    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")

    def __init__(
        self,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] = NOT_GIVEN,
        configs: list[CreatableTopicConfig] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments: list[CreatableReplicaAssignment] = [] if assignments is NOT_GIVEN else assignments
        self.configs: list[CreatableTopicConfig] = [] if configs is NOT_GIVEN else configs


class CreateTopicsRequest(Message):
    __slots__ = ("topics", "timeout_ms", "validate_only")

    def __init__(
        self,
        topics: list[CreatableTopic] = NOT_GIVEN,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatableTopic] = [] if topics is NOT_GIVEN else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatableTopicConfigs(Message):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(Message):
    __slots__ = ("name", "topic_id", "error_code", "error_message", "topic_config_error_code", "num_partitions", "replication_factor", "configs")

    def __init__(
        self,
        name: str = "",
        topic_id: UUID = NO_ID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs: list[CreatableTopicConfigs] | None = [] if configs is NOT_GIVEN else configs


class CreateTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[CreatableTopicResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[CreatableTopicResult] = [] if topics is NOT_GIVEN else topics


def encode_create_topics_request(m: CreateTopicsRequest, version: int) -> bytes:
    try:
        flexible = version >= 5
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.name))
            add(_pack_ih(m_2.num_partitions, m_2.replication_factor))
            values_3 = m_2.assignments
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_i(m_4.partition_index))
                values_5 = m_4.broker_ids
                add(count_(len(values_5)))
                add(pack_numbers(values_5, "i"))
                if flexible:
                    add(b"\x00")
            values_6 = m_2.configs
            add(count_(len(values_6)))
            for m_7 in values_6:
                add(string_(m_7.name))
                add(nullable_string_(m_7.value))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        add(_pack_io(m.timeout_ms, m.validate_only))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("CreateTopicsRequest", version, error) from error


def decode_create_topics_request(data: memoryview, version: int) -> CreateTopicsRequest:
    try:
        flexible = version >= 5
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 10)
        topics: list[CreatableTopic] = []
        for _ in range(count):
            name_1, p = string_(data, p)
            num_partitions_1, replication_factor_1 = _unpack_ih(data, p)
            p += 6
            count, p = count_(data, p, 6)
            assignments_1: list[CreatableReplicaAssignment] = []
            for _ in range(count):
                (partition_index_2,) = _unpack_i(data, p)
                p += 4
                count, p = count_(data, p, 4)
                broker_ids_2, p = read_numbers(data, p, count, "i")
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                assignments_1.append(CreatableReplicaAssignment(partition_index_2, broker_ids_2))
            count, p = count_(data, p, 3)
            configs_1: list[CreatableTopicConfig] = []
            for _ in range(count):
                name_3, p = string_(data, p)
                value_3, p = nullable_string_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                configs_1.append(CreatableTopicConfig(name_3, value_3))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(CreatableTopic(name_1, num_partitions_1, replication_factor_1, assignments_1, configs_1))
        timeout_ms, validate_only = _unpack_io(data, p)
        p += 5
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return CreateTopicsRequest(topics, timeout_ms, validate_only)
    except DECODE_ERRORS as error:
        raise malformed("CreateTopicsRequest", version, error) from None


def encode_create_topics_response(m: CreateTopicsResponse, version: int) -> bytes:
    try:
        flexible = version >= 5
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.name))
            if version >= 7:
                add(_pack_uh(m_2.topic_id.bytes, m_2.error_code))
            else:
                add(_pack_h(m_2.error_code))
            add(nullable_string_(m_2.error_message))
            if version >= 5:
                add(_pack_ih(m_2.num_partitions, m_2.replication_factor))
                values_3 = m_2.configs
                if values_3 is None:
                    add(count_(-1))
                else:
                    add(count_(len(values_3)))
                    for m_4 in values_3:
                        add(string_(m_4.name))
                        add(nullable_string_(m_4.value))
                        add(_pack_obo(m_4.read_only, m_4.config_source, m_4.is_sensitive))
                        add(b"\x00")
            if flexible:
                tags_5: list[tuple[int, bytes]] = []
                if version >= 5 and m_2.topic_config_error_code != 0:
                    parts_6: list[BytesLike] = []
                    add_6 = parts_6.append
                    add_6(_pack_h(m_2.topic_config_error_code))
                    tags_5.append((0, b"".join(parts_6)))
                add(pack_tags(tags_5))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("CreateTopicsResponse", version, error) from error


def decode_create_topics_response(data: memoryview, version: int) -> CreateTopicsResponse:
    try:
        flexible = version >= 5
        count_ = read_compact_count if flexible else read_count
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 6)
        topics: list[CreatableTopicResult] = []
        for _ in range(count):
            name_1, p = string_(data, p)
            if version >= 7:
                topic_id_1, error_code_1 = _unpack_uh(data, p)
                p += 18
                topic_id_1 = uuid_of(topic_id_1)
            else:
                (error_code_1,) = _unpack_h(data, p)
                p += 2
                topic_id_1 = NO_ID
            error_message_1, p = nullable_string_(data, p)
            configs_1: list[CreatableTopicConfigs] | None
            if version >= 5:
                num_partitions_1, replication_factor_1 = _unpack_ih(data, p)
                p += 6
                count, p = nullable_count_(data, p, 6)
                if count < 0:
                    configs_1 = None
                else:
                    configs_1 = []
                    for _ in range(count):
                        name_2, p = string_(data, p)
                        value_2, p = nullable_string_(data, p)
                        read_only_2, config_source_2, is_sensitive_2 = _unpack_obo(data, p)
                        p += 3
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        configs_1.append(CreatableTopicConfigs(name_2, value_2, read_only_2, config_source_2, is_sensitive_2))
            else:
                num_partitions_1 = -1
                replication_factor_1 = -1
                configs_1 = []
            topic_config_error_code_1: int = 0
            if flexible:
                if data[p] == 0:
                    p += 1
                else:
                    tag_count_1, p = read_uvarint(data, p)
                    for _ in range(tag_count_1):
                        tag_1, p, stop_1 = read_tag(data, p)
                        if tag_1 == 0 and version >= 5:
                            (topic_config_error_code_1,) = _unpack_h(data, p)
                            p += 2
                            if p != stop_1:
                                raise wrong_tag_size(tag_1, p, stop_1)
                        p = stop_1
            topics.append(CreatableTopicResult(name_1, topic_id_1, error_code_1, error_message_1, topic_config_error_code_1, num_partitions_1, replication_factor_1, configs_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return CreateTopicsResponse(throttle_time_ms, topics)
    except DECODE_ERRORS as error:
        raise malformed("CreateTopicsResponse", version, error) from None
