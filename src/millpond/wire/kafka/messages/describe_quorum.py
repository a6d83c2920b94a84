"""DescribeQuorum request and response (api 55), versions 0-2.

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

_H = Struct(">H")
_pack_H, _unpack_H = _H.pack, _H.unpack_from
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_iiq = Struct(">iiq")
_pack_iiq, _unpack_iiq = _iiq.pack, _iiq.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_iqqq = Struct(">iqqq")
_pack_iqqq, _unpack_iqqq = _iqqq.pack, _iqqq.unpack_from
_iuqqq = Struct(">i16sqqq")
_pack_iuqqq, _unpack_iuqqq = _iuqqq.pack, _iuqqq.unpack_from


class PartitionData(Message):
    __slots__ = ("partition_index",)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class TopicData(Message):
    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionData] = [] if partitions is NOT_GIVEN else partitions


class DescribeQuorumRequest(Message):
    __slots__ = ("topics",)

    def __init__(
        self,
        topics: list[TopicData] = NOT_GIVEN,
    ) -> None:
        self.topics: list[TopicData] = [] if topics is NOT_GIVEN else topics


class ReplicaState(Message):
    __slots__ = ("replica_id", "replica_directory_id", "log_end_offset", "last_fetch_timestamp", "last_caught_up_timestamp")

    def __init__(
        self,
        replica_id: int = 0,
        replica_directory_id: UUID = NO_ID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class PartitionResult(Message):
    __slots__ = ("partition_index", "error_code", "error_message", "leader_id", "leader_epoch", "high_watermark", "current_voters", "observers")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[ReplicaState] = NOT_GIVEN,
        observers: list[ReplicaState] = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters: list[ReplicaState] = [] if current_voters is NOT_GIVEN else current_voters
        self.observers: list[ReplicaState] = [] if observers is NOT_GIVEN else observers


class TopicResult(Message):
    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[PartitionResult] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionResult] = [] if partitions is NOT_GIVEN else partitions


class Listener(Message):
    __slots__ = ("name", "host", "port")

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class Node(Message):
    __slots__ = ("node_id", "listeners")

    def __init__(
        self,
        node_id: int = 0,
        listeners: list[Listener] = NOT_GIVEN,
    ) -> None:
        self.node_id = node_id
        self.listeners: list[Listener] = [] if listeners is NOT_GIVEN else listeners


class DescribeQuorumResponse(Message):
    __slots__ = ("error_code", "error_message", "topics", "nodes")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[TopicResult] = NOT_GIVEN,
        nodes: list[Node] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics: list[TopicResult] = [] if topics is NOT_GIVEN else topics
        self.nodes: list[Node] = [] if nodes is NOT_GIVEN else nodes


def encode_describe_quorum_request(m: DescribeQuorumRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.topic_name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_i(m_4.partition_index))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeQuorumRequest", version, error) from error


def decode_describe_quorum_request(data: memoryview, version: int) -> DescribeQuorumRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 3)
        topics: list[TopicData] = []
        for _ in range(count):
            topic_name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 5)
            partitions_1: list[PartitionData] = []
            for _ in range(count):
                (partition_index_2,) = _unpack_i(data, p)
                p += 4
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionData(partition_index_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicData(topic_name_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeQuorumRequest(topics)
    except DECODE_ERRORS as error:
        raise malformed("DescribeQuorumRequest", version, error) from None


def encode_describe_quorum_response(m: DescribeQuorumResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.error_code))
        if version >= 2:
            add(pack_nullable_compact_string(m.error_message))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.topic_name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.partition_index, m_4.error_code))
                if version >= 2:
                    add(pack_nullable_compact_string(m_4.error_message))
                add(_pack_iiq(m_4.leader_id, m_4.leader_epoch, m_4.high_watermark))
                values_5 = m_4.current_voters
                add(pack_compact_count(len(values_5)))
                for m_6 in values_5:
                    if version >= 2:
                        add(_pack_iuqqq(m_6.replica_id, m_6.replica_directory_id.bytes, m_6.log_end_offset, m_6.last_fetch_timestamp, m_6.last_caught_up_timestamp))
                    elif version >= 1:
                        add(_pack_iqqq(m_6.replica_id, m_6.log_end_offset, m_6.last_fetch_timestamp, m_6.last_caught_up_timestamp))
                    else:
                        add(_pack_iq(m_6.replica_id, m_6.log_end_offset))
                    add(b"\x00")
                values_7 = m_4.observers
                add(pack_compact_count(len(values_7)))
                for m_8 in values_7:
                    if version >= 2:
                        add(_pack_iuqqq(m_8.replica_id, m_8.replica_directory_id.bytes, m_8.log_end_offset, m_8.last_fetch_timestamp, m_8.last_caught_up_timestamp))
                    elif version >= 1:
                        add(_pack_iqqq(m_8.replica_id, m_8.log_end_offset, m_8.last_fetch_timestamp, m_8.last_caught_up_timestamp))
                    else:
                        add(_pack_iq(m_8.replica_id, m_8.log_end_offset))
                    add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        if version >= 2:
            values_9 = m.nodes
            add(pack_compact_count(len(values_9)))
            for m_10 in values_9:
                add(_pack_i(m_10.node_id))
                values_11 = m_10.listeners
                add(pack_compact_count(len(values_11)))
                for m_12 in values_11:
                    add(pack_compact_string(m_12.name))
                    add(pack_compact_string(m_12.host))
                    add(_pack_H(m_12.port))
                    add(b"\x00")
                add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeQuorumResponse", version, error) from error


def decode_describe_quorum_response(data: memoryview, version: int) -> DescribeQuorumResponse:
    try:
        p = 0
        (error_code,) = _unpack_h(data, p)
        p += 2
        error_message: str | None
        if version >= 2:
            error_message, p = read_nullable_compact_string(data, p)
        else:
            error_message = ""
        count, p = read_compact_count(data, p, 3)
        topics: list[TopicResult] = []
        for _ in range(count):
            topic_name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 25)
            partitions_1: list[PartitionResult] = []
            for _ in range(count):
                partition_index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                error_message_2: str | None
                if version >= 2:
                    error_message_2, p = read_nullable_compact_string(data, p)
                else:
                    error_message_2 = ""
                leader_id_2, leader_epoch_2, high_watermark_2 = _unpack_iiq(data, p)
                p += 16
                count, p = read_compact_count(data, p, 13)
                current_voters_2: list[ReplicaState] = []
                for _ in range(count):
                    if version >= 2:
                        replica_id_3, replica_directory_id_3, log_end_offset_3, last_fetch_timestamp_3, last_caught_up_timestamp_3 = _unpack_iuqqq(data, p)
                        p += 44
                        replica_directory_id_3 = uuid_of(replica_directory_id_3)
                    elif version >= 1:
                        replica_id_3, log_end_offset_3, last_fetch_timestamp_3, last_caught_up_timestamp_3 = _unpack_iqqq(data, p)
                        p += 28
                        replica_directory_id_3 = NO_ID
                    else:
                        replica_id_3, log_end_offset_3 = _unpack_iq(data, p)
                        p += 12
                        replica_directory_id_3 = NO_ID
                        last_fetch_timestamp_3 = -1
                        last_caught_up_timestamp_3 = -1
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    current_voters_2.append(ReplicaState(replica_id_3, replica_directory_id_3, log_end_offset_3, last_fetch_timestamp_3, last_caught_up_timestamp_3))
                count, p = read_compact_count(data, p, 13)
                observers_2: list[ReplicaState] = []
                for _ in range(count):
                    if version >= 2:
                        replica_id_4, replica_directory_id_4, log_end_offset_4, last_fetch_timestamp_4, last_caught_up_timestamp_4 = _unpack_iuqqq(data, p)
                        p += 44
                        replica_directory_id_4 = uuid_of(replica_directory_id_4)
                    elif version >= 1:
                        replica_id_4, log_end_offset_4, last_fetch_timestamp_4, last_caught_up_timestamp_4 = _unpack_iqqq(data, p)
                        p += 28
                        replica_directory_id_4 = NO_ID
                    else:
                        replica_id_4, log_end_offset_4 = _unpack_iq(data, p)
                        p += 12
                        replica_directory_id_4 = NO_ID
                        last_fetch_timestamp_4 = -1
                        last_caught_up_timestamp_4 = -1
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    observers_2.append(ReplicaState(replica_id_4, replica_directory_id_4, log_end_offset_4, last_fetch_timestamp_4, last_caught_up_timestamp_4))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionResult(partition_index_2, error_code_2, error_message_2, leader_id_2, leader_epoch_2, high_watermark_2, current_voters_2, observers_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicResult(topic_name_1, partitions_1))
        nodes: list[Node]
        if version >= 2:
            count, p = read_compact_count(data, p, 6)
            nodes = []
            for _ in range(count):
                (node_id_5,) = _unpack_i(data, p)
                p += 4
                count, p = read_compact_count(data, p, 5)
                listeners_5: list[Listener] = []
                for _ in range(count):
                    name_6, p = read_compact_string(data, p)
                    host_6, p = read_compact_string(data, p)
                    (port_6,) = _unpack_H(data, p)
                    p += 2
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    listeners_5.append(Listener(name_6, host_6, port_6))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                nodes.append(Node(node_id_5, listeners_5))
        else:
            nodes = []
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeQuorumResponse(error_code, error_message, topics, nodes)
    except DECODE_ERRORS as error:
        raise malformed("DescribeQuorumResponse", version, error) from None
