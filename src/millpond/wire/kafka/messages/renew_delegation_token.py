"""RenewDelegationToken request and response (api 39), versions 1-2.

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
    pack_size,
    read_bytes,
    read_compact_bytes,
    skip_tags,
    unencodable,
)

_hqi = Struct(">hqi")
_pack_hqi, _unpack_hqi = _hqi.pack, _hqi.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from


class RenewDelegationTokenRequest(Message):
    __slots__ = ("hmac", "renew_period_ms")

    def __init__(
        self,
        hmac: bytes = b"",
        renew_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms


class RenewDelegationTokenResponse(Message):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")

    def __init__(
        self,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms


def encode_renew_delegation_token_request(m: RenewDelegationTokenRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        size_ = pack_compact_size if flexible else pack_size
        parts: list[BytesLike] = []
        add = parts.append
        value_1 = m.hmac
        add(size_(value_1))
        add(value_1)
        add(_pack_q(m.renew_period_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("RenewDelegationTokenRequest", version, error) from error


def decode_renew_delegation_token_request(data: memoryview, version: int) -> RenewDelegationTokenRequest:
    try:
        flexible = version >= 2
        bytes_ = read_compact_bytes if flexible else read_bytes
        p = 0
        hmac, p = bytes_(data, p)
        (renew_period_ms,) = _unpack_q(data, p)
        p += 8
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return RenewDelegationTokenRequest(hmac, renew_period_ms)
    except DECODE_ERRORS as error:
        raise malformed("RenewDelegationTokenRequest", version, error) from None


def encode_renew_delegation_token_response(m: RenewDelegationTokenResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_hqi(m.error_code, m.expiry_timestamp_ms, m.throttle_time_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("RenewDelegationTokenResponse", version, error) from error


def decode_renew_delegation_token_response(data: memoryview, version: int) -> RenewDelegationTokenResponse:
    try:
        flexible = version >= 2
        p = 0
        error_code, expiry_timestamp_ms, throttle_time_ms = _unpack_hqi(data, p)
        p += 14
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return RenewDelegationTokenResponse(error_code, expiry_timestamp_ms, throttle_time_ms)
    except DECODE_ERRORS as error:
        raise malformed("RenewDelegationTokenResponse", version, error) from None
