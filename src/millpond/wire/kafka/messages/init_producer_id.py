"""InitProducerId request and response (api 22), versions 0-6.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    pack_nullable_compact_string,
    pack_nullable_string,
    read_nullable_compact_string,
    read_nullable_string,
    skip_tags,
    unencodable,
)

_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ihqh = Struct(">ihqh")
_pack_ihqh, _unpack_ihqh = _ihqh.pack, _ihqh.unpack_from
_ihqhqh = Struct(">ihqhqh")
_pack_ihqhqh, _unpack_ihqhqh = _ihqhqh.pack, _ihqhqh.unpack_from
_iqh = Struct(">iqh")
_pack_iqh, _unpack_iqh = _iqh.pack, _iqh.unpack_from
_iqhoo = Struct(">iqh??")
_pack_iqhoo, _unpack_iqhoo = _iqhoo.pack, _iqhoo.unpack_from


class InitProducerIdRequest(Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "producer_epoch", "enable_2pc", "keep_prepared_txn")

    def __init__(
        self,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable_2pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable_2pc = enable_2pc
        self.keep_prepared_txn = keep_prepared_txn


class InitProducerIdResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch", "ongoing_txn_producer_id", "ongoing_txn_producer_epoch")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch


def encode_init_producer_id_request(m: InitProducerIdRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        parts: list[BytesLike] = []
        add = parts.append
        add(nullable_string_(m.transactional_id))
        if version >= 6:
            add(_pack_iqhoo(m.transaction_timeout_ms, m.producer_id, m.producer_epoch, m.enable_2pc, m.keep_prepared_txn))
        elif version >= 3:
            add(_pack_iqh(m.transaction_timeout_ms, m.producer_id, m.producer_epoch))
        else:
            add(_pack_i(m.transaction_timeout_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("InitProducerIdRequest", version, error) from error


def decode_init_producer_id_request(data: memoryview, version: int) -> InitProducerIdRequest:
    try:
        flexible = version >= 2
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        p = 0
        transactional_id, p = nullable_string_(data, p)
        if version >= 6:
            transaction_timeout_ms, producer_id, producer_epoch, enable_2pc, keep_prepared_txn = _unpack_iqhoo(data, p)
            p += 16
        elif version >= 3:
            transaction_timeout_ms, producer_id, producer_epoch = _unpack_iqh(data, p)
            p += 14
            enable_2pc = False
            keep_prepared_txn = False
        else:
            (transaction_timeout_ms,) = _unpack_i(data, p)
            p += 4
            producer_id = -1
            producer_epoch = -1
            enable_2pc = False
            keep_prepared_txn = False
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return InitProducerIdRequest(transactional_id, transaction_timeout_ms, producer_id, producer_epoch, enable_2pc, keep_prepared_txn)
    except DECODE_ERRORS as error:
        raise malformed("InitProducerIdRequest", version, error) from None


def encode_init_producer_id_response(m: InitProducerIdResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 6:
            add(_pack_ihqhqh(m.throttle_time_ms, m.error_code, m.producer_id, m.producer_epoch, m.ongoing_txn_producer_id, m.ongoing_txn_producer_epoch))
        else:
            add(_pack_ihqh(m.throttle_time_ms, m.error_code, m.producer_id, m.producer_epoch))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("InitProducerIdResponse", version, error) from error


def decode_init_producer_id_response(data: memoryview, version: int) -> InitProducerIdResponse:
    try:
        flexible = version >= 2
        p = 0
        if version >= 6:
            throttle_time_ms, error_code, producer_id, producer_epoch, ongoing_txn_producer_id, ongoing_txn_producer_epoch = _unpack_ihqhqh(data, p)
            p += 26
        else:
            throttle_time_ms, error_code, producer_id, producer_epoch = _unpack_ihqh(data, p)
            p += 16
            ongoing_txn_producer_id = -1
            ongoing_txn_producer_epoch = -1
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return InitProducerIdResponse(throttle_time_ms, error_code, producer_id, producer_epoch, ongoing_txn_producer_id, ongoing_txn_producer_epoch)
    except DECODE_ERRORS as error:
        raise malformed("InitProducerIdResponse", version, error) from None
