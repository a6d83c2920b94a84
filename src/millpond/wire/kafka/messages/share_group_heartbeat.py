"""ShareGroupHeartbeat request and response (api 76), versions 1.

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
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_count,
    read_nullable_compact_string,
    read_numbers,
    read_presence,
    skip_tags,
    unencodable,
    uuid_of,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class ShareGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names")

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names


class TopicPartitions(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class Assignment(Message):
    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        topic_partitions: list[TopicPartitions] = NOT_GIVEN,
    ) -> None:
        self.topic_partitions: list[TopicPartitions] = [] if topic_partitions is NOT_GIVEN else topic_partitions


class ShareGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "assignment")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


def encode_share_group_heartbeat_request(m: ShareGroupHeartbeatRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_compact_string(m.group_id))
        add(pack_compact_string(m.member_id))
        add(_pack_i(m.member_epoch))
        add(pack_nullable_compact_string(m.rack_id))
        values_1 = m.subscribed_topic_names
        if values_1 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_1)))
            for text in values_1:
                add(pack_compact_string(text))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ShareGroupHeartbeatRequest", version, error) from error


def decode_share_group_heartbeat_request(data: memoryview, version: int) -> ShareGroupHeartbeatRequest:
    try:
        p = 0
        group_id, p = read_compact_string(data, p)
        member_id, p = read_compact_string(data, p)
        (member_epoch,) = _unpack_i(data, p)
        p += 4
        rack_id, p = read_nullable_compact_string(data, p)
        count, p = read_nullable_compact_count(data, p, 1)
        subscribed_topic_names: list[str] | None
        if count < 0:
            subscribed_topic_names = None
        else:
            subscribed_topic_names = []
            for _ in range(count):
                item, p = read_compact_string(data, p)
                subscribed_topic_names.append(item)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ShareGroupHeartbeatRequest(group_id, member_id, member_epoch, rack_id, subscribed_topic_names)
    except DECODE_ERRORS as error:
        raise malformed("ShareGroupHeartbeatRequest", version, error) from None


def encode_share_group_heartbeat_response(m: ShareGroupHeartbeatResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        add(pack_nullable_compact_string(m.member_id))
        add(_pack_ii(m.member_epoch, m.heartbeat_interval_ms))
        m_1 = m.assignment
        if m_1 is None:
            add(b"\xff")
        else:
            add(b"\x01")
            values_2 = m_1.topic_partitions
            add(pack_compact_count(len(values_2)))
            for m_3 in values_2:
                add(_pack_u(m_3.topic_id.bytes))
                values_4 = m_3.partitions
                add(pack_compact_count(len(values_4)))
                add(pack_numbers(values_4, "i"))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ShareGroupHeartbeatResponse", version, error) from error


def decode_share_group_heartbeat_response(data: memoryview, version: int) -> ShareGroupHeartbeatResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        member_id, p = read_nullable_compact_string(data, p)
        member_epoch, heartbeat_interval_ms = _unpack_ii(data, p)
        p += 8
        assignment: Assignment | None
        present, p = read_presence(data, p)
        if present:
            count, p = read_compact_count(data, p, 18)
            topic_partitions_1: list[TopicPartitions] = []
            for _ in range(count):
                (topic_id_2,) = _unpack_u(data, p)
                p += 16
                topic_id_2 = uuid_of(topic_id_2)
                count, p = read_compact_count(data, p, 4)
                partitions_2, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topic_partitions_1.append(TopicPartitions(topic_id_2, partitions_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            assignment = Assignment(topic_partitions_1)
        else:
            assignment = None
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ShareGroupHeartbeatResponse(throttle_time_ms, error_code, error_message, member_id, member_epoch, heartbeat_interval_ms, assignment)
    except DECODE_ERRORS as error:
        raise malformed("ShareGroupHeartbeatResponse", version, error) from None
