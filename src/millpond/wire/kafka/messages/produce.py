"""Produce request and response (api 0), versions 3-13.

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
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_size,
    pack_string,
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_nullable_compact_view,
    read_nullable_string,
    read_nullable_view,
    read_string,
    read_tag,
    read_uvarint,
    skip_tags,
    unencodable,
    uuid_of,
    wrong_tag_size,
)

_hi = Struct(">hi")
_pack_hi, _unpack_hi = _hi.pack, _hi.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ihqq = Struct(">ihqq")
_pack_ihqq, _unpack_ihqq = _ihqq.pack, _ihqq.unpack_from
_ihqqq = Struct(">ihqqq")
_pack_ihqqq, _unpack_ihqqq = _ihqqq.pack, _ihqqq.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class PartitionProduceData(Message):
    __slots__ = ("index", "records")

    def __init__(
        self,
        index: int = 0,
        records: BytesLike | None = None,
    ) -> None:
        self.index = index
        self.records = records


class TopicProduceData(Message):
    __slots__ = ("name", "topic_id", "partition_data")

    def __init__(
        self,
        name: str = "",
        topic_id: UUID = NO_ID,
        partition_data: list[PartitionProduceData] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data: list[PartitionProduceData] = [] if partition_data is NOT_GIVEN else partition_data


class ProduceRequest(Message):
    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = NOT_GIVEN,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data: list[TopicProduceData] = [] if topic_data is NOT_GIVEN else topic_data


class BatchIndexAndErrorMessage(Message):
    __slots__ = ("batch_index", "batch_index_error_message")

    def __init__(
        self,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(Message):
    __slots__ = ("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset", "record_errors", "error_message", "current_leader")

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = NOT_GIVEN,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = NOT_GIVEN,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors: list[BatchIndexAndErrorMessage] = [] if record_errors is NOT_GIVEN else record_errors
        self.error_message = error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is NOT_GIVEN else current_leader


class TopicProduceResponse(Message):
    __slots__ = ("name", "topic_id", "partition_responses")

    def __init__(
        self,
        name: str = "",
        topic_id: UUID = NO_ID,
        partition_responses: list[PartitionProduceResponse] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses: list[PartitionProduceResponse] = [] if partition_responses is NOT_GIVEN else partition_responses


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


class ProduceResponse(Message):
    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")

    def __init__(
        self,
        responses: list[TopicProduceResponse] = NOT_GIVEN,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] = NOT_GIVEN,
    ) -> None:
        self.responses: list[TopicProduceResponse] = [] if responses is NOT_GIVEN else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is NOT_GIVEN else node_endpoints


def encode_produce_request(m: ProduceRequest, version: int) -> bytes:
    try:
        flexible = version >= 9
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        size_ = pack_compact_size if flexible else pack_size
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(nullable_string_(m.transactional_id))
        add(_pack_hi(m.acks, m.timeout_ms))
        values_1 = m.topic_data
        add(count_(len(values_1)))
        for m_2 in values_1:
            if version <= 12:
                add(string_(m_2.name))
            if version >= 13:
                add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partition_data
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_i(m_4.index))
                value_5 = m_4.records
                if value_5 is None:
                    add(count_(-1))
                else:
                    add(size_(value_5))
                    add(value_5)
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ProduceRequest", version, error) from error


def decode_produce_request(data: memoryview, version: int) -> ProduceRequest:
    try:
        flexible = version >= 9
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        nullable_view_ = read_nullable_compact_view if flexible else read_nullable_view
        string_ = read_compact_string if flexible else read_string
        p = 0
        transactional_id, p = nullable_string_(data, p)
        acks, timeout_ms = _unpack_hi(data, p)
        p += 6
        count, p = count_(data, p, 3)
        topic_data: list[TopicProduceData] = []
        for _ in range(count):
            if version <= 12:
                name_1, p = string_(data, p)
            else:
                name_1 = ""
            if version >= 13:
                (topic_id_1,) = _unpack_u(data, p)
                p += 16
                topic_id_1 = uuid_of(topic_id_1)
            else:
                topic_id_1 = NO_ID
            count, p = count_(data, p, 6)
            partition_data_1: list[PartitionProduceData] = []
            for _ in range(count):
                (index_2,) = _unpack_i(data, p)
                p += 4
                records_2, p = nullable_view_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partition_data_1.append(PartitionProduceData(index_2, records_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topic_data.append(TopicProduceData(name_1, topic_id_1, partition_data_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ProduceRequest(transactional_id, acks, timeout_ms, topic_data)
    except DECODE_ERRORS as error:
        raise malformed("ProduceRequest", version, error) from None


def encode_produce_response(m: ProduceResponse, version: int) -> bytes:
    try:
        flexible = version >= 9
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.responses
        add(count_(len(values_1)))
        for m_2 in values_1:
            if version <= 12:
                add(string_(m_2.name))
            if version >= 13:
                add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partition_responses
            add(count_(len(values_3)))
            for m_4 in values_3:
                if version >= 5:
                    add(_pack_ihqqq(m_4.index, m_4.error_code, m_4.base_offset, m_4.log_append_time_ms, m_4.log_start_offset))
                else:
                    add(_pack_ihqq(m_4.index, m_4.error_code, m_4.base_offset, m_4.log_append_time_ms))
                if version >= 8:
                    values_5 = m_4.record_errors
                    add(count_(len(values_5)))
                    for m_6 in values_5:
                        add(_pack_i(m_6.batch_index))
                        add(nullable_string_(m_6.batch_index_error_message))
                        if flexible:
                            add(b"\x00")
                    add(nullable_string_(m_4.error_message))
                if flexible:
                    tags_7: list[tuple[int, bytes]] = []
                    if version >= 10 and m_4.current_leader != LeaderIdAndEpoch():
                        parts_8: list[BytesLike] = []
                        add_8 = parts_8.append
                        m_9 = m_4.current_leader
                        add_8(_pack_ii(m_9.leader_id, m_9.leader_epoch))
                        add_8(b"\x00")
                        tags_7.append((0, b"".join(parts_8)))
                    add(pack_tags(tags_7))
            if flexible:
                add(b"\x00")
        add(_pack_i(m.throttle_time_ms))
        if flexible:
            tags_10: list[tuple[int, bytes]] = []
            if version >= 10 and m.node_endpoints:
                parts_11: list[BytesLike] = []
                add_11 = parts_11.append
                values_12 = m.node_endpoints
                add_11(count_(len(values_12)))
                for m_13 in values_12:
                    add_11(_pack_i(m_13.node_id))
                    add_11(string_(m_13.host))
                    add_11(_pack_i(m_13.port))
                    add_11(nullable_string_(m_13.rack))
                    add_11(b"\x00")
                tags_10.append((0, b"".join(parts_11)))
            add(pack_tags(tags_10))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ProduceResponse", version, error) from error


def decode_produce_response(data: memoryview, version: int) -> ProduceResponse:
    try:
        flexible = version >= 9
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 3)
        responses: list[TopicProduceResponse] = []
        for _ in range(count):
            if version <= 12:
                name_1, p = string_(data, p)
            else:
                name_1 = ""
            if version >= 13:
                (topic_id_1,) = _unpack_u(data, p)
                p += 16
                topic_id_1 = uuid_of(topic_id_1)
            else:
                topic_id_1 = NO_ID
            count, p = count_(data, p, 22)
            partition_responses_1: list[PartitionProduceResponse] = []
            for _ in range(count):
                if version >= 5:
                    index_2, error_code_2, base_offset_2, log_append_time_ms_2, log_start_offset_2 = _unpack_ihqqq(data, p)
                    p += 30
                else:
                    index_2, error_code_2, base_offset_2, log_append_time_ms_2 = _unpack_ihqq(data, p)
                    p += 22
                    log_start_offset_2 = -1
                record_errors_2: list[BatchIndexAndErrorMessage]
                error_message_2: str | None
                if version >= 8:
                    count, p = count_(data, p, 6)
                    record_errors_2 = []
                    for _ in range(count):
                        (batch_index_3,) = _unpack_i(data, p)
                        p += 4
                        batch_index_error_message_3, p = nullable_string_(data, p)
                        if flexible:
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        record_errors_2.append(BatchIndexAndErrorMessage(batch_index_3, batch_index_error_message_3))
                    error_message_2, p = nullable_string_(data, p)
                else:
                    record_errors_2 = []
                    error_message_2 = None
                current_leader_2: LeaderIdAndEpoch = LeaderIdAndEpoch()
                if flexible:
                    if data[p] == 0:
                        p += 1
                    else:
                        tag_count_2, p = read_uvarint(data, p)
                        for _ in range(tag_count_2):
                            tag_2, p, stop_2 = read_tag(data, p)
                            if tag_2 == 0 and version >= 10:
                                leader_id_4, leader_epoch_4 = _unpack_ii(data, p)
                                p += 8
                                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                                current_leader_2 = LeaderIdAndEpoch(leader_id_4, leader_epoch_4)
                                if p != stop_2:
                                    raise wrong_tag_size(tag_2, p, stop_2)
                            p = stop_2
                partition_responses_1.append(PartitionProduceResponse(index_2, error_code_2, base_offset_2, log_append_time_ms_2, log_start_offset_2, record_errors_2, error_message_2, current_leader_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            responses.append(TopicProduceResponse(name_1, topic_id_1, partition_responses_1))
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        node_endpoints: list[NodeEndpoint] = []
        if flexible:
            if data[p] == 0:
                p += 1
            else:
                tag_count, p = read_uvarint(data, p)
                for _ in range(tag_count):
                    tag, p, stop = read_tag(data, p)
                    if tag == 0 and version >= 10:
                        count, p = count_(data, p, 11)
                        node_endpoints = []
                        for _ in range(count):
                            (node_id_5,) = _unpack_i(data, p)
                            p += 4
                            host_5, p = string_(data, p)
                            (port_5,) = _unpack_i(data, p)
                            p += 4
                            rack_5, p = nullable_string_(data, p)
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                            node_endpoints.append(NodeEndpoint(node_id_5, host_5, port_5, rack_5))
                        if p != stop:
                            raise wrong_tag_size(tag, p, stop)
                    p = stop
        return ProduceResponse(responses, throttle_time_ms, node_endpoints)
    except DECODE_ERRORS as error:
        raise malformed("ProduceResponse", version, error) from None
