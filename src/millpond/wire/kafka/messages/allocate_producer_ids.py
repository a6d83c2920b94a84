"""AllocateProducerIds request and response (api 67), versions 0.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    skip_tags,
    unencodable,
)

_ihqi = Struct(">ihqi")
_pack_ihqi, _unpack_ihqi = _ihqi.pack, _ihqi.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from


class AllocateProducerIdsRequest(Message):
    __slots__ = ("broker_id", "broker_epoch")

    def __init__(
        self,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class AllocateProducerIdsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id_start", "producer_id_len")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id_start: int = 0,
        producer_id_len: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id_start = producer_id_start
        self.producer_id_len = producer_id_len


def encode_allocate_producer_ids_request(m: AllocateProducerIdsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_iq(m.broker_id, m.broker_epoch))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AllocateProducerIdsRequest", version, error) from error


def decode_allocate_producer_ids_request(data: memoryview, version: int) -> AllocateProducerIdsRequest:
    try:
        p = 0
        broker_id, broker_epoch = _unpack_iq(data, p)
        p += 12
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AllocateProducerIdsRequest(broker_id, broker_epoch)
    except DECODE_ERRORS as error:
        raise malformed("AllocateProducerIdsRequest", version, error) from None


def encode_allocate_producer_ids_response(m: AllocateProducerIdsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ihqi(m.throttle_time_ms, m.error_code, m.producer_id_start, m.producer_id_len))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AllocateProducerIdsResponse", version, error) from error


def decode_allocate_producer_ids_response(data: memoryview, version: int) -> AllocateProducerIdsResponse:
    try:
        p = 0
        throttle_time_ms, error_code, producer_id_start, producer_id_len = _unpack_ihqi(data, p)
        p += 18
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AllocateProducerIdsResponse(throttle_time_ms, error_code, producer_id_start, producer_id_len)
    except DECODE_ERRORS as error:
        raise malformed("AllocateProducerIdsResponse", version, error) from None
