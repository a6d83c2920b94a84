"""ShareAcknowledge request and response (api 79), versions 1-2.

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
    read_nullable_compact_string,
    read_numbers,
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
_io = Struct(">i?")
_pack_io, _unpack_io = _io.pack, _io.unpack_from
_qq = Struct(">qq")
_pack_qq, _unpack_qq = _qq.pack, _qq.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class AcknowledgementBatch(Message):
    __slots__ = ("first_offset", "last_offset", "acknowledge_types")

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: list[int] = NOT_GIVEN,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types: list[int] = [] if acknowledge_types is NOT_GIVEN else acknowledge_types


class AcknowledgePartition(Message):
    __slots__ = ("partition_index", "acknowledgement_batches")

    def __init__(
        self,
        partition_index: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches: list[AcknowledgementBatch] = [] if acknowledgement_batches is NOT_GIVEN else acknowledgement_batches


class AcknowledgeTopic(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[AcknowledgePartition] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[AcknowledgePartition] = [] if partitions is NOT_GIVEN else partitions


class ShareAcknowledgeRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics")

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[AcknowledgeTopic] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics: list[AcknowledgeTopic] = [] if topics is NOT_GIVEN else topics


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")

    def __init__(
        self,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionData(Message):
    __slots__ = ("partition_index", "error_code", "error_message", "current_leader")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is NOT_GIVEN else current_leader


class ShareAcknowledgeTopicResponse(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is NOT_GIVEN else partitions


class NodeEndpoint(Message):
    __slots__ = ("node_id", "host", "port", "rack")

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareAcknowledgeResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareAcknowledgeTopicResponse] = NOT_GIVEN,
        node_endpoints: list[NodeEndpoint] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses: list[ShareAcknowledgeTopicResponse] = [] if responses is NOT_GIVEN else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is NOT_GIVEN else node_endpoints


def encode_share_acknowledge_request(m: ShareAcknowledgeRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_nullable_compact_string(m.group_id))
        add(pack_nullable_compact_string(m.member_id))
        if version >= 2:
            add(_pack_io(m.share_session_epoch, m.is_renew_ack))
        else:
            add(_pack_i(m.share_session_epoch))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_i(m_4.partition_index))
                values_5 = m_4.acknowledgement_batches
                add(pack_compact_count(len(values_5)))
                for m_6 in values_5:
                    add(_pack_qq(m_6.first_offset, m_6.last_offset))
                    values_7 = m_6.acknowledge_types
                    add(pack_compact_count(len(values_7)))
                    add(pack_numbers(values_7, "b"))
                    add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ShareAcknowledgeRequest", version, error) from error


def decode_share_acknowledge_request(data: memoryview, version: int) -> ShareAcknowledgeRequest:
    try:
        p = 0
        group_id, p = read_nullable_compact_string(data, p)
        member_id, p = read_nullable_compact_string(data, p)
        if version >= 2:
            share_session_epoch, is_renew_ack = _unpack_io(data, p)
            p += 5
        else:
            (share_session_epoch,) = _unpack_i(data, p)
            p += 4
            is_renew_ack = False
        count, p = read_compact_count(data, p, 18)
        topics: list[AcknowledgeTopic] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 6)
            partitions_1: list[AcknowledgePartition] = []
            for _ in range(count):
                (partition_index_2,) = _unpack_i(data, p)
                p += 4
                count, p = read_compact_count(data, p, 18)
                acknowledgement_batches_2: list[AcknowledgementBatch] = []
                for _ in range(count):
                    first_offset_3, last_offset_3 = _unpack_qq(data, p)
                    p += 16
                    count, p = read_compact_count(data, p, 1)
                    acknowledge_types_3, p = read_numbers(data, p, count, "b")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    acknowledgement_batches_2.append(AcknowledgementBatch(first_offset_3, last_offset_3, acknowledge_types_3))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(AcknowledgePartition(partition_index_2, acknowledgement_batches_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(AcknowledgeTopic(topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ShareAcknowledgeRequest(group_id, member_id, share_session_epoch, is_renew_ack, topics)
    except DECODE_ERRORS as error:
        raise malformed("ShareAcknowledgeRequest", version, error) from None


def encode_share_acknowledge_response(m: ShareAcknowledgeResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        if version >= 2:
            add(_pack_i(m.acquisition_lock_timeout_ms))
        values_1 = m.responses
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.partition_index, m_4.error_code))
                add(pack_nullable_compact_string(m_4.error_message))
                m_5 = m_4.current_leader
                add(_pack_ii(m_5.leader_id, m_5.leader_epoch))
                add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        values_6 = m.node_endpoints
        add(pack_compact_count(len(values_6)))
        for m_7 in values_6:
            add(_pack_i(m_7.node_id))
            add(pack_compact_string(m_7.host))
            add(_pack_i(m_7.port))
            add(pack_nullable_compact_string(m_7.rack))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ShareAcknowledgeResponse", version, error) from error


def decode_share_acknowledge_response(data: memoryview, version: int) -> ShareAcknowledgeResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        if version >= 2:
            (acquisition_lock_timeout_ms,) = _unpack_i(data, p)
            p += 4
        else:
            acquisition_lock_timeout_ms = 0
        count, p = read_compact_count(data, p, 18)
        responses: list[ShareAcknowledgeTopicResponse] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 17)
            partitions_1: list[PartitionData] = []
            for _ in range(count):
                partition_index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2, p = read_nullable_compact_string(data, p)
                leader_id_3, leader_epoch_3 = _unpack_ii(data, p)
                p += 8
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                current_leader_2 = LeaderIdAndEpoch(leader_id_3, leader_epoch_3)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionData(partition_index_2, error_code_2, error_message_2, current_leader_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            responses.append(ShareAcknowledgeTopicResponse(topic_id_1, partitions_1))
        count, p = read_compact_count(data, p, 11)
        node_endpoints: list[NodeEndpoint] = []
        for _ in range(count):
            (node_id_4,) = _unpack_i(data, p)
            p += 4
            host_4, p = read_compact_string(data, p)
            (port_4,) = _unpack_i(data, p)
            p += 4
            rack_4, p = read_nullable_compact_string(data, p)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            node_endpoints.append(NodeEndpoint(node_id_4, host_4, port_4, rack_4))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ShareAcknowledgeResponse(throttle_time_ms, error_code, error_message, acquisition_lock_timeout_ms, responses, node_endpoints)
    except DECODE_ERRORS as error:
        raise malformed("ShareAcknowledgeResponse", version, error) from None
