"""FetchSnapshot request and response (api 59), versions 0-1.

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
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_compact_view,
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
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from
_qi = Struct(">qi")
_pack_qi, _unpack_qi = _qi.pack, _qi.unpack_from
_qq = Struct(">qq")
_pack_qq, _unpack_qq = _qq.pack, _qq.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class SnapshotId(Message):
    __slots__ = ("end_offset", "epoch")

    def __init__(
        self,
        end_offset: int = 0,
        epoch: int = 0,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class PartitionSnapshot(Message):
    __slots__ = ("partition", "current_leader_epoch", "snapshot_id", "position", "replica_directory_id")

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: SnapshotId = NOT_GIVEN,
        position: int = 0,
        replica_directory_id: UUID = NO_ID,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is NOT_GIVEN else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class TopicSnapshot(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[PartitionSnapshot] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[PartitionSnapshot] = [] if partitions is NOT_GIVEN else partitions


class FetchSnapshotRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "max_bytes", "topics")

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 0x7fffffff,
        topics: list[TopicSnapshot] = NOT_GIVEN,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics: list[TopicSnapshot] = [] if topics is NOT_GIVEN else topics


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")

    def __init__(
        self,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionSnapshotResult(Message):
    __slots__ = ("index", "error_code", "snapshot_id", "current_leader", "size", "position", "unaligned_records")

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: SnapshotId = NOT_GIVEN,
        current_leader: LeaderIdAndEpoch = NOT_GIVEN,
        size: int = 0,
        position: int = 0,
        unaligned_records: BytesLike = b"",
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is NOT_GIVEN else snapshot_id
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is NOT_GIVEN else current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


class TopicSnapshotResult(Message):
    __slots__ = ("name", "partitions")

    def __init__(
        self,
        name: str = "",
        partitions: list[PartitionSnapshotResult] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions: list[PartitionSnapshotResult] = [] if partitions is NOT_GIVEN else partitions


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


class FetchSnapshotResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics", "node_endpoints")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[TopicSnapshotResult] = NOT_GIVEN,
        node_endpoints: list[NodeEndpoint] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics: list[TopicSnapshotResult] = [] if topics is NOT_GIVEN else topics
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is NOT_GIVEN else node_endpoints


def encode_fetch_snapshot_request(m: FetchSnapshotRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ii(m.replica_id, m.max_bytes))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ii(m_4.partition, m_4.current_leader_epoch))
                m_5 = m_4.snapshot_id
                add(_pack_qi(m_5.end_offset, m_5.epoch))
                add(b"\x00")
                add(_pack_q(m_4.position))
                tags_6: list[tuple[int, bytes]] = []
                if version >= 1 and m_4.replica_directory_id != NO_ID:
                    parts_7: list[BytesLike] = []
                    add_7 = parts_7.append
                    add_7(_pack_u(m_4.replica_directory_id.bytes))
                    tags_6.append((0, b"".join(parts_7)))
                add(pack_tags(tags_6))
            add(b"\x00")
        tags_8: list[tuple[int, bytes]] = []
        if m.cluster_id is not None:
            parts_9: list[BytesLike] = []
            add_9 = parts_9.append
            add_9(pack_nullable_compact_string(m.cluster_id))
            tags_8.append((0, b"".join(parts_9)))
        add(pack_tags(tags_8))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("FetchSnapshotRequest", version, error) from error


def decode_fetch_snapshot_request(data: memoryview, version: int) -> FetchSnapshotRequest:
    try:
        p = 0
        replica_id, max_bytes = _unpack_ii(data, p)
        p += 8
        count, p = read_compact_count(data, p, 3)
        topics: list[TopicSnapshot] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 30)
            partitions_1: list[PartitionSnapshot] = []
            for _ in range(count):
                partition_2, current_leader_epoch_2 = _unpack_ii(data, p)
                p += 8
                end_offset_3, epoch_3 = _unpack_qi(data, p)
                p += 12
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                snapshot_id_2 = SnapshotId(end_offset_3, epoch_3)
                (position_2,) = _unpack_q(data, p)
                p += 8
                replica_directory_id_2: UUID = NO_ID
                if data[p] == 0:
                    p += 1
                else:
                    tag_count_2, p = read_uvarint(data, p)
                    for _ in range(tag_count_2):
                        tag_2, p, stop_2 = read_tag(data, p)
                        if tag_2 == 0 and version >= 1:
                            (replica_directory_id_2,) = _unpack_u(data, p)
                            p += 16
                            replica_directory_id_2 = uuid_of(replica_directory_id_2)
                            if p != stop_2:
                                raise wrong_tag_size(tag_2, p, stop_2)
                        p = stop_2
                partitions_1.append(PartitionSnapshot(partition_2, current_leader_epoch_2, snapshot_id_2, position_2, replica_directory_id_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicSnapshot(name_1, partitions_1))
        cluster_id: str | None = None
        if data[p] == 0:
            p += 1
        else:
            tag_count, p = read_uvarint(data, p)
            for _ in range(tag_count):
                tag, p, stop = read_tag(data, p)
                if tag == 0:
                    cluster_id, p = read_nullable_compact_string(data, p)
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                p = stop
        return FetchSnapshotRequest(cluster_id, replica_id, max_bytes, topics)
    except DECODE_ERRORS as error:
        raise malformed("FetchSnapshotRequest", version, error) from None


def encode_fetch_snapshot_response(m: FetchSnapshotResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.index, m_4.error_code))
                m_5 = m_4.snapshot_id
                add(_pack_qi(m_5.end_offset, m_5.epoch))
                add(b"\x00")
                add(_pack_qq(m_4.size, m_4.position))
                value_6 = m_4.unaligned_records
                add(pack_compact_size(value_6))
                add(value_6)
                tags_7: list[tuple[int, bytes]] = []
                if m_4.current_leader != LeaderIdAndEpoch():
                    parts_8: list[BytesLike] = []
                    add_8 = parts_8.append
                    m_9 = m_4.current_leader
                    add_8(_pack_ii(m_9.leader_id, m_9.leader_epoch))
                    add_8(b"\x00")
                    tags_7.append((0, b"".join(parts_8)))
                add(pack_tags(tags_7))
            add(b"\x00")
        tags_10: list[tuple[int, bytes]] = []
        if version >= 1 and m.node_endpoints:
            parts_11: list[BytesLike] = []
            add_11 = parts_11.append
            values_12 = m.node_endpoints
            add_11(pack_compact_count(len(values_12)))
            for m_13 in values_12:
                add_11(_pack_i(m_13.node_id))
                add_11(pack_compact_string(m_13.host))
                add_11(_pack_H(m_13.port))
                add_11(b"\x00")
            tags_10.append((0, b"".join(parts_11)))
        add(pack_tags(tags_10))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("FetchSnapshotResponse", version, error) from error


def decode_fetch_snapshot_response(data: memoryview, version: int) -> FetchSnapshotResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        count, p = read_compact_count(data, p, 3)
        topics: list[TopicSnapshotResult] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 37)
            partitions_1: list[PartitionSnapshotResult] = []
            for _ in range(count):
                index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                end_offset_3, epoch_3 = _unpack_qi(data, p)
                p += 12
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                snapshot_id_2 = SnapshotId(end_offset_3, epoch_3)
                size_2, position_2 = _unpack_qq(data, p)
                p += 16
                unaligned_records_2, p = read_compact_view(data, p)
                current_leader_2: LeaderIdAndEpoch = LeaderIdAndEpoch()
                if data[p] == 0:
                    p += 1
                else:
                    tag_count_2, p = read_uvarint(data, p)
                    for _ in range(tag_count_2):
                        tag_2, p, stop_2 = read_tag(data, p)
                        if tag_2 == 0:
                            leader_id_4, leader_epoch_4 = _unpack_ii(data, p)
                            p += 8
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                            current_leader_2 = LeaderIdAndEpoch(leader_id_4, leader_epoch_4)
                            if p != stop_2:
                                raise wrong_tag_size(tag_2, p, stop_2)
                        p = stop_2
                partitions_1.append(PartitionSnapshotResult(index_2, error_code_2, snapshot_id_2, current_leader_2, size_2, position_2, unaligned_records_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicSnapshotResult(name_1, partitions_1))
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
                        (node_id_5,) = _unpack_i(data, p)
                        p += 4
                        host_5, p = read_compact_string(data, p)
                        (port_5,) = _unpack_H(data, p)
                        p += 2
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        node_endpoints.append(NodeEndpoint(node_id_5, host_5, port_5))
                    if p != stop:
                        raise wrong_tag_size(tag, p, stop)
                p = stop
        return FetchSnapshotResponse(throttle_time_ms, error_code, topics, node_endpoints)
    except DECODE_ERRORS as error:
        raise malformed("FetchSnapshotResponse", version, error) from None
