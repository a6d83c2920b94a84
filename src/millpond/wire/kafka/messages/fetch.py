"""Fetch request and response (api 1), versions 4-18.

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
    pack_numbers,
    pack_size,
    pack_string,
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_count,
    read_nullable_compact_string,
    read_nullable_compact_view,
    read_nullable_count,
    read_nullable_string,
    read_nullable_view,
    read_numbers,
    read_string,
    read_tag,
    read_uvarint,
    skip_tags,
    unencodable,
    uuid_of,
    wrong_tag_size,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ihi = Struct(">ihi")
_pack_ihi, _unpack_ihi = _ihi.pack, _ihi.unpack_from
_ihqq = Struct(">ihqq")
_pack_ihqq, _unpack_ihqq = _ihqq.pack, _ihqq.unpack_from
_ihqqq = Struct(">ihqqq")
_pack_ihqqq, _unpack_ihqqq = _ihqqq.pack, _ihqqq.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_iiibii = Struct(">iiibii")
_pack_iiibii, _unpack_iiibii = _iiibii.pack, _iiibii.unpack_from
_iiiib = Struct(">iiiib")
_pack_iiiib, _unpack_iiiib = _iiiib.pack, _iiiib.unpack_from
_iiiibii = Struct(">iiiibii")
_pack_iiiibii, _unpack_iiiibii = _iiiibii.pack, _iiiibii.unpack_from
_iiqiqi = Struct(">iiqiqi")
_pack_iiqiqi, _unpack_iiqiqi = _iiqiqi.pack, _iiqiqi.unpack_from
_iiqqi = Struct(">iiqqi")
_pack_iiqqi, _unpack_iiqqi = _iiqqi.pack, _iiqqi.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_iqi = Struct(">iqi")
_pack_iqi, _unpack_iqi = _iqi.pack, _iqi.unpack_from
_iqqi = Struct(">iqqi")
_pack_iqqi, _unpack_iqqi = _iqqi.pack, _iqqi.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from
_qi = Struct(">qi")
_pack_qi, _unpack_qi = _qi.pack, _qi.unpack_from
_qq = Struct(">qq")
_pack_qq, _unpack_qq = _qq.pack, _qq.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class ReplicaState(Message):
    __slots__ = ("replica_id", "replica_epoch")

    def __init__(
        self,
        replica_id: int = -1,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchPartition(Message):
    __slots__ = ("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset", "partition_max_bytes", "replica_directory_id", "high_watermark")

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: UUID = NO_ID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchTopic(Message):
    __slots__ = ("topic", "topic_id", "partitions")

    def __init__(
        self,
        topic: str = "",
        topic_id: UUID = NO_ID,
        partitions: list[FetchPartition] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[FetchPartition] = [] if partitions is NOT_GIVEN else partitions


class ForgottenTopic(Message):
    __slots__ = ("topic", "topic_id", "partitions")

    def __init__(
        self,
        topic: str = "",
        topic_id: UUID = NO_ID,
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class FetchRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "replica_state", "max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "session_id", "session_epoch", "topics", "forgotten_topics_data", "rack_id")

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: ReplicaState = NOT_GIVEN,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 0x7fffffff,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic] = NOT_GIVEN,
        forgotten_topics_data: list[ForgottenTopic] = NOT_GIVEN,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state: ReplicaState = ReplicaState() if replica_state is NOT_GIVEN else replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics: list[FetchTopic] = [] if topics is NOT_GIVEN else topics
        self.forgotten_topics_data: list[ForgottenTopic] = [] if forgotten_topics_data is NOT_GIVEN else forgotten_topics_data
        self.rack_id = rack_id


class EpochEndOffset(Message):
    __slots__ = ("epoch", "end_offset")

    def __init__(
        self,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class SnapshotId(Message):
    __slots__ = ("end_offset", "epoch")

    def __init__(
        self,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class AbortedTransaction(Message):
    __slots__ = ("producer_id", "first_offset")

    def __init__(
        self,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class PartitionData(Message):
    __slots__ = ("partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "diverging_epoch", "current_leader", "snapshot_id", "aborted_transactions", "preferred_read_replica", "records")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset = NOT_GIVEN,
        current_leader: LeaderIdAndEpoch = NOT_GIVEN,
        snapshot_id: SnapshotId = NOT_GIVEN,
        aborted_transactions: list[AbortedTransaction] | None = NOT_GIVEN,
        preferred_read_replica: int = -1,
        records: BytesLike | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch: EpochEndOffset = EpochEndOffset() if diverging_epoch is NOT_GIVEN else diverging_epoch
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is NOT_GIVEN else current_leader
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is NOT_GIVEN else snapshot_id
        self.aborted_transactions: list[AbortedTransaction] | None = [] if aborted_transactions is NOT_GIVEN else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(Message):
    __slots__ = ("topic", "topic_id", "partitions")

    def __init__(
        self,
        topic: str = "",
        topic_id: UUID = NO_ID,
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
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


class FetchResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] = NOT_GIVEN,
        node_endpoints: list[NodeEndpoint] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses: list[FetchableTopicResponse] = [] if responses is NOT_GIVEN else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is NOT_GIVEN else node_endpoints


def encode_fetch_request(m: FetchRequest, version: int) -> bytes:
    try:
        flexible = version >= 12
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 15:
            add(_pack_iiibii(m.max_wait_ms, m.min_bytes, m.max_bytes, m.isolation_level, m.session_id, m.session_epoch))
        elif version >= 7:
            add(_pack_iiiibii(m.replica_id, m.max_wait_ms, m.min_bytes, m.max_bytes, m.isolation_level, m.session_id, m.session_epoch))
        else:
            add(_pack_iiiib(m.replica_id, m.max_wait_ms, m.min_bytes, m.max_bytes, m.isolation_level))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            if version <= 12:
                add(string_(m_2.topic))
            if version >= 13:
                add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                if version >= 12:
                    add(_pack_iiqiqi(m_4.partition, m_4.current_leader_epoch, m_4.fetch_offset, m_4.last_fetched_epoch, m_4.log_start_offset, m_4.partition_max_bytes))
                elif version >= 9:
                    add(_pack_iiqqi(m_4.partition, m_4.current_leader_epoch, m_4.fetch_offset, m_4.log_start_offset, m_4.partition_max_bytes))
                elif version >= 5:
                    add(_pack_iqqi(m_4.partition, m_4.fetch_offset, m_4.log_start_offset, m_4.partition_max_bytes))
                else:
                    add(_pack_iqi(m_4.partition, m_4.fetch_offset, m_4.partition_max_bytes))
                if flexible:
                    tags_5: list[tuple[int, bytes]] = []
                    if version >= 17 and m_4.replica_directory_id != NO_ID:
                        parts_6: list[BytesLike] = []
                        add_6 = parts_6.append
                        add_6(_pack_u(m_4.replica_directory_id.bytes))
                        tags_5.append((0, b"".join(parts_6)))
                    if version >= 18 and m_4.high_watermark != 9223372036854775807:
                        parts_7: list[BytesLike] = []
                        add_7 = parts_7.append
                        add_7(_pack_q(m_4.high_watermark))
                        tags_5.append((1, b"".join(parts_7)))
                    add(pack_tags(tags_5))
            if flexible:
                add(b"\x00")
        if version >= 7:
            values_8 = m.forgotten_topics_data
            add(count_(len(values_8)))
            for m_9 in values_8:
                if version <= 12:
                    add(string_(m_9.topic))
                if version >= 13:
                    add(_pack_u(m_9.topic_id.bytes))
                values_10 = m_9.partitions
                add(count_(len(values_10)))
                add(pack_numbers(values_10, "i"))
                if flexible:
                    add(b"\x00")
        if version >= 11:
            add(string_(m.rack_id))
        if flexible:
            tags_11: list[tuple[int, bytes]] = []
            if version >= 12 and m.cluster_id is not None:
                parts_12: list[BytesLike] = []
                add_12 = parts_12.append
                add_12(nullable_string_(m.cluster_id))
                tags_11.append((0, b"".join(parts_12)))
            if version >= 15 and m.replica_state != ReplicaState():
                parts_13: list[BytesLike] = []
                add_13 = parts_13.append
                m_14 = m.replica_state
                add_13(_pack_iq(m_14.replica_id, m_14.replica_epoch))
                add_13(b"\x00")
                tags_11.append((1, b"".join(parts_13)))
            add(pack_tags(tags_11))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("FetchRequest", version, error) from error


def decode_fetch_request(data: memoryview, version: int) -> FetchRequest:
    try:
        flexible = version >= 12
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 15:
            max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _unpack_iiibii(data, p)
            p += 21
            replica_id = -1
        elif version >= 7:
            replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _unpack_iiiibii(data, p)
            p += 25
        else:
            replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _unpack_iiiib(data, p)
            p += 17
            session_id = 0
            session_epoch = -1
        count, p = count_(data, p, 3)
        topics: list[FetchTopic] = []
        for _ in range(count):
            if version <= 12:
                topic_1, p = string_(data, p)
            else:
                topic_1 = ""
            if version >= 13:
                (topic_id_1,) = _unpack_u(data, p)
                p += 16
                topic_id_1 = uuid_of(topic_id_1)
            else:
                topic_id_1 = NO_ID
            count, p = count_(data, p, 16)
            partitions_1: list[FetchPartition] = []
            for _ in range(count):
                if version >= 12:
                    partition_2, current_leader_epoch_2, fetch_offset_2, last_fetched_epoch_2, log_start_offset_2, partition_max_bytes_2 = _unpack_iiqiqi(data, p)
                    p += 32
                elif version >= 9:
                    partition_2, current_leader_epoch_2, fetch_offset_2, log_start_offset_2, partition_max_bytes_2 = _unpack_iiqqi(data, p)
                    p += 28
                    last_fetched_epoch_2 = -1
                elif version >= 5:
                    partition_2, fetch_offset_2, log_start_offset_2, partition_max_bytes_2 = _unpack_iqqi(data, p)
                    p += 24
                    current_leader_epoch_2 = -1
                    last_fetched_epoch_2 = -1
                else:
                    partition_2, fetch_offset_2, partition_max_bytes_2 = _unpack_iqi(data, p)
                    p += 16
                    current_leader_epoch_2 = -1
                    last_fetched_epoch_2 = -1
                    log_start_offset_2 = -1
                replica_directory_id_2: UUID = NO_ID
                high_watermark_2: int = 9223372036854775807
                if flexible:
                    if data[p] == 0:
                        p += 1
                    else:
                        tag_count_2, p = read_uvarint(data, p)
                        for _ in range(tag_count_2):
                            tag_2, p, stop_2 = read_tag(data, p)
                            if tag_2 == 0 and version >= 17:
                                (replica_directory_id_2,) = _unpack_u(data, p)
                                p += 16
                                replica_directory_id_2 = uuid_of(replica_directory_id_2)
                                if p != stop_2:
                                    raise wrong_tag_size(tag_2, p, stop_2)
                            elif tag_2 == 1 and version >= 18:
                                (high_watermark_2,) = _unpack_q(data, p)
                                p += 8
                                if p != stop_2:
                                    raise wrong_tag_size(tag_2, p, stop_2)
                            p = stop_2
                partitions_1.append(FetchPartition(partition_2, current_leader_epoch_2, fetch_offset_2, last_fetched_epoch_2, log_start_offset_2, partition_max_bytes_2, replica_directory_id_2, high_watermark_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(FetchTopic(topic_1, topic_id_1, partitions_1))
        forgotten_topics_data: list[ForgottenTopic]
        if version >= 7:
            count, p = count_(data, p, 3)
            forgotten_topics_data = []
            for _ in range(count):
                if version <= 12:
                    topic_3, p = string_(data, p)
                else:
                    topic_3 = ""
                if version >= 13:
                    (topic_id_3,) = _unpack_u(data, p)
                    p += 16
                    topic_id_3 = uuid_of(topic_id_3)
                else:
                    topic_id_3 = NO_ID
                count, p = count_(data, p, 4)
                partitions_3, p = read_numbers(data, p, count, "i")
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                forgotten_topics_data.append(ForgottenTopic(topic_3, topic_id_3, partitions_3))
        else:
            forgotten_topics_data = []
        if version >= 11:
            rack_id, p = string_(data, p)
        else:
            rack_id = ""
        cluster_id: str | None = None
        replica_state: ReplicaState = ReplicaState()
        if flexible:
            if data[p] == 0:
                p += 1
            else:
                tag_count, p = read_uvarint(data, p)
                for _ in range(tag_count):
                    tag, p, stop = read_tag(data, p)
                    if tag == 0 and version >= 12:
                        cluster_id, p = nullable_string_(data, p)
                        if p != stop:
                            raise wrong_tag_size(tag, p, stop)
                    elif tag == 1 and version >= 15:
                        replica_id_4, replica_epoch_4 = _unpack_iq(data, p)
                        p += 12
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        replica_state = ReplicaState(replica_id_4, replica_epoch_4)
                        if p != stop:
                            raise wrong_tag_size(tag, p, stop)
                    p = stop
        return FetchRequest(cluster_id, replica_id, replica_state, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten_topics_data, rack_id)
    except DECODE_ERRORS as error:
        raise malformed("FetchRequest", version, error) from None


def encode_fetch_response(m: FetchResponse, version: int) -> bytes:
    try:
        flexible = version >= 12
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        size_ = pack_compact_size if flexible else pack_size
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 7:
            add(_pack_ihi(m.throttle_time_ms, m.error_code, m.session_id))
        else:
            add(_pack_i(m.throttle_time_ms))
        values_1 = m.responses
        add(count_(len(values_1)))
        for m_2 in values_1:
            if version <= 12:
                add(string_(m_2.topic))
            if version >= 13:
                add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                if version >= 5:
                    add(_pack_ihqqq(m_4.partition_index, m_4.error_code, m_4.high_watermark, m_4.last_stable_offset, m_4.log_start_offset))
                else:
                    add(_pack_ihqq(m_4.partition_index, m_4.error_code, m_4.high_watermark, m_4.last_stable_offset))
                values_5 = m_4.aborted_transactions
                if values_5 is None:
                    add(count_(-1))
                else:
                    add(count_(len(values_5)))
                    for m_6 in values_5:
                        add(_pack_qq(m_6.producer_id, m_6.first_offset))
                        if flexible:
                            add(b"\x00")
                if version >= 11:
                    add(_pack_i(m_4.preferred_read_replica))
                value_7 = m_4.records
                if value_7 is None:
                    add(count_(-1))
                else:
                    add(size_(value_7))
                    add(value_7)
                if flexible:
                    tags_8: list[tuple[int, bytes]] = []
                    if version >= 12 and m_4.diverging_epoch != EpochEndOffset():
                        parts_9: list[BytesLike] = []
                        add_9 = parts_9.append
                        m_10 = m_4.diverging_epoch
                        add_9(_pack_iq(m_10.epoch, m_10.end_offset))
                        add_9(b"\x00")
                        tags_8.append((0, b"".join(parts_9)))
                    if version >= 12 and m_4.current_leader != LeaderIdAndEpoch():
                        parts_11: list[BytesLike] = []
                        add_11 = parts_11.append
                        m_12 = m_4.current_leader
                        add_11(_pack_ii(m_12.leader_id, m_12.leader_epoch))
                        add_11(b"\x00")
                        tags_8.append((1, b"".join(parts_11)))
                    if version >= 12 and m_4.snapshot_id != SnapshotId():
                        parts_13: list[BytesLike] = []
                        add_13 = parts_13.append
                        m_14 = m_4.snapshot_id
                        add_13(_pack_qi(m_14.end_offset, m_14.epoch))
                        add_13(b"\x00")
                        tags_8.append((2, b"".join(parts_13)))
                    add(pack_tags(tags_8))
            if flexible:
                add(b"\x00")
        if flexible:
            tags_15: list[tuple[int, bytes]] = []
            if version >= 16 and m.node_endpoints:
                parts_16: list[BytesLike] = []
                add_16 = parts_16.append
                values_17 = m.node_endpoints
                add_16(count_(len(values_17)))
                for m_18 in values_17:
                    add_16(_pack_i(m_18.node_id))
                    add_16(string_(m_18.host))
                    add_16(_pack_i(m_18.port))
                    add_16(nullable_string_(m_18.rack))
                    add_16(b"\x00")
                tags_15.append((0, b"".join(parts_16)))
            add(pack_tags(tags_15))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("FetchResponse", version, error) from error


def decode_fetch_response(data: memoryview, version: int) -> FetchResponse:
    try:
        flexible = version >= 12
        count_ = read_compact_count if flexible else read_count
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        nullable_view_ = read_nullable_compact_view if flexible else read_nullable_view
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 7:
            throttle_time_ms, error_code, session_id = _unpack_ihi(data, p)
            p += 10
        else:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
            error_code = 0
            session_id = 0
        count, p = count_(data, p, 3)
        responses: list[FetchableTopicResponse] = []
        for _ in range(count):
            if version <= 12:
                topic_1, p = string_(data, p)
            else:
                topic_1 = ""
            if version >= 13:
                (topic_id_1,) = _unpack_u(data, p)
                p += 16
                topic_id_1 = uuid_of(topic_id_1)
            else:
                topic_id_1 = NO_ID
            count, p = count_(data, p, 30)
            partitions_1: list[PartitionData] = []
            for _ in range(count):
                if version >= 5:
                    partition_index_2, error_code_2, high_watermark_2, last_stable_offset_2, log_start_offset_2 = _unpack_ihqqq(data, p)
                    p += 30
                else:
                    partition_index_2, error_code_2, high_watermark_2, last_stable_offset_2 = _unpack_ihqq(data, p)
                    p += 22
                    log_start_offset_2 = -1
                count, p = nullable_count_(data, p, 16)
                aborted_transactions_2: list[AbortedTransaction] | None
                if count < 0:
                    aborted_transactions_2 = None
                else:
                    aborted_transactions_2 = []
                    for _ in range(count):
                        producer_id_3, first_offset_3 = _unpack_qq(data, p)
                        p += 16
                        if flexible:
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        aborted_transactions_2.append(AbortedTransaction(producer_id_3, first_offset_3))
                if version >= 11:
                    (preferred_read_replica_2,) = _unpack_i(data, p)
                    p += 4
                else:
                    preferred_read_replica_2 = -1
                records_2, p = nullable_view_(data, p)
                diverging_epoch_2: EpochEndOffset = EpochEndOffset()
                current_leader_2: LeaderIdAndEpoch = LeaderIdAndEpoch()
                snapshot_id_2: SnapshotId = SnapshotId()
                if flexible:
                    if data[p] == 0:
                        p += 1
                    else:
                        tag_count_2, p = read_uvarint(data, p)
                        for _ in range(tag_count_2):
                            tag_2, p, stop_2 = read_tag(data, p)
                            if tag_2 == 0 and version >= 12:
                                epoch_4, end_offset_4 = _unpack_iq(data, p)
                                p += 12
                                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                                diverging_epoch_2 = EpochEndOffset(epoch_4, end_offset_4)
                                if p != stop_2:
                                    raise wrong_tag_size(tag_2, p, stop_2)
                            elif tag_2 == 1 and version >= 12:
                                leader_id_5, leader_epoch_5 = _unpack_ii(data, p)
                                p += 8
                                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                                current_leader_2 = LeaderIdAndEpoch(leader_id_5, leader_epoch_5)
                                if p != stop_2:
                                    raise wrong_tag_size(tag_2, p, stop_2)
                            elif tag_2 == 2 and version >= 12:
                                end_offset_6, epoch_6 = _unpack_qi(data, p)
                                p += 12
                                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                                snapshot_id_2 = SnapshotId(end_offset_6, epoch_6)
                                if p != stop_2:
                                    raise wrong_tag_size(tag_2, p, stop_2)
                            p = stop_2
                partitions_1.append(PartitionData(partition_index_2, error_code_2, high_watermark_2, last_stable_offset_2, log_start_offset_2, diverging_epoch_2, current_leader_2, snapshot_id_2, aborted_transactions_2, preferred_read_replica_2, records_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            responses.append(FetchableTopicResponse(topic_1, topic_id_1, partitions_1))
        node_endpoints: list[NodeEndpoint] = []
        if flexible:
            if data[p] == 0:
                p += 1
            else:
                tag_count, p = read_uvarint(data, p)
                for _ in range(tag_count):
                    tag, p, stop = read_tag(data, p)
                    if tag == 0 and version >= 16:
                        count, p = count_(data, p, 11)
                        node_endpoints = []
                        for _ in range(count):
                            (node_id_7,) = _unpack_i(data, p)
                            p += 4
                            host_7, p = string_(data, p)
                            (port_7,) = _unpack_i(data, p)
                            p += 4
                            rack_7, p = nullable_string_(data, p)
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                            node_endpoints.append(NodeEndpoint(node_id_7, host_7, port_7, rack_7))
                        if p != stop:
                            raise wrong_tag_size(tag, p, stop)
                    p = stop
        return FetchResponse(throttle_time_ms, error_code, session_id, responses, node_endpoints)
    except DECODE_ERRORS as error:
        raise malformed("FetchResponse", version, error) from None
