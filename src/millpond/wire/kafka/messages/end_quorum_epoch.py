"""EndQuorumEpoch request and response (api 54), versions 0-1.

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
    read_nullable_compact_string,
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

_H = Struct(">H")
_pack_H, _unpack_H = _H.pack, _H.unpack_from
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ihii = Struct(">ihii")
_pack_ihii, _unpack_ihii = _ihii.pack, _ihii.unpack_from
_iii = Struct(">iii")
_pack_iii, _unpack_iii = _iii.pack, _iii.unpack_from
_iu = Struct(">i16s")
_pack_iu, _unpack_iu = _iu.pack, _iu.unpack_from


class ReplicaInfo(Message):
    __slots__ = ("candidate_id", "candidate_directory_id")

    def __init__(
        self,
        candidate_id: int = 0,
        candidate_directory_id: UUID = NO_ID,
    ) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id


class PartitionData(Message):
    __slots__ = ("partition_index", "leader_id", "leader_epoch", "preferred_successors", "preferred_candidates")

    def __init__(
        self,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        preferred_successors: list[int] = NOT_GIVEN,
        preferred_candidates: list[ReplicaInfo] = NOT_GIVEN,
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors: list[int] = [] if preferred_successors is NOT_GIVEN else preferred_successors
        self.preferred_candidates: list[ReplicaInfo] = [] if preferred_candidates is NOT_GIVEN else preferred_candidates


class TopicData(Message):
    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionData] = [] if partitions is NOT_GIVEN else partitions


class LeaderEndpoint(Message):
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


class EndQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "topics", "leader_endpoints")

    def __init__(
        self,
        cluster_id: str | None = None,
        topics: list[TopicData] = NOT_GIVEN,
        leader_endpoints: list[LeaderEndpoint] = NOT_GIVEN,
    ) -> None:
        self.cluster_id = cluster_id
        self.topics: list[TopicData] = [] if topics is NOT_GIVEN else topics
        self.leader_endpoints: list[LeaderEndpoint] = [] if leader_endpoints is NOT_GIVEN else leader_endpoints


class PartitionResult(Message):
    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class TopicResult(Message):
    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[PartitionResult] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionResult] = [] if partitions is NOT_GIVEN else partitions


class NodeEndpoint(Message):
    __slots__ = ("node_id", "host", "port")

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class EndQuorumEpochResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints")

    def __init__(
        self,
        error_code: int = 0,
        topics: list[TopicResult] = NOT_GIVEN,
        node_endpoints: list[NodeEndpoint] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.topics: list[TopicResult] = [] if topics is NOT_GIVEN else topics
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is NOT_GIVEN else node_endpoints


def encode_end_quorum_epoch_request(m: EndQuorumEpochRequest, version: int) -> bytes:
    try:
        flexible = version >= 1
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(nullable_string_(m.cluster_id))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.topic_name))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_iii(m_4.partition_index, m_4.leader_id, m_4.leader_epoch))
                if version <= 0:
                    values_5 = m_4.preferred_successors
                    add(count_(len(values_5)))
                    add(pack_numbers(values_5, "i"))
                if version >= 1:
                    values_6 = m_4.preferred_candidates
                    add(count_(len(values_6)))
                    for m_7 in values_6:
                        add(_pack_iu(m_7.candidate_id, m_7.candidate_directory_id.bytes))
                        add(b"\x00")
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if version >= 1:
            values_8 = m.leader_endpoints
            add(count_(len(values_8)))
            for m_9 in values_8:
                add(string_(m_9.name))
                add(string_(m_9.host))
                add(_pack_H(m_9.port))
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("EndQuorumEpochRequest", version, error) from error


def decode_end_quorum_epoch_request(data: memoryview, version: int) -> EndQuorumEpochRequest:
    try:
        flexible = version >= 1
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        cluster_id, p = nullable_string_(data, p)
        count, p = count_(data, p, 3)
        topics: list[TopicData] = []
        for _ in range(count):
            topic_name_1, p = string_(data, p)
            count, p = count_(data, p, 14)
            partitions_1: list[PartitionData] = []
            for _ in range(count):
                partition_index_2, leader_id_2, leader_epoch_2 = _unpack_iii(data, p)
                p += 12
                preferred_successors_2: list[int]
                if version <= 0:
                    count, p = count_(data, p, 4)
                    preferred_successors_2, p = read_numbers(data, p, count, "i")
                else:
                    preferred_successors_2 = []
                preferred_candidates_2: list[ReplicaInfo]
                if version >= 1:
                    count, p = count_(data, p, 21)
                    preferred_candidates_2 = []
                    for _ in range(count):
                        candidate_id_3, candidate_directory_id_3 = _unpack_iu(data, p)
                        p += 20
                        candidate_directory_id_3 = uuid_of(candidate_directory_id_3)
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        preferred_candidates_2.append(ReplicaInfo(candidate_id_3, candidate_directory_id_3))
                else:
                    preferred_candidates_2 = []
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionData(partition_index_2, leader_id_2, leader_epoch_2, preferred_successors_2, preferred_candidates_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicData(topic_name_1, partitions_1))
        leader_endpoints: list[LeaderEndpoint]
        if version >= 1:
            count, p = count_(data, p, 5)
            leader_endpoints = []
            for _ in range(count):
                name_4, p = string_(data, p)
                host_4, p = string_(data, p)
                (port_4,) = _unpack_H(data, p)
                p += 2
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                leader_endpoints.append(LeaderEndpoint(name_4, host_4, port_4))
        else:
            leader_endpoints = []
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return EndQuorumEpochRequest(cluster_id, topics, leader_endpoints)
    except DECODE_ERRORS as error:
        raise malformed("EndQuorumEpochRequest", version, error) from None


def encode_end_quorum_epoch_response(m: EndQuorumEpochResponse, version: int) -> bytes:
    try:
        flexible = version >= 1
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.error_code))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.topic_name))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_ihii(m_4.partition_index, m_4.error_code, m_4.leader_id, m_4.leader_epoch))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            tags_5: list[tuple[int, bytes]] = []
            if version >= 1 and m.node_endpoints:
                parts_6: list[BytesLike] = []
                add_6 = parts_6.append
                values_7 = m.node_endpoints
                add_6(count_(len(values_7)))
                for m_8 in values_7:
                    add_6(_pack_i(m_8.node_id))
                    add_6(string_(m_8.host))
                    add_6(_pack_H(m_8.port))
                    add_6(b"\x00")
                tags_5.append((0, b"".join(parts_6)))
            add(pack_tags(tags_5))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("EndQuorumEpochResponse", version, error) from error


def decode_end_quorum_epoch_response(data: memoryview, version: int) -> EndQuorumEpochResponse:
    try:
        flexible = version >= 1
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        (error_code,) = _unpack_h(data, p)
        p += 2
        count, p = count_(data, p, 3)
        topics: list[TopicResult] = []
        for _ in range(count):
            topic_name_1, p = string_(data, p)
            count, p = count_(data, p, 14)
            partitions_1: list[PartitionResult] = []
            for _ in range(count):
                partition_index_2, error_code_2, leader_id_2, leader_epoch_2 = _unpack_ihii(data, p)
                p += 14
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionResult(partition_index_2, error_code_2, leader_id_2, leader_epoch_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicResult(topic_name_1, partitions_1))
        node_endpoints: list[NodeEndpoint] = []
        if flexible:
            if data[p] == 0:
                p += 1
            else:
                tag_count, p = read_uvarint(data, p)
                for _ in range(tag_count):
                    tag, p, stop = read_tag(data, p)
                    if tag == 0 and version >= 1:
                        count, p = count_(data, p, 8)
                        node_endpoints = []
                        for _ in range(count):
                            (node_id_3,) = _unpack_i(data, p)
                            p += 4
                            host_3, p = string_(data, p)
                            (port_3,) = _unpack_H(data, p)
                            p += 2
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                            node_endpoints.append(NodeEndpoint(node_id_3, host_3, port_3))
                        if p != stop:
                            raise wrong_tag_size(tag, p, stop)
                    p = stop
        return EndQuorumEpochResponse(error_code, topics, node_endpoints)
    except DECODE_ERRORS as error:
        raise malformed("EndQuorumEpochResponse", version, error) from None
