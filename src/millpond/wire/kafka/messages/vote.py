"""Vote request and response (api 52), versions 0-2.

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
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
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
_ihiio = Struct(">ihii?")
_pack_ihiio, _unpack_ihiio = _ihiio.pack, _ihiio.unpack_from
_iiiiq = Struct(">iiiiq")
_pack_iiiiq, _unpack_iiiiq = _iiiiq.pack, _iiiiq.unpack_from
_iiiuuiq = Struct(">iii16s16siq")
_pack_iiiuuiq, _unpack_iiiuuiq = _iiiuuiq.pack, _iiiuuiq.unpack_from
_iiiuuiqo = Struct(">iii16s16siq?")
_pack_iiiuuiqo, _unpack_iiiuuiqo = _iiiuuiqo.pack, _iiiuuiqo.unpack_from


class PartitionData(Message):
    __slots__ = ("partition_index", "replica_epoch", "replica_id", "replica_directory_id", "voter_directory_id", "last_offset_epoch", "last_offset", "pre_vote")

    def __init__(
        self,
        partition_index: int = 0,
        replica_epoch: int = 0,
        replica_id: int = 0,
        replica_directory_id: UUID = NO_ID,
        voter_directory_id: UUID = NO_ID,
        last_offset_epoch: int = 0,
        last_offset: int = 0,
        pre_vote: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote


class TopicData(Message):
    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic_name = topic_name
        self.partitions: list[PartitionData] = [] if partitions is NOT_GIVEN else partitions


class VoteRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics")

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[TopicData] = NOT_GIVEN,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics: list[TopicData] = [] if topics is NOT_GIVEN else topics


class PartitionResult(Message):
    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch", "vote_granted", "silent_ms")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        vote_granted: bool = False,
        silent_ms: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.vote_granted = vote_granted
        self.silent_ms = silent_ms


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


class VoteResponse(Message):
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


def encode_vote_request(m: VoteRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_nullable_compact_string(m.cluster_id))
        if version >= 1:
            add(_pack_i(m.voter_id))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.topic_name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                if version >= 2:
                    add(_pack_iiiuuiqo(m_4.partition_index, m_4.replica_epoch, m_4.replica_id, m_4.replica_directory_id.bytes, m_4.voter_directory_id.bytes, m_4.last_offset_epoch, m_4.last_offset, m_4.pre_vote))
                elif version >= 1:
                    add(_pack_iiiuuiq(m_4.partition_index, m_4.replica_epoch, m_4.replica_id, m_4.replica_directory_id.bytes, m_4.voter_directory_id.bytes, m_4.last_offset_epoch, m_4.last_offset))
                else:
                    add(_pack_iiiiq(m_4.partition_index, m_4.replica_epoch, m_4.replica_id, m_4.last_offset_epoch, m_4.last_offset))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("VoteRequest", version, error) from error


def decode_vote_request(data: memoryview, version: int) -> VoteRequest:
    try:
        p = 0
        cluster_id, p = read_nullable_compact_string(data, p)
        if version >= 1:
            (voter_id,) = _unpack_i(data, p)
            p += 4
        else:
            voter_id = -1
        count, p = read_compact_count(data, p, 3)
        topics: list[TopicData] = []
        for _ in range(count):
            topic_name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 25)
            partitions_1: list[PartitionData] = []
            for _ in range(count):
                if version >= 2:
                    partition_index_2, replica_epoch_2, replica_id_2, replica_directory_id_2, voter_directory_id_2, last_offset_epoch_2, last_offset_2, pre_vote_2 = _unpack_iiiuuiqo(data, p)
                    p += 57
                    replica_directory_id_2 = uuid_of(replica_directory_id_2)
                    voter_directory_id_2 = uuid_of(voter_directory_id_2)
                elif version >= 1:
                    partition_index_2, replica_epoch_2, replica_id_2, replica_directory_id_2, voter_directory_id_2, last_offset_epoch_2, last_offset_2 = _unpack_iiiuuiq(data, p)
                    p += 56
                    replica_directory_id_2 = uuid_of(replica_directory_id_2)
                    voter_directory_id_2 = uuid_of(voter_directory_id_2)
                    pre_vote_2 = False
                else:
                    partition_index_2, replica_epoch_2, replica_id_2, last_offset_epoch_2, last_offset_2 = _unpack_iiiiq(data, p)
                    p += 24
                    replica_directory_id_2 = NO_ID
                    voter_directory_id_2 = NO_ID
                    pre_vote_2 = False
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionData(partition_index_2, replica_epoch_2, replica_id_2, replica_directory_id_2, voter_directory_id_2, last_offset_epoch_2, last_offset_2, pre_vote_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicData(topic_name_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return VoteRequest(cluster_id, voter_id, topics)
    except DECODE_ERRORS as error:
        raise malformed("VoteRequest", version, error) from None


def encode_vote_response(m: VoteResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.error_code))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.topic_name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ihiio(m_4.partition_index, m_4.error_code, m_4.leader_id, m_4.leader_epoch, m_4.vote_granted))
                tags_5: list[tuple[int, bytes]] = []
                if m_4.silent_ms != 0:
                    parts_6: list[BytesLike] = []
                    add_6 = parts_6.append
                    add_6(_pack_i(m_4.silent_ms))
                    tags_5.append((1000, b"".join(parts_6)))
                add(pack_tags(tags_5))
            add(b"\x00")
        tags_7: list[tuple[int, bytes]] = []
        if version >= 1 and m.node_endpoints:
            parts_8: list[BytesLike] = []
            add_8 = parts_8.append
            values_9 = m.node_endpoints
            add_8(pack_compact_count(len(values_9)))
            for m_10 in values_9:
                add_8(_pack_i(m_10.node_id))
                add_8(pack_compact_string(m_10.host))
                add_8(_pack_H(m_10.port))
                add_8(b"\x00")
            tags_7.append((0, b"".join(parts_8)))
        add(pack_tags(tags_7))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("VoteResponse", version, error) from error


def decode_vote_response(data: memoryview, version: int) -> VoteResponse:
    try:
        p = 0
        (error_code,) = _unpack_h(data, p)
        p += 2
        count, p = read_compact_count(data, p, 3)
        topics: list[TopicResult] = []
        for _ in range(count):
            topic_name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 16)
            partitions_1: list[PartitionResult] = []
            for _ in range(count):
                partition_index_2, error_code_2, leader_id_2, leader_epoch_2, vote_granted_2 = _unpack_ihiio(data, p)
                p += 15
                silent_ms_2: int = 0
                if data[p] == 0:
                    p += 1
                else:
                    tag_count_2, p = read_uvarint(data, p)
                    for _ in range(tag_count_2):
                        tag_2, p, stop_2 = read_tag(data, p)
                        if tag_2 == 1000:
                            (silent_ms_2,) = _unpack_i(data, p)
                            p += 4
                            if p != stop_2:
                                raise wrong_tag_size(tag_2, p, stop_2)
                        p = stop_2
                partitions_1.append(PartitionResult(partition_index_2, error_code_2, leader_id_2, leader_epoch_2, vote_granted_2, silent_ms_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicResult(topic_name_1, partitions_1))
        node_endpoints: list[NodeEndpoint] = []
        if data[p] == 0:
            p += 1
        else:
            tag_count, p = read_uvarint(data, p)
            for _ in range(tag_count):
                tag, p, stop = read_tag(data, p)
                if tag == 0 and version >= 1:
                    count, p = read_compact_count(data, p, 8)
                    node_endpoints = []
                    for _ in range(count):
                        (node_id_3,) = _unpack_i(data, p)
                        p += 4
                        host_3, p = read_compact_string(data, p)
                        (port_3,) = _unpack_H(data, p)
                        p += 2
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        node_endpoints.append(NodeEndpoint(node_id_3, host_3, port_3))
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                p = stop
        return VoteResponse(error_code, topics, node_endpoints)
    except DECODE_ERRORS as error:
        raise malformed("VoteResponse", version, error) from None
