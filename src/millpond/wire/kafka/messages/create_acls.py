"""CreateAcls request and response (api 30), versions 1-3.

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
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_nullable_string,
    read_string,
    skip_tags,
    unencodable,
)

_b = Struct(">b")
_pack_b, _unpack_b = _b.pack, _b.unpack_from
_bb = Struct(">bb")
_pack_bb, _unpack_bb = _bb.pack, _bb.unpack_from
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from


class AclCreation(Message):
    __slots__ = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type")

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(Message):
    __slots__ = ("creations",)

    def __init__(
        self,
        creations: list[AclCreation] = NOT_GIVEN,
    ) -> None:
        self.creations: list[AclCreation] = [] if creations is NOT_GIVEN else creations


class AclCreationResult(Message):
    __slots__ = ("error_code", "error_message")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[AclCreationResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[AclCreationResult] = [] if results is NOT_GIVEN else results


def encode_create_acls_request(m: CreateAclsRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.creations
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_b(m_2.resource_type))
            add(string_(m_2.resource_name))
            add(_pack_b(m_2.resource_pattern_type))
            add(string_(m_2.principal))
            add(string_(m_2.host))
            add(_pack_bb(m_2.operation, m_2.permission_type))
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("CreateAclsRequest", version, error) from error


def decode_create_acls_request(data: memoryview, version: int) -> CreateAclsRequest:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 8)
        creations: list[AclCreation] = []
        for _ in range(count):
            (resource_type_1,) = _unpack_b(data, p)
            p += 1
            resource_name_1, p = string_(data, p)
            (resource_pattern_type_1,) = _unpack_b(data, p)
            p += 1
            principal_1, p = string_(data, p)
            host_1, p = string_(data, p)
            operation_1, permission_type_1 = _unpack_bb(data, p)
            p += 2
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            creations.append(AclCreation(resource_type_1, resource_name_1, resource_pattern_type_1, principal_1, host_1, operation_1, permission_type_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return CreateAclsRequest(creations)
    except DECODE_ERRORS as error:
        raise malformed("CreateAclsRequest", version, error) from None


def encode_create_acls_response(m: CreateAclsResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.results
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(nullable_string_(m_2.error_message))
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("CreateAclsResponse", version, error) from error


def decode_create_acls_response(data: memoryview, version: int) -> CreateAclsResponse:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 4)
        results: list[AclCreationResult] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = nullable_string_(data, p)
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(AclCreationResult(error_code_1, error_message_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return CreateAclsResponse(throttle_time_ms, results)
    except DECODE_ERRORS as error:
        raise malformed("CreateAclsResponse", version, error) from None
