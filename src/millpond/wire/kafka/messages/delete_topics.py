"""DeleteTopics request and response (api 20), versions 1-6.

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
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_nullable_string,
    read_string,
    skip_tags,
    unencodable,
    uuid_of,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from
_uh = Struct(">16sh")
_pack_uh, _unpack_uh = _uh.pack, _uh.unpack_from


class DeleteTopicState(Message):
    __slots__ = ("name", "topic_id")

    def __init__(
        self,
        name: str | None = None,
        topic_id: UUID = NO_ID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(Message):
    __slots__ = ("topics", "topic_names", "timeout_ms")

    def __init__(
        self,
        topics: list[DeleteTopicState] = NOT_GIVEN,
        topic_names: list[str] = NOT_GIVEN,
        timeout_ms: int = 0,
    ) -> None:
        self.topics: list[DeleteTopicState] = [] if topics is NOT_GIVEN else topics
        self.topic_names: list[str] = [] if topic_names is NOT_GIVEN else topic_names
        self.timeout_ms = timeout_ms


class DeletableTopicResult(Message):
    __slots__ = ("name", "topic_id", "error_code", "error_message")

    def __init__(
        self,
        name: str | None = "",
        topic_id: UUID = NO_ID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: list[DeletableTopicResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses: list[DeletableTopicResult] = [] if responses is NOT_GIVEN else responses


def encode_delete_topics_request(m: DeleteTopicsRequest, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 6:
            values_1 = m.topics
            add(count_(len(values_1)))
            for m_2 in values_1:
                add(nullable_string_(m_2.name))
                add(_pack_u(m_2.topic_id.bytes))
                add(b"\x00")
        if version <= 5:
            values_3 = m.topic_names
            add(count_(len(values_3)))
            for text in values_3:
                add(string_(text))
        add(_pack_i(m.timeout_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteTopicsRequest", version, error) from error


def decode_delete_topics_request(data: memoryview, version: int) -> DeleteTopicsRequest:
    try:
        flexible = version >= 4
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        topics: list[DeleteTopicState]
        if version >= 6:
            count, p = count_(data, p, 18)
            topics = []
            for _ in range(count):
                name_1, p = nullable_string_(data, p)
                (topic_id_1,) = _unpack_u(data, p)
                p += 16
                topic_id_1 = uuid_of(topic_id_1)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics.append(DeleteTopicState(name_1, topic_id_1))
        else:
            topics = []
        topic_names: list[str]
        if version <= 5:
            count, p = count_(data, p, 1)
            topic_names = []
            for _ in range(count):
                item, p = string_(data, p)
                topic_names.append(item)
        else:
            topic_names = []
        (timeout_ms,) = _unpack_i(data, p)
        p += 4
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteTopicsRequest(topics, topic_names, timeout_ms)
    except DECODE_ERRORS as error:
        raise malformed("DeleteTopicsRequest", version, error) from None


def encode_delete_topics_response(m: DeleteTopicsResponse, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.responses
        add(count_(len(values_1)))
        for m_2 in values_1:
            if m_2.name is None and not version >= 6:
                raise TypeError("name may not be null")
            add(nullable_string_(m_2.name))
            if version >= 6:
                add(_pack_uh(m_2.topic_id.bytes, m_2.error_code))
            else:
                add(_pack_h(m_2.error_code))
            if version >= 5:
                add(nullable_string_(m_2.error_message))
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteTopicsResponse", version, error) from error


def decode_delete_topics_response(data: memoryview, version: int) -> DeleteTopicsResponse:
    try:
        flexible = version >= 4
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 4)
        responses: list[DeletableTopicResult] = []
        for _ in range(count):
            name_1, p = (nullable_string_ if version >= 6 else string_)(data, p)
            if version >= 6:
                topic_id_1, error_code_1 = _unpack_uh(data, p)
                p += 18
                topic_id_1 = uuid_of(topic_id_1)
            else:
                (error_code_1,) = _unpack_h(data, p)
                p += 2
                topic_id_1 = NO_ID
            error_message_1: str | None
            if version >= 5:
                error_message_1, p = nullable_string_(data, p)
            else:
                error_message_1 = None
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            responses.append(DeletableTopicResult(name_1, topic_id_1, error_code_1, error_message_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteTopicsResponse(throttle_time_ms, responses)
    except DECODE_ERRORS as error:
        raise malformed("DeleteTopicsResponse", version, error) from None
