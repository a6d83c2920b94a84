"""ListTransactions request and response (api 66), versions 0-2.

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
    pack_nullable_compact_string,
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    read_numbers,
    skip_tags,
    unencodable,
)

_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from


class ListTransactionsRequest(Message):
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")

    def __init__(
        self,
        state_filters: list[str] = NOT_GIVEN,
        producer_id_filters: list[int] = NOT_GIVEN,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters: list[str] = [] if state_filters is NOT_GIVEN else state_filters
        self.producer_id_filters: list[int] = [] if producer_id_filters is NOT_GIVEN else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class TransactionState(Message):
    __slots__ = ("transactional_id", "producer_id", "transaction_state")

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = NOT_GIVEN,
        transaction_states: list[TransactionState] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters: list[str] = [] if unknown_state_filters is NOT_GIVEN else unknown_state_filters
        self.transaction_states: list[TransactionState] = [] if transaction_states is NOT_GIVEN else transaction_states


def encode_list_transactions_request(m: ListTransactionsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.state_filters
        add(pack_compact_count(len(values_1)))
        for text in values_1:
            add(pack_compact_string(text))
        values_2 = m.producer_id_filters
        add(pack_compact_count(len(values_2)))
        add(pack_numbers(values_2, "q"))
        if version >= 1:
            add(_pack_q(m.duration_filter))
        if version >= 2:
            add(pack_nullable_compact_string(m.transactional_id_pattern))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListTransactionsRequest", version, error) from error


def decode_list_transactions_request(data: memoryview, version: int) -> ListTransactionsRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 1)
        state_filters: list[str] = []
        for _ in range(count):
            item, p = read_compact_string(data, p)
            state_filters.append(item)
        count, p = read_compact_count(data, p, 8)
        producer_id_filters, p = read_numbers(data, p, count, "q")
        if version >= 1:
            (duration_filter,) = _unpack_q(data, p)
            p += 8
        else:
            duration_filter = -1
        transactional_id_pattern: str | None
        if version >= 2:
            transactional_id_pattern, p = read_nullable_compact_string(data, p)
        else:
            transactional_id_pattern = None
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListTransactionsRequest(state_filters, producer_id_filters, duration_filter, transactional_id_pattern)
    except DECODE_ERRORS as error:
        raise malformed("ListTransactionsRequest", version, error) from None


def encode_list_transactions_response(m: ListTransactionsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        values_1 = m.unknown_state_filters
        add(pack_compact_count(len(values_1)))
        for text in values_1:
            add(pack_compact_string(text))
        values_2 = m.transaction_states
        add(pack_compact_count(len(values_2)))
        for m_3 in values_2:
            add(pack_compact_string(m_3.transactional_id))
            add(_pack_q(m_3.producer_id))
            add(pack_compact_string(m_3.transaction_state))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListTransactionsResponse", version, error) from error


def decode_list_transactions_response(data: memoryview, version: int) -> ListTransactionsResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        count, p = read_compact_count(data, p, 1)
        unknown_state_filters: list[str] = []
        for _ in range(count):
            item, p = read_compact_string(data, p)
            unknown_state_filters.append(item)
        count, p = read_compact_count(data, p, 11)
        transaction_states: list[TransactionState] = []
        for _ in range(count):
            transactional_id_1, p = read_compact_string(data, p)
            (producer_id_1,) = _unpack_q(data, p)
            p += 8
            transaction_state_1, p = read_compact_string(data, p)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            transaction_states.append(TransactionState(transactional_id_1, producer_id_1, transaction_state_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListTransactionsResponse(throttle_time_ms, error_code, unknown_state_filters, transaction_states)
    except DECODE_ERRORS as error:
        raise malformed("ListTransactionsResponse", version, error) from None
