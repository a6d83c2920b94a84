"""EndTxn request and response (api 26), versions 0-5.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    pack_compact_string,
    pack_string,
    read_compact_string,
    read_string,
    skip_tags,
    unencodable,
)

_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_ihqh = Struct(">ihqh")
_pack_ihqh, _unpack_ihqh = _ihqh.pack, _ihqh.unpack_from
_qho = Struct(">qh?")
_pack_qho, _unpack_qho = _qho.pack, _qho.unpack_from


class EndTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


def encode_end_txn_request(m: EndTxnRequest, version: int) -> bytes:
    try:
        flexible = version >= 3
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(string_(m.transactional_id))
        add(_pack_qho(m.producer_id, m.producer_epoch, m.committed))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("EndTxnRequest", version, error) from error


def decode_end_txn_request(data: memoryview, version: int) -> EndTxnRequest:
    try:
        flexible = version >= 3
        string_ = read_compact_string if flexible else read_string
        p = 0
        transactional_id, p = string_(data, p)
        producer_id, producer_epoch, committed = _unpack_qho(data, p)
        p += 11
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return EndTxnRequest(transactional_id, producer_id, producer_epoch, committed)
    except DECODE_ERRORS as error:
        raise malformed("EndTxnRequest", version, error) from None


def encode_end_txn_response(m: EndTxnResponse, version: int) -> bytes:
    try:
        flexible = version >= 3
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 5:
            add(_pack_ihqh(m.throttle_time_ms, m.error_code, m.producer_id, m.producer_epoch))
        else:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("EndTxnResponse", version, error) from error


def decode_end_txn_response(data: memoryview, version: int) -> EndTxnResponse:
    try:
        flexible = version >= 3
        p = 0
        if version >= 5:
            throttle_time_ms, error_code, producer_id, producer_epoch = _unpack_ihqh(data, p)
            p += 16
        else:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
            producer_id = -1
            producer_epoch = -1
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return EndTxnResponse(throttle_time_ms, error_code, producer_id, producer_epoch)
    except DECODE_ERRORS as error:
        raise malformed("EndTxnResponse", version, error) from None
