"""DeleteShareGroupOffsets request and response (api 92), versions 0.

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
    pack_nullable_compact_string,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    skip_tags,
    unencodable,
    uuid_of,
)

_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_uh = Struct(">16sh")
_pack_uh, _unpack_uh = _uh.pack, _uh.unpack_from


class DeleteShareGroupOffsetsRequestTopic(Message):
    __slots__ = ("topic_name",)

    def __init__(
        self,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name


class DeleteShareGroupOffsetsRequest(Message):
    __slots__ = ("group_id", "topics")

    def __init__(
        self,
        group_id: str = "",
        topics: list[DeleteShareGroupOffsetsRequestTopic] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.topics: list[DeleteShareGroupOffsetsRequestTopic] = [] if topics is NOT_GIVEN else topics


class DeleteShareGroupOffsetsResponseTopic(Message):
    __slots__ = ("topic_name", "topic_id", "error_code", "error_message")

    def __init__(
        self,
        topic_name: str = "",
        topic_id: UUID = NO_ID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteShareGroupOffsetsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses: list[DeleteShareGroupOffsetsResponseTopic] = [] if responses is NOT_GIVEN else responses


def encode_delete_share_group_offsets_request(m: DeleteShareGroupOffsetsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_compact_string(m.group_id))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.topic_name))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteShareGroupOffsetsRequest", version, error) from error


def decode_delete_share_group_offsets_request(data: memoryview, version: int) -> DeleteShareGroupOffsetsRequest:
    try:
        p = 0
        group_id, p = read_compact_string(data, p)
        count, p = read_compact_count(data, p, 2)
        topics: list[DeleteShareGroupOffsetsRequestTopic] = []
        for _ in range(count):
            topic_name_1, p = read_compact_string(data, p)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(DeleteShareGroupOffsetsRequestTopic(topic_name_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteShareGroupOffsetsRequest(group_id, topics)
    except DECODE_ERRORS as error:
        raise malformed("DeleteShareGroupOffsetsRequest", version, error) from None


def encode_delete_share_group_offsets_response(m: DeleteShareGroupOffsetsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        values_1 = m.responses
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.topic_name))
            add(_pack_uh(m_2.topic_id.bytes, m_2.error_code))
            add(pack_nullable_compact_string(m_2.error_message))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteShareGroupOffsetsResponse", version, error) from error


def decode_delete_share_group_offsets_response(data: memoryview, version: int) -> DeleteShareGroupOffsetsResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        count, p = read_compact_count(data, p, 21)
        responses: list[DeleteShareGroupOffsetsResponseTopic] = []
        for _ in range(count):
            topic_name_1, p = read_compact_string(data, p)
            topic_id_1, error_code_1 = _unpack_uh(data, p)
            p += 18
            topic_id_1 = uuid_of(topic_id_1)
            error_message_1, p = read_nullable_compact_string(data, p)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            responses.append(DeleteShareGroupOffsetsResponseTopic(topic_name_1, topic_id_1, error_code_1, error_message_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteShareGroupOffsetsResponse(throttle_time_ms, error_code, error_message, responses)
    except DECODE_ERRORS as error:
        raise malformed("DeleteShareGroupOffsetsResponse", version, error) from None
