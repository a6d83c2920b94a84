"""Envelope request and response (api 58), versions 0.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    pack_compact_count,
    pack_compact_size,
    read_compact_bytes,
    read_nullable_compact_bytes,
    skip_tags,
    unencodable,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from


class EnvelopeRequest(Message):
    __slots__ = ("request_data", "request_principal", "client_host_address")

    def __init__(
        self,
        request_data: bytes = b"",
        request_principal: bytes | None = b"",
        client_host_address: bytes = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address


class EnvelopeResponse(Message):
    __slots__ = ("response_data", "error_code")

    def __init__(
        self,
        response_data: bytes | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code


def encode_envelope_request(m: EnvelopeRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        value_1 = m.request_data
        add(pack_compact_size(value_1))
        add(value_1)
        value_2 = m.request_principal
        if value_2 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_size(value_2))
            add(value_2)
        value_3 = m.client_host_address
        add(pack_compact_size(value_3))
        add(value_3)
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("EnvelopeRequest", version, error) from error


def decode_envelope_request(data: memoryview, version: int) -> EnvelopeRequest:
    try:
        p = 0
        request_data, p = read_compact_bytes(data, p)
        request_principal, p = read_nullable_compact_bytes(data, p)
        client_host_address, p = read_compact_bytes(data, p)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return EnvelopeRequest(request_data, request_principal, client_host_address)
    except DECODE_ERRORS as error:
        raise malformed("EnvelopeRequest", version, error) from None


def encode_envelope_response(m: EnvelopeResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        value_1 = m.response_data
        if value_1 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_size(value_1))
            add(value_1)
        add(_pack_h(m.error_code))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("EnvelopeResponse", version, error) from error


def decode_envelope_response(data: memoryview, version: int) -> EnvelopeResponse:
    try:
        p = 0
        response_data, p = read_nullable_compact_bytes(data, p)
        (error_code,) = _unpack_h(data, p)
        p += 2
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return EnvelopeResponse(response_data, error_code)
    except DECODE_ERRORS as error:
        raise malformed("EnvelopeResponse", version, error) from None
