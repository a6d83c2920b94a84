"""SaslHandshake request and response (api 17), versions 0-1.

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
    pack_string,
    read_count,
    read_string,
    unencodable,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from


class SaslHandshakeRequest(Message):
    __slots__ = ("mechanism",)

    def __init__(
        self,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(Message):
    __slots__ = ("error_code", "mechanisms")

    def __init__(
        self,
        error_code: int = 0,
        mechanisms: list[str] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.mechanisms: list[str] = [] if mechanisms is NOT_GIVEN else mechanisms


def encode_sasl_handshake_request(m: SaslHandshakeRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_string(m.mechanism))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("SaslHandshakeRequest", version, error) from error


def decode_sasl_handshake_request(data: memoryview, version: int) -> SaslHandshakeRequest:
    try:
        p = 0
        mechanism, p = read_string(data, p)
        return SaslHandshakeRequest(mechanism)
    except DECODE_ERRORS as error:
        raise malformed("SaslHandshakeRequest", version, error) from None


def encode_sasl_handshake_response(m: SaslHandshakeResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.error_code))
        values_1 = m.mechanisms
        add(pack_count(len(values_1)))
        for text in values_1:
            add(pack_string(text))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("SaslHandshakeResponse", version, error) from error


def decode_sasl_handshake_response(data: memoryview, version: int) -> SaslHandshakeResponse:
    try:
        p = 0
        (error_code,) = _unpack_h(data, p)
        p += 2
        count, p = read_count(data, p, 2)
        mechanisms: list[str] = []
        for _ in range(count):
            item, p = read_string(data, p)
            mechanisms.append(item)
        return SaslHandshakeResponse(error_code, mechanisms)
    except DECODE_ERRORS as error:
        raise malformed("SaslHandshakeResponse", version, error) from None
