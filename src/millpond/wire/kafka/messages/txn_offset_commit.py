"""TxnOffsetCommit request and response (api 28), versions 0-6.

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
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_nullable_string,
    read_string,
    skip_tags,
    unencodable,
    uuid_of,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_iqi = Struct(">iqi")
_pack_iqi, _unpack_iqi = _iqi.pack, _iqi.unpack_from
_qh = Struct(">qh")
_pack_qh, _unpack_qh = _qh.pack, _qh.unpack_from
_qhi = Struct(">qhi")
_pack_qhi, _unpack_qhi = _qhi.pack, _qhi.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class TxnOffsetCommitRequestPartition(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class TxnOffsetCommitRequestTopic(Message):
    __slots__ = ("name", "topic_id", "partitions")

    def __init__(
        self,
        name: str = "",
        topic_id: UUID = NO_ID,
        partitions: list[TxnOffsetCommitRequestPartition] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[TxnOffsetCommitRequestPartition] = [] if partitions is NOT_GIVEN else partitions


class TxnOffsetCommitRequest(Message):
    __slots__ = ("transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id_or_member_epoch", "member_id", "group_instance_id", "topics")

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = NOT_GIVEN,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics: list[TxnOffsetCommitRequestTopic] = [] if topics is NOT_GIVEN else topics


class TxnOffsetCommitResponsePartition(Message):
    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TxnOffsetCommitResponseTopic(Message):
    __slots__ = ("name", "topic_id", "partitions")

    def __init__(
        self,
        name: str = "",
        topic_id: UUID = NO_ID,
        partitions: list[TxnOffsetCommitResponsePartition] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[TxnOffsetCommitResponsePartition] = [] if partitions is NOT_GIVEN else partitions


class TxnOffsetCommitResponse(Message):
    __slots__ = ("throttle_time_ms", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponseTopic] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics: list[TxnOffsetCommitResponseTopic] = [] if topics is NOT_GIVEN else topics


def encode_txn_offset_commit_request(m: TxnOffsetCommitRequest, version: int) -> bytes:
    try:
        flexible = version >= 3
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(string_(m.transactional_id))
        add(string_(m.group_id))
        if version >= 3:
            add(_pack_qhi(m.producer_id, m.producer_epoch, m.generation_id_or_member_epoch))
        else:
            add(_pack_qh(m.producer_id, m.producer_epoch))
        if version >= 3:
            add(string_(m.member_id))
            add(nullable_string_(m.group_instance_id))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            if version <= 5:
                add(string_(m_2.name))
            if version >= 6:
                add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                if version >= 2:
                    add(_pack_iqi(m_4.partition_index, m_4.committed_offset, m_4.committed_leader_epoch))
                else:
                    add(_pack_iq(m_4.partition_index, m_4.committed_offset))
                add(nullable_string_(m_4.committed_metadata))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("TxnOffsetCommitRequest", version, error) from error


def decode_txn_offset_commit_request(data: memoryview, version: int) -> TxnOffsetCommitRequest:
    try:
        flexible = version >= 3
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        transactional_id, p = string_(data, p)
        group_id, p = string_(data, p)
        if version >= 3:
            producer_id, producer_epoch, generation_id_or_member_epoch = _unpack_qhi(data, p)
            p += 14
        else:
            producer_id, producer_epoch = _unpack_qh(data, p)
            p += 10
            generation_id_or_member_epoch = -1
        group_instance_id: str | None
        if version >= 3:
            member_id, p = string_(data, p)
            group_instance_id, p = nullable_string_(data, p)
        else:
            member_id = ""
            group_instance_id = None
        count, p = count_(data, p, 3)
        topics: list[TxnOffsetCommitRequestTopic] = []
        for _ in range(count):
            if version <= 5:
                name_1, p = string_(data, p)
            else:
                name_1 = ""
            if version >= 6:
                (topic_id_1,) = _unpack_u(data, p)
                p += 16
                topic_id_1 = uuid_of(topic_id_1)
            else:
                topic_id_1 = NO_ID
            count, p = count_(data, p, 14)
            partitions_1: list[TxnOffsetCommitRequestPartition] = []
            for _ in range(count):
                if version >= 2:
                    partition_index_2, committed_offset_2, committed_leader_epoch_2 = _unpack_iqi(data, p)
                    p += 16
                else:
                    partition_index_2, committed_offset_2 = _unpack_iq(data, p)
                    p += 12
                    committed_leader_epoch_2 = -1
                committed_metadata_2, p = nullable_string_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(TxnOffsetCommitRequestPartition(partition_index_2, committed_offset_2, committed_leader_epoch_2, committed_metadata_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TxnOffsetCommitRequestTopic(name_1, topic_id_1, partitions_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return TxnOffsetCommitRequest(transactional_id, group_id, producer_id, producer_epoch, generation_id_or_member_epoch, member_id, group_instance_id, topics)
    except DECODE_ERRORS as error:
        raise malformed("TxnOffsetCommitRequest", version, error) from None


def encode_txn_offset_commit_response(m: TxnOffsetCommitResponse, version: int) -> bytes:
    try:
        flexible = version >= 3
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.topics
        add(count_(len(values_1)))
        for m_2 in values_1:
            if version <= 5:
                add(string_(m_2.name))
            if version >= 6:
                add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_ih(m_4.partition_index, m_4.error_code))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("TxnOffsetCommitResponse", version, error) from error


def decode_txn_offset_commit_response(data: memoryview, version: int) -> TxnOffsetCommitResponse:
    try:
        flexible = version >= 3
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 3)
        topics: list[TxnOffsetCommitResponseTopic] = []
        for _ in range(count):
            if version <= 5:
                name_1, p = string_(data, p)
            else:
                name_1 = ""
            if version >= 6:
                (topic_id_1,) = _unpack_u(data, p)
                p += 16
                topic_id_1 = uuid_of(topic_id_1)
            else:
                topic_id_1 = NO_ID
            count, p = count_(data, p, 6)
            partitions_1: list[TxnOffsetCommitResponsePartition] = []
            for _ in range(count):
                partition_index_2, error_code_2 = _unpack_ih(data, p)
                p += 6
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(TxnOffsetCommitResponsePartition(partition_index_2, error_code_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TxnOffsetCommitResponseTopic(name_1, topic_id_1, partitions_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return TxnOffsetCommitResponse(throttle_time_ms, topics)
    except DECODE_ERRORS as error:
        raise malformed("TxnOffsetCommitResponse", version, error) from None
