"""DescribeTransactions request and response (api 65), versions 0.

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
    pack_compact_count,
    pack_compact_string,
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_numbers,
    skip_tags,
    unencodable,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_iqqh = Struct(">iqqh")
_pack_iqqh, _unpack_iqqh = _iqqh.pack, _iqqh.unpack_from


class DescribeTransactionsRequest(Message):
    __slots__ = ("transactional_ids",)

    def __init__(
        self,
        transactional_ids: list[str] = NOT_GIVEN,
    ) -> None:
        self.transactional_ids: list[str] = [] if transactional_ids is NOT_GIVEN else transactional_ids


class TopicData(Message):
    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class TransactionState(Message):
    __slots__ = ("error_code", "transactional_id", "transaction_state", "transaction_timeout_ms", "transaction_start_time_ms", "producer_id", "producer_epoch", "topics")

    def __init__(
        self,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics: list[TopicData] = [] if topics is NOT_GIVEN else topics


class DescribeTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "transaction_states")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        transaction_states: list[TransactionState] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states: list[TransactionState] = [] if transaction_states is NOT_GIVEN else transaction_states


def encode_describe_transactions_request(m: DescribeTransactionsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.transactional_ids
        add(pack_compact_count(len(values_1)))
        for text in values_1:
            add(pack_compact_string(text))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeTransactionsRequest", version, error) from error


def decode_describe_transactions_request(data: memoryview, version: int) -> DescribeTransactionsRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 1)
        transactional_ids: list[str] = []
        for _ in range(count):
            item, p = read_compact_string(data, p)
            transactional_ids.append(item)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeTransactionsRequest(transactional_ids)
    except DECODE_ERRORS as error:
        raise malformed("DescribeTransactionsRequest", version, error) from None


def encode_describe_transactions_response(m: DescribeTransactionsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.transaction_states
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(pack_compact_string(m_2.transactional_id))
            add(pack_compact_string(m_2.transaction_state))
            add(_pack_iqqh(m_2.transaction_timeout_ms, m_2.transaction_start_time_ms, m_2.producer_id, m_2.producer_epoch))
            values_3 = m_2.topics
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(pack_compact_string(m_4.topic))
                values_5 = m_4.partitions
                add(pack_compact_count(len(values_5)))
                add(pack_numbers(values_5, "i"))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeTransactionsResponse", version, error) from error


def decode_describe_transactions_response(data: memoryview, version: int) -> DescribeTransactionsResponse:
    try:
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 28)
        transaction_states: list[TransactionState] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            transactional_id_1, p = read_compact_string(data, p)
            transaction_state_1, p = read_compact_string(data, p)
            transaction_timeout_ms_1, transaction_start_time_ms_1, producer_id_1, producer_epoch_1 = _unpack_iqqh(data, p)
            p += 22
            count, p = read_compact_count(data, p, 3)
            topics_1: list[TopicData] = []
            for _ in range(count):
                topic_2, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 4)
                partitions_2, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics_1.append(TopicData(topic_2, partitions_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            transaction_states.append(TransactionState(error_code_1, transactional_id_1, transaction_state_1, transaction_timeout_ms_1, transaction_start_time_ms_1, producer_id_1, producer_epoch_1, topics_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeTransactionsResponse(throttle_time_ms, transaction_states)
    except DECODE_ERRORS as error:
        raise malformed("DescribeTransactionsResponse", version, error) from None
