"""AlterPartition request and response (api 56), versions 2-3.

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
    pack_numbers,
    read_compact_count,
    read_numbers,
    skip_tags,
    unencodable,
    uuid_of,
)

_bi = Struct(">bi")
_pack_bi, _unpack_bi = _bi.pack, _bi.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_ihii = Struct(">ihii")
_pack_ihii, _unpack_ihii = _ihii.pack, _ihii.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from


class BrokerState(Message):
    __slots__ = ("broker_id", "broker_epoch")

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class PartitionData(Message):
    __slots__ = ("partition_index", "leader_epoch", "new_isr", "new_isr_with_epochs", "leader_recovery_state", "partition_epoch")

    def __init__(
        self,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr: list[int] = NOT_GIVEN,
        new_isr_with_epochs: list[BrokerState] = NOT_GIVEN,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr: list[int] = [] if new_isr is NOT_GIVEN else new_isr
        self.new_isr_with_epochs: list[BrokerState] = [] if new_isr_with_epochs is NOT_GIVEN else new_isr_with_epochs
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class TopicData(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionData] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionData] = [] if partitions is NOT_GIVEN else partitions


class AlterPartitionRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "topics")

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
        topics: list[TopicData] = NOT_GIVEN,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics: list[TopicData] = [] if topics is NOT_GIVEN else topics


class PartitionResult(Message):
    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch", "isr", "leader_recovery_state", "partition_epoch")

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        isr: list[int] = NOT_GIVEN,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.isr: list[int] = [] if isr is NOT_GIVEN else isr
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class TopicResult(Message):
    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        partitions: list[PartitionResult] = NOT_GIVEN,
    ) -> None:
        self.topic_id = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is NOT_GIVEN else partitions


class AlterPartitionResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[TopicResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics: list[TopicResult] = [] if topics is NOT_GIVEN else topics


def encode_alter_partition_request(m: AlterPartitionRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_iq(m.broker_id, m.broker_epoch))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ii(m_4.partition_index, m_4.leader_epoch))
                if version <= 2:
                    values_5 = m_4.new_isr
                    add(pack_compact_count(len(values_5)))
                    add(pack_numbers(values_5, "i"))
                if version >= 3:
                    values_6 = m_4.new_isr_with_epochs
                    add(pack_compact_count(len(values_6)))
                    for m_7 in values_6:
                        add(_pack_iq(m_7.broker_id, m_7.broker_epoch))
                        add(b"\x00")
                add(_pack_bi(m_4.leader_recovery_state, m_4.partition_epoch))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterPartitionRequest", version, error) from error


def decode_alter_partition_request(data: memoryview, version: int) -> AlterPartitionRequest:
    try:
        p = 0
        broker_id, broker_epoch = _unpack_iq(data, p)
        p += 12
        count, p = read_compact_count(data, p, 18)
        topics: list[TopicData] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 15)
            partitions_1: list[PartitionData] = []
            for _ in range(count):
                partition_index_2, leader_epoch_2 = _unpack_ii(data, p)
                p += 8
                new_isr_2: list[int]
                if version <= 2:
                    count, p = read_compact_count(data, p, 4)
                    new_isr_2, p = read_numbers(data, p, count, "i")
                else:
                    new_isr_2 = []
                new_isr_with_epochs_2: list[BrokerState]
                if version >= 3:
                    count, p = read_compact_count(data, p, 13)
                    new_isr_with_epochs_2 = []
                    for _ in range(count):
                        broker_id_3, broker_epoch_3 = _unpack_iq(data, p)
                        p += 12
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        new_isr_with_epochs_2.append(BrokerState(broker_id_3, broker_epoch_3))
                else:
                    new_isr_with_epochs_2 = []
                leader_recovery_state_2, partition_epoch_2 = _unpack_bi(data, p)
                p += 5
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionData(partition_index_2, leader_epoch_2, new_isr_2, new_isr_with_epochs_2, leader_recovery_state_2, partition_epoch_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicData(topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterPartitionRequest(broker_id, broker_epoch, topics)
    except DECODE_ERRORS as error:
        raise malformed("AlterPartitionRequest", version, error) from None


def encode_alter_partition_response(m: AlterPartitionResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        values_1 = m.topics
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_u(m_2.topic_id.bytes))
            values_3 = m_2.partitions
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_ihii(m_4.partition_index, m_4.error_code, m_4.leader_id, m_4.leader_epoch))
                values_5 = m_4.isr
                add(pack_compact_count(len(values_5)))
                add(pack_numbers(values_5, "i"))
                add(_pack_bi(m_4.leader_recovery_state, m_4.partition_epoch))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterPartitionResponse", version, error) from error


def decode_alter_partition_response(data: memoryview, version: int) -> AlterPartitionResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        count, p = read_compact_count(data, p, 18)
        topics: list[TopicResult] = []
        for _ in range(count):
            (topic_id_1,) = _unpack_u(data, p)
            p += 16
            topic_id_1 = uuid_of(topic_id_1)
            count, p = read_compact_count(data, p, 21)
            partitions_1: list[PartitionResult] = []
            for _ in range(count):
                partition_index_2, error_code_2, leader_id_2, leader_epoch_2 = _unpack_ihii(data, p)
                p += 14
                count, p = read_compact_count(data, p, 4)
                isr_2, p = read_numbers(data, p, count, "i")
                leader_recovery_state_2, partition_epoch_2 = _unpack_bi(data, p)
                p += 5
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_1.append(PartitionResult(partition_index_2, error_code_2, leader_id_2, leader_epoch_2, isr_2, leader_recovery_state_2, partition_epoch_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(TopicResult(topic_id_1, partitions_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterPartitionResponse(throttle_time_ms, error_code, topics)
    except DECODE_ERRORS as error:
        raise malformed("AlterPartitionResponse", version, error) from None
