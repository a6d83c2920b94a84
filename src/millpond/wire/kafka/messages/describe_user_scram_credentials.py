"""DescribeUserScramCredentials request and response (api 50), versions 0.

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
    pack_compact_string,
    pack_nullable_compact_string,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_count,
    read_nullable_compact_string,
    skip_tags,
    unencodable,
)

_bi = Struct(">bi")
_pack_bi, _unpack_bi = _bi.pack, _bi.unpack_from
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class UserName(Message):
    __slots__ = ("name",)

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(Message):
    __slots__ = ("users",)

    def __init__(
        self,
        users: list[UserName] | None = NOT_GIVEN,
    ) -> None:
        self.users: list[UserName] | None = [] if users is NOT_GIVEN else users


class CredentialInfo(Message):
    __slots__ = ("mechanism", "iterations")

    def __init__(
        self,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(Message):
    __slots__ = ("user", "error_code", "error_message", "credential_infos")

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: list[CredentialInfo] = NOT_GIVEN,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos: list[CredentialInfo] = [] if credential_infos is NOT_GIVEN else credential_infos


class DescribeUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results: list[DescribeUserScramCredentialsResult] = [] if results is NOT_GIVEN else results


def encode_describe_user_scram_credentials_request(m: DescribeUserScramCredentialsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.users
        if values_1 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_1)))
            for m_2 in values_1:
                add(pack_compact_string(m_2.name))
                add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeUserScramCredentialsRequest", version, error) from error


def decode_describe_user_scram_credentials_request(data: memoryview, version: int) -> DescribeUserScramCredentialsRequest:
    try:
        p = 0
        count, p = read_nullable_compact_count(data, p, 2)
        users: list[UserName] | None
        if count < 0:
            users = None
        else:
            users = []
            for _ in range(count):
                name_1, p = read_compact_string(data, p)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                users.append(UserName(name_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeUserScramCredentialsRequest(users)
    except DECODE_ERRORS as error:
        raise malformed("DescribeUserScramCredentialsRequest", version, error) from None


def encode_describe_user_scram_credentials_response(m: DescribeUserScramCredentialsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        values_1 = m.results
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.user))
            add(_pack_h(m_2.error_code))
            add(pack_nullable_compact_string(m_2.error_message))
            values_3 = m_2.credential_infos
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(_pack_bi(m_4.mechanism, m_4.iterations))
                add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeUserScramCredentialsResponse", version, error) from error


def decode_describe_user_scram_credentials_response(data: memoryview, version: int) -> DescribeUserScramCredentialsResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        count, p = read_compact_count(data, p, 6)
        results: list[DescribeUserScramCredentialsResult] = []
        for _ in range(count):
            user_1, p = read_compact_string(data, p)
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = read_nullable_compact_string(data, p)
            count, p = read_compact_count(data, p, 6)
            credential_infos_1: list[CredentialInfo] = []
            for _ in range(count):
                mechanism_2, iterations_2 = _unpack_bi(data, p)
                p += 5
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                credential_infos_1.append(CredentialInfo(mechanism_2, iterations_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(DescribeUserScramCredentialsResult(user_1, error_code_1, error_message_1, credential_infos_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeUserScramCredentialsResponse(throttle_time_ms, error_code, error_message, results)
    except DECODE_ERRORS as error:
        raise malformed("DescribeUserScramCredentialsResponse", version, error) from None
