"""ConsumerProtocolSubscription message, versions 0-3.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    NOT_GIVEN,
    pack_count,
    pack_nullable_string,
    pack_numbers,
    pack_size,
    pack_string,
    read_count,
    read_nullable_bytes,
    read_nullable_string,
    read_numbers,
    read_string,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from


class TopicPartition(Message):
    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class ConsumerProtocolSubscription(Message):
    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")

    def __init__(
        self,
        topics: list[str] = NOT_GIVEN,
        user_data: bytes | None = None,
        owned_partitions: list[TopicPartition] = NOT_GIVEN,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics: list[str] = [] if topics is NOT_GIVEN else topics
        self.user_data = user_data
        self.owned_partitions: list[TopicPartition] = [] if owned_partitions is NOT_GIVEN else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id


def encode_consumer_protocol_subscription(m: ConsumerProtocolSubscription, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.topics
        add(pack_count(len(values_1)))
        for text in values_1:
            add(pack_string(text))
        value_2 = m.user_data
        if value_2 is None:
            add(pack_count(-1))
        else:
            add(pack_size(value_2))
            add(value_2)
        if version >= 1:
            values_3 = m.owned_partitions
            add(pack_count(len(values_3)))
            for m_4 in values_3:
                add(pack_string(m_4.topic))
                values_5 = m_4.partitions
                add(pack_count(len(values_5)))
                add(pack_numbers(values_5, "i"))
        if version >= 2:
            add(_pack_i(m.generation_id))
        if version >= 3:
            add(pack_nullable_string(m.rack_id))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ConsumerProtocolSubscription", version, error) from error


def decode_consumer_protocol_subscription(data: memoryview, version: int) -> ConsumerProtocolSubscription:
    try:
        p = 0
        count, p = read_count(data, p, 2)
        topics: list[str] = []
        for _ in range(count):
            item, p = read_string(data, p)
            topics.append(item)
        user_data, p = read_nullable_bytes(data, p)
        owned_partitions: list[TopicPartition]
        if version >= 1:
            count, p = read_count(data, p, 6)
            owned_partitions = []
            for _ in range(count):
                topic_1, p = read_string(data, p)
                count, p = read_count(data, p, 4)
                partitions_1, p = read_numbers(data, p, count, "i")
                owned_partitions.append(TopicPartition(topic_1, partitions_1))
        else:
            owned_partitions = []
        if version >= 2:
            (generation_id,) = _unpack_i(data, p)
            p += 4
        else:
            generation_id = -1
        rack_id: str | None
        if version >= 3:
            rack_id, p = read_nullable_string(data, p)
        else:
            rack_id = None
        return ConsumerProtocolSubscription(topics, user_data, owned_partitions, generation_id, rack_id)
    except DECODE_ERRORS as error:
        raise malformed("ConsumerProtocolSubscription", version, error) from None
