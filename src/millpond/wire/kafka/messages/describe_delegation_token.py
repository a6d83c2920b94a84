"""DescribeDelegationToken request and response (api 41), versions 1-3.

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
    pack_size,
    pack_string,
    read_bytes,
    read_compact_bytes,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_count,
    read_nullable_count,
    read_string,
    skip_tags,
    unencodable,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_qqq = Struct(">qqq")
_pack_qqq, _unpack_qqq = _qqq.pack, _qqq.unpack_from


class DescribeDelegationTokenOwner(Message):
    __slots__ = ("principal_type", "principal_name")

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribeDelegationTokenRequest(Message):
    __slots__ = ("owners",)

    def __init__(
        self,
        owners: list[DescribeDelegationTokenOwner] | None = NOT_GIVEN,
    ) -> None:
        self.owners: list[DescribeDelegationTokenOwner] | None = [] if owners is NOT_GIVEN else owners


class DescribedDelegationTokenRenewer(Message):
    __slots__ = ("principal_type", "principal_name")

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribedDelegationToken(Message):
    __slots__ = ("principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name", "issue_timestamp", "expiry_timestamp", "max_timestamp", "token_id", "hmac", "renewers")

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribedDelegationTokenRenewer] = NOT_GIVEN,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers: list[DescribedDelegationTokenRenewer] = [] if renewers is NOT_GIVEN else renewers


class DescribeDelegationTokenResponse(Message):
    __slots__ = ("error_code", "tokens", "throttle_time_ms")

    def __init__(
        self,
        error_code: int = 0,
        tokens: list[DescribedDelegationToken] = NOT_GIVEN,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.tokens: list[DescribedDelegationToken] = [] if tokens is NOT_GIVEN else tokens
        self.throttle_time_ms = throttle_time_ms


def encode_describe_delegation_token_request(m: DescribeDelegationTokenRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.owners
        if values_1 is None:
            add(count_(-1))
        else:
            add(count_(len(values_1)))
            for m_2 in values_1:
                add(string_(m_2.principal_type))
                add(string_(m_2.principal_name))
                if flexible:
                    add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeDelegationTokenRequest", version, error) from error


def decode_describe_delegation_token_request(data: memoryview, version: int) -> DescribeDelegationTokenRequest:
    try:
        flexible = version >= 2
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = nullable_count_(data, p, 3)
        owners: list[DescribeDelegationTokenOwner] | None
        if count < 0:
            owners = None
        else:
            owners = []
            for _ in range(count):
                principal_type_1, p = string_(data, p)
                principal_name_1, p = string_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                owners.append(DescribeDelegationTokenOwner(principal_type_1, principal_name_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeDelegationTokenRequest(owners)
    except DECODE_ERRORS as error:
        raise malformed("DescribeDelegationTokenRequest", version, error) from None


def encode_describe_delegation_token_response(m: DescribeDelegationTokenResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        size_ = pack_compact_size if flexible else pack_size
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.error_code))
        values_1 = m.tokens
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.principal_type))
            add(string_(m_2.principal_name))
            if version >= 3:
                add(string_(m_2.token_requester_principal_type))
                add(string_(m_2.token_requester_principal_name))
            add(_pack_qqq(m_2.issue_timestamp, m_2.expiry_timestamp, m_2.max_timestamp))
            add(string_(m_2.token_id))
            value_3 = m_2.hmac
            add(size_(value_3))
            add(value_3)
            values_4 = m_2.renewers
            add(count_(len(values_4)))
            for m_5 in values_4:
                add(string_(m_5.principal_type))
                add(string_(m_5.principal_name))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        add(_pack_i(m.throttle_time_ms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeDelegationTokenResponse", version, error) from error


def decode_describe_delegation_token_response(data: memoryview, version: int) -> DescribeDelegationTokenResponse:
    try:
        flexible = version >= 2
        bytes_ = read_compact_bytes if flexible else read_bytes
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        (error_code,) = _unpack_h(data, p)
        p += 2
        count, p = count_(data, p, 30)
        tokens: list[DescribedDelegationToken] = []
        for _ in range(count):
            principal_type_1, p = string_(data, p)
            principal_name_1, p = string_(data, p)
            if version >= 3:
                token_requester_principal_type_1, p = string_(data, p)
                token_requester_principal_name_1, p = string_(data, p)
            else:
                token_requester_principal_type_1 = ""
                token_requester_principal_name_1 = ""
            issue_timestamp_1, expiry_timestamp_1, max_timestamp_1 = _unpack_qqq(data, p)
            p += 24
            token_id_1, p = string_(data, p)
            hmac_1, p = bytes_(data, p)
            count, p = count_(data, p, 3)
            renewers_1: list[DescribedDelegationTokenRenewer] = []
            for _ in range(count):
                principal_type_2, p = string_(data, p)
                principal_name_2, p = string_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                renewers_1.append(DescribedDelegationTokenRenewer(principal_type_2, principal_name_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            tokens.append(DescribedDelegationToken(principal_type_1, principal_name_1, token_requester_principal_type_1, token_requester_principal_name_1, issue_timestamp_1, expiry_timestamp_1, max_timestamp_1, token_id_1, hmac_1, renewers_1))
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeDelegationTokenResponse(error_code, tokens, throttle_time_ms)
    except DECODE_ERRORS as error:
        raise malformed("DescribeDelegationTokenResponse", version, error) from None
