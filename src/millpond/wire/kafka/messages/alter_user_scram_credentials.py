"""AlterUserScramCredentials request and response (api 51), versions 0.

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
    pack_nullable_compact_string,
    read_compact_bytes,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    skip_tags,
    unencodable,
)

_b = Struct(">b")
_pack_b, _unpack_b = _b.pack, _b.unpack_from
_bi = Struct(">bi")
_pack_bi, _unpack_bi = _bi.pack, _bi.unpack_from
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from


class ScramCredentialDeletion(Message):
    __slots__ = ("name", "mechanism")

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Message):
    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(Message):
    __slots__ = ("deletions", "upsertions")

    def __init__(
        self,
        deletions: list[ScramCredentialDeletion] = NOT_GIVEN,
        upsertions: list[ScramCredentialUpsertion] = NOT_GIVEN,
    ) -> None:
        self.deletions: list[ScramCredentialDeletion] = [] if deletions is NOT_GIVEN else deletions
        self.upsertions: list[ScramCredentialUpsertion] = [] if upsertions is NOT_GIVEN else upsertions


class AlterUserScramCredentialsResult(Message):
    __slots__ = ("user", "error_code", "error_message")

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[AlterUserScramCredentialsResult] = [] if results is NOT_GIVEN else results


def encode_alter_user_scram_credentials_request(m: AlterUserScramCredentialsRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.deletions
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.name))
            add(_pack_b(m_2.mechanism))
            add(b"\x00")
        values_3 = m.upsertions
        add(pack_compact_count(len(values_3)))
        for m_4 in values_3:
            add(pack_compact_string(m_4.name))
            add(_pack_bi(m_4.mechanism, m_4.iterations))
            value_5 = m_4.salt
            add(pack_compact_size(value_5))
            add(value_5)
            value_6 = m_4.salted_password
            add(pack_compact_size(value_6))
            add(value_6)
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterUserScramCredentialsRequest", version, error) from error


def decode_alter_user_scram_credentials_request(data: memoryview, version: int) -> AlterUserScramCredentialsRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 3)
        deletions: list[ScramCredentialDeletion] = []
        for _ in range(count):
            name_1, p = read_compact_string(data, p)
            (mechanism_1,) = _unpack_b(data, p)
            p += 1
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            deletions.append(ScramCredentialDeletion(name_1, mechanism_1))
        count, p = read_compact_count(data, p, 9)
        upsertions: list[ScramCredentialUpsertion] = []
        for _ in range(count):
            name_2, p = read_compact_string(data, p)
            mechanism_2, iterations_2 = _unpack_bi(data, p)
            p += 5
            salt_2, p = read_compact_bytes(data, p)
            salted_password_2, p = read_compact_bytes(data, p)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            upsertions.append(ScramCredentialUpsertion(name_2, mechanism_2, iterations_2, salt_2, salted_password_2))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterUserScramCredentialsRequest(deletions, upsertions)
    except DECODE_ERRORS as error:
        raise malformed("AlterUserScramCredentialsRequest", version, error) from None


def encode_alter_user_scram_credentials_response(m: AlterUserScramCredentialsResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.results
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.user))
            add(_pack_h(m_2.error_code))
            add(pack_nullable_compact_string(m_2.error_message))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterUserScramCredentialsResponse", version, error) from error


def decode_alter_user_scram_credentials_response(data: memoryview, version: int) -> AlterUserScramCredentialsResponse:
    try:
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 5)
        results: list[AlterUserScramCredentialsResult] = []
        for _ in range(count):
            user_1, p = read_compact_string(data, p)
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = read_nullable_compact_string(data, p)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(AlterUserScramCredentialsResult(user_1, error_code_1, error_message_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterUserScramCredentialsResponse(throttle_time_ms, results)
    except DECODE_ERRORS as error:
        raise malformed("AlterUserScramCredentialsResponse", version, error) from None
