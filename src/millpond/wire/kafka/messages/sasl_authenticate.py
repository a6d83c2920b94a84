"""SaslAuthenticate request and response (api 36), versions 0-2.

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
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_size,
    read_bytes,
    read_compact_bytes,
    read_nullable_compact_string,
    read_nullable_string,
    skip_tags,
    unencodable,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from


class SaslAuthenticateRequest(Message):
    __slots__ = ("auth_bytes",)

    def __init__(
        self,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(Message):
    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms


def encode_sasl_authenticate_request(m: SaslAuthenticateRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        size_ = pack_compact_size if flexible else pack_size
        parts: list[BytesLike] = []
        add = parts.append
        value_1 = m.auth_bytes
        add(size_(value_1))
        add(value_1)
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("SaslAuthenticateRequest", version, error) from error


def decode_sasl_authenticate_request(data: memoryview, version: int) -> SaslAuthenticateRequest:
    try:
        flexible = version >= 2
        bytes_ = read_compact_bytes if flexible else read_bytes
        p = 0
        auth_bytes, p = bytes_(data, p)
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return SaslAuthenticateRequest(auth_bytes)
    except DECODE_ERRORS as error:
        raise malformed("SaslAuthenticateRequest", version, error) from None


def encode_sasl_authenticate_response(m: SaslAuthenticateResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        size_ = pack_compact_size if flexible else pack_size
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.error_code))
        add(nullable_string_(m.error_message))
        value_1 = m.auth_bytes
        add(size_(value_1))
        add(value_1)
        if version >= 1:
            add(_pack_q(m.session_lifetime_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("SaslAuthenticateResponse", version, error) from error


def decode_sasl_authenticate_response(data: memoryview, version: int) -> SaslAuthenticateResponse:
    try:
        flexible = version >= 2
        bytes_ = read_compact_bytes if flexible else read_bytes
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        p = 0
        (error_code,) = _unpack_h(data, p)
        p += 2
        error_message, p = nullable_string_(data, p)
        auth_bytes, p = bytes_(data, p)
        if version >= 1:
            (session_lifetime_ms,) = _unpack_q(data, p)
            p += 8
        else:
            session_lifetime_ms = 0
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return SaslAuthenticateResponse(error_code, error_message, auth_bytes, session_lifetime_ms)
    except DECODE_ERRORS as error:
        raise malformed("SaslAuthenticateResponse", version, error) from None
