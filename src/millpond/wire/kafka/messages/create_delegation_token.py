"""CreateDelegationToken request and response (api 38), versions 1-3.

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
    pack_compact_size,
    pack_compact_string,
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_size,
    pack_string,
    read_bytes,
    read_compact_bytes,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_nullable_string,
    read_string,
    skip_tags,
    unencodable,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from
_qqq = Struct(">qqq")
_pack_qqq, _unpack_qqq = _qqq.pack, _qqq.unpack_from


class CreatableRenewers(Message):
    __slots__ = ("principal_type", "principal_name")

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class CreateDelegationTokenRequest(Message):
    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms")

    def __init__(
        self,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreatableRenewers] = NOT_GIVEN,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers: list[CreatableRenewers] = [] if renewers is NOT_GIVEN else renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreateDelegationTokenResponse(Message):
    __slots__ = ("error_code", "principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms", "token_id", "hmac", "throttle_time_ms")

    def __init__(
        self,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms


def encode_create_delegation_token_request(m: CreateDelegationTokenRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 3:
            add(nullable_string_(m.owner_principal_type))
            add(nullable_string_(m.owner_principal_name))
        values_1 = m.renewers
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.principal_type))
            add(string_(m_2.principal_name))
            if flexible:
                add(b"\x00")
        add(_pack_q(m.max_lifetime_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("CreateDelegationTokenRequest", version, error) from error


def decode_create_delegation_token_request(data: memoryview, version: int) -> CreateDelegationTokenRequest:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        owner_principal_type: str | None
        owner_principal_name: str | None
        if version >= 3:
            owner_principal_type, p = nullable_string_(data, p)
            owner_principal_name, p = nullable_string_(data, p)
        else:
            owner_principal_type = ""
            owner_principal_name = ""
        count, p = count_(data, p, 3)
        renewers: list[CreatableRenewers] = []
        for _ in range(count):
            principal_type_1, p = string_(data, p)
            principal_name_1, p = string_(data, p)
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            renewers.append(CreatableRenewers(principal_type_1, principal_name_1))
        (max_lifetime_ms,) = _unpack_q(data, p)
        p += 8
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return CreateDelegationTokenRequest(owner_principal_type, owner_principal_name, renewers, max_lifetime_ms)
    except DECODE_ERRORS as error:
        raise malformed("CreateDelegationTokenRequest", version, error) from None


def encode_create_delegation_token_response(m: CreateDelegationTokenResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        size_ = pack_compact_size if flexible else pack_size
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.error_code))
        add(string_(m.principal_type))
        add(string_(m.principal_name))
        if version >= 3:
            add(string_(m.token_requester_principal_type))
            add(string_(m.token_requester_principal_name))
        add(_pack_qqq(m.issue_timestamp_ms, m.expiry_timestamp_ms, m.max_timestamp_ms))
        add(string_(m.token_id))
        value_1 = m.hmac
        add(size_(value_1))
        add(value_1)
        add(_pack_i(m.throttle_time_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("CreateDelegationTokenResponse", version, error) from error


def decode_create_delegation_token_response(data: memoryview, version: int) -> CreateDelegationTokenResponse:
    try:
        flexible = version >= 2
        bytes_ = read_compact_bytes if flexible else read_bytes
        string_ = read_compact_string if flexible else read_string
        p = 0
        (error_code,) = _unpack_h(data, p)
        p += 2
        principal_type, p = string_(data, p)
        principal_name, p = string_(data, p)
        if version >= 3:
            token_requester_principal_type, p = string_(data, p)
            token_requester_principal_name, p = string_(data, p)
        else:
            token_requester_principal_type = ""
            token_requester_principal_name = ""
        issue_timestamp_ms, expiry_timestamp_ms, max_timestamp_ms = _unpack_qqq(data, p)
        p += 24
        token_id, p = string_(data, p)
        hmac, p = bytes_(data, p)
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return CreateDelegationTokenResponse(error_code, principal_type, principal_name, token_requester_principal_type, token_requester_principal_name, issue_timestamp_ms, expiry_timestamp_ms, max_timestamp_ms, token_id, hmac, throttle_time_ms)
    except DECODE_ERRORS as error:
        raise malformed("CreateDelegationTokenResponse", version, error) from None
