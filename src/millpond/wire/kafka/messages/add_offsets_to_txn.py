"""AddOffsetsToTxn request and response (api 25), versions 0-4.

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
_qh = Struct(">qh")
_pack_qh, _unpack_qh = _qh.pack, _qh.unpack_from


class AddOffsetsToTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


def encode_add_offsets_to_txn_request(m: AddOffsetsToTxnRequest, version: int) -> bytes:
    try:
        flexible = version >= 3
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(string_(m.transactional_id))
        add(_pack_qh(m.producer_id, m.producer_epoch))
        add(string_(m.group_id))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AddOffsetsToTxnRequest", version, error) from error


def decode_add_offsets_to_txn_request(data: memoryview, version: int) -> AddOffsetsToTxnRequest:
    try:
        flexible = version >= 3
        string_ = read_compact_string if flexible else read_string
        p = 0
        transactional_id, p = string_(data, p)
        producer_id, producer_epoch = _unpack_qh(data, p)
        p += 10
        group_id, p = string_(data, p)
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AddOffsetsToTxnRequest(transactional_id, producer_id, producer_epoch, group_id)
    except DECODE_ERRORS as error:
        raise malformed("AddOffsetsToTxnRequest", version, error) from None


def encode_add_offsets_to_txn_response(m: AddOffsetsToTxnResponse, version: int) -> bytes:
    try:
        flexible = version >= 3
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AddOffsetsToTxnResponse", version, error) from error


def decode_add_offsets_to_txn_response(data: memoryview, version: int) -> AddOffsetsToTxnResponse:
    try:
        flexible = version >= 3
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AddOffsetsToTxnResponse(throttle_time_ms, error_code)
    except DECODE_ERRORS as error:
        raise malformed("AddOffsetsToTxnResponse", version, error) from None
