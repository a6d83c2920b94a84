"""ShareFetch request and response (api 78), versions 1-2.

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
    pack_compact_size,
    pack_compact_string,
    pack_nullable_compact_string,
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_compact_view,
    read_nullable_compact_string,
    read_numbers,
    skip_tags,
    unencodable,
    uuid_of,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_iiiiii = Struct(">iiiiii")
_pack_iiiiii, _unpack_iiiiii = _iiiiii.pack, _iiiiii.unpack_from
_iiiiiibo = Struct(">iiiiiib?")
_pack_iiiiiibo, _unpack_iiiiiibo = _iiiiiibo.pack, _iiiiiibo.unpack_from
_qq = Struct(">qq")
_pack_qq, _unpack_qq = _qq.pack, _qq.unpack_from
_qqh = Struct(">qqh")
_pack_qqh, _unpack_qqh = _qqh.pack, _qqh.unpack_from
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


class FetchPartition(Message):
    __slots__ = ("partition_index", "acknowledgement_batches")

    def __init__(
        self,
        partition_index: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches: list[AcknowledgementBatch] = [] if acknowledgement_batches is NOT_GIVEN else acknowledgement_batches


class FetchTopic(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[FetchPartition] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[FetchPartition] = [] if partitions is NOT_GIVEN else partitions


class ForgottenTopic(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class ShareFetchRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes", "max_records", "batch_size", "share_acquire_mode", "is_renew_ack", "topics", "forgotten_topics_data")

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 0x7fffffff,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[FetchTopic] = NOT_GIVEN,
        forgotten_topics_data: list[ForgottenTopic] = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics: list[FetchTopic] = [] if topics is NOT_GIVEN else topics
        self.forgotten_topics_data: list[ForgottenTopic] = [] if forgotten_topics_data is NOT_GIVEN else forgotten_topics_data


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")

    def __init__(
        self,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class AcquiredRecords(Message):
    __slots__ = ("first_offset", "last_offset", "delivery_count")

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count


class PartitionData(Message):
    __slots__ = ("partition_index", "error_code", "error_message", "acknowledge_error_code", "acknowledge_error_message", "current_leader", "records", "acquired_records")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = NOT_GIVEN,
        records: BytesLike = b"",
        acquired_records: list[AcquiredRecords] = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is NOT_GIVEN else current_leader
        self.records = records
        self.acquired_records: list[AcquiredRecords] = [] if acquired_records is NOT_GIVEN else acquired_records


class ShareFetchableTopicResponse(Message):
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


class ShareFetchResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareFetchableTopicResponse] = NOT_GIVEN,
        node_endpoints: list[NodeEndpoint] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses: list[ShareFetchableTopicResponse] = [] if responses is NOT_GIVEN else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is NOT_GIVEN else node_endpoints


def encode_share_fetch_request(m: ShareFetchRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_nullable_compact_string(m.group_id))
        add(pack_nullable_compact_string(m.member_id))
        if version >= 2:
            add(_pack_iiiiiibo(m.share_session_epoch, m.max_wait_ms, m.min_bytes, m.max_bytes, m.max_records, m.batch_size, m.share_acquire_mode, m.is_renew_ack))
        else:
            add(_pack_iiiiii(m.share_session_epoch, m.max_wait_ms, m.min_bytes, m.max_bytes, m.max_records, m.batch_size))
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
        values_8 = m.forgotten_topics_data
        add(pack_compact_count(len(values_8)))
        for m_9 in values_8:
            add(_pack_u(m_9.topic_id.bytes))
            values_10 = m_9.partitions
            add(pack_compact_count(len(values_10)))
            add(pack_numbers(values_10, "i"))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ShareFetchRequest", version, error) from error


def decode_share_fetch_request(data: memoryview, version: int) -> ShareFetchRequest:
    try:
        p = 0
        group_id, p = read_nullable_compact_string(data, p)
        member_id, p = read_nullable_compact_string(data, p)
        if version >= 2:
            share_session_epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size, share_acquire_mode, is_renew_ack = _unpack_iiiiiibo(data, p)
            p += 26
        else:
            share_session_epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size = _unpack_iiiiii(data, p)
            p += 24
            share_acquire_mode = 0
            is_renew_ack = False
        count, p = read_compact_count(data, p, 18)
        topics: list[FetchTopic] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 6)
            partitions_1: list[FetchPartition] = []
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
                partitions_1.append(FetchPartition(partition_index_2, acknowledgement_batches_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(FetchTopic(topic_id_1, partitions_1))
        count, p = read_compact_count(data, p, 18)
        forgotten_topics_data: list[ForgottenTopic] = []
        for _ in range(count):
            (topic_id_4,) = _unpack_u(data, p)
            p += 16
            topic_id_4 = uuid_of(topic_id_4)
            count, p = read_compact_count(data, p, 4)
            partitions_4, p = read_numbers(data, p, count, "i")
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            forgotten_topics_data.append(ForgottenTopic(topic_id_4, partitions_4))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ShareFetchRequest(group_id, member_id, share_session_epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size, share_acquire_mode, is_renew_ack, topics, forgotten_topics_data)
    except DECODE_ERRORS as error:
        raise malformed("ShareFetchRequest", version, error) from None


def encode_share_fetch_response(m: ShareFetchResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
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
                add(_pack_h(m_4.acknowledge_error_code))
                add(pack_nullable_compact_string(m_4.acknowledge_error_message))
                m_5 = m_4.current_leader
                add(_pack_ii(m_5.leader_id, m_5.leader_epoch))
                add(b"\x00")
                value_6 = m_4.records
                add(pack_compact_size(value_6))
                add(value_6)
                values_7 = m_4.acquired_records
                add(pack_compact_count(len(values_7)))
                for m_8 in values_7:
                    add(_pack_qqh(m_8.first_offset, m_8.last_offset, m_8.delivery_count))
                    add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        values_9 = m.node_endpoints
        add(pack_compact_count(len(values_9)))
        for m_10 in values_9:
            add(_pack_i(m_10.node_id))
            add(pack_compact_string(m_10.host))
            add(_pack_i(m_10.port))
            add(pack_nullable_compact_string(m_10.rack))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ShareFetchResponse", version, error) from error


def decode_share_fetch_response(data: memoryview, version: int) -> ShareFetchResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        (acquisition_lock_timeout_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 18)
        responses: list[ShareFetchableTopicResponse] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 22)
            partitions_1: list[PartitionData] = []
            for _ in range(count):
                partition_index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2, p = read_nullable_compact_string(data, p)
                (acknowledge_error_code_2,) = _unpack_h(data, p)
                p += 2
                acknowledge_error_message_2, p = read_nullable_compact_string(data, p)
                leader_id_3, leader_epoch_3 = _unpack_ii(data, p)
                p += 8
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                current_leader_2 = LeaderIdAndEpoch(leader_id_3, leader_epoch_3)
                records_2, p = read_compact_view(data, p)
                count, p = read_compact_count(data, p, 19)
                acquired_records_2: list[AcquiredRecords] = []
                for _ in range(count):
                    first_offset_4, last_offset_4, delivery_count_4 = _unpack_qqh(data, p)
                    p += 18
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    acquired_records_2.append(AcquiredRecords(first_offset_4, last_offset_4, delivery_count_4))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionData(partition_index_2, error_code_2, error_message_2, acknowledge_error_code_2, acknowledge_error_message_2, current_leader_2, records_2, acquired_records_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            responses.append(ShareFetchableTopicResponse(topic_id_1, partitions_1))
        count, p = read_compact_count(data, p, 11)
        node_endpoints: list[NodeEndpoint] = []
        for _ in range(count):
            (node_id_5,) = _unpack_i(data, p)
            p += 4
            host_5, p = read_compact_string(data, p)
            (port_5,) = _unpack_i(data, p)
            p += 4
            rack_5, p = read_nullable_compact_string(data, p)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            node_endpoints.append(NodeEndpoint(node_id_5, host_5, port_5, rack_5))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ShareFetchResponse(throttle_time_ms, error_code, error_message, acquisition_lock_timeout_ms, responses, node_endpoints)
    except DECODE_ERRORS as error:
        raise malformed("ShareFetchResponse", version, error) from None
