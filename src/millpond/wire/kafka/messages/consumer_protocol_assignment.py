"""ConsumerProtocolAssignment message, versions 0-3.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    NOT_GIVEN,
    pack_count,
    pack_numbers,
    pack_size,
    pack_string,
    read_count,
    read_nullable_bytes,
    read_numbers,
    read_string,
    unencodable,
)


class TopicPartition(Message):
    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class ConsumerProtocolAssignment(Message):
    __slots__ = ("assigned_partitions", "user_data")

    def __init__(
        self,
        assigned_partitions: list[TopicPartition] = NOT_GIVEN,
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions: list[TopicPartition] = [] if assigned_partitions is NOT_GIVEN else assigned_partitions
        self.user_data = user_data


def encode_consumer_protocol_assignment(m: ConsumerProtocolAssignment, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.assigned_partitions
        add(pack_count(len(values_1)))
        for m_2 in values_1:
            add(pack_string(m_2.topic))
            values_3 = m_2.partitions
            add(pack_count(len(values_3)))
            add(pack_numbers(values_3, "i"))
        value_4 = m.user_data
        if value_4 is None:
            add(pack_count(-1))
        else:
            add(pack_size(value_4))
            add(value_4)
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ConsumerProtocolAssignment", version, error) from error


def decode_consumer_protocol_assignment(data: memoryview, version: int) -> ConsumerProtocolAssignment:
    try:
        p = 0
        count, p = read_count(data, p, 6)
        assigned_partitions: list[TopicPartition] = []
        for _ in range(count):
            topic_1, p = read_string(data, p)
            count, p = read_count(data, p, 4)
            partitions_1, p = read_numbers(data, p, count, "i")
            assigned_partitions.append(TopicPartition(topic_1, partitions_1))
        user_data, p = read_nullable_bytes(data, p)
        return ConsumerProtocolAssignment(assigned_partitions, user_data)
    except DECODE_ERRORS as error:
        raise malformed("ConsumerProtocolAssignment", version, error) from None
