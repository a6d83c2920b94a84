"""DescribeAcls request and response (api 29), versions 1-3.

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
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class DescribeAclsRequest(Message):
    __slots__ = ("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter", "operation", "permission_type")

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class AclDescription(Message):
    __slots__ = ("principal", "host", "operation", "permission_type")

    def __init__(
        self,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(Message):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[AclDescription] = NOT_GIVEN,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls: list[AclDescription] = [] if acls is NOT_GIVEN else acls


class DescribeAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResource] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources: list[DescribeAclsResource] = [] if resources is NOT_GIVEN else resources


def encode_describe_acls_request(m: DescribeAclsRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_b(m.resource_type_filter))
        add(nullable_string_(m.resource_name_filter))
        add(_pack_b(m.pattern_type_filter))
        add(nullable_string_(m.principal_filter))
        add(nullable_string_(m.host_filter))
        add(_pack_bb(m.operation, m.permission_type))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeAclsRequest", version, error) from error


def decode_describe_acls_request(data: memoryview, version: int) -> DescribeAclsRequest:
    try:
        flexible = version >= 2
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        p = 0
        (resource_type_filter,) = _unpack_b(data, p)
        p += 1
        resource_name_filter, p = nullable_string_(data, p)
        (pattern_type_filter,) = _unpack_b(data, p)
        p += 1
        principal_filter, p = nullable_string_(data, p)
        host_filter, p = nullable_string_(data, p)
        operation, permission_type = _unpack_bb(data, p)
        p += 2
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeAclsRequest(resource_type_filter, resource_name_filter, pattern_type_filter, principal_filter, host_filter, operation, permission_type)
    except DECODE_ERRORS as error:
        raise malformed("DescribeAclsRequest", version, error) from None


def encode_describe_acls_response(m: DescribeAclsResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(nullable_string_(m.error_message))
        values_1 = m.resources
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_b(m_2.resource_type))
            add(string_(m_2.resource_name))
            add(_pack_b(m_2.pattern_type))
            values_3 = m_2.acls
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(string_(m_4.principal))
                add(string_(m_4.host))
                add(_pack_bb(m_4.operation, m_4.permission_type))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeAclsResponse", version, error) from error


def decode_describe_acls_response(data: memoryview, version: int) -> DescribeAclsResponse:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = nullable_string_(data, p)
        count, p = count_(data, p, 5)
        resources: list[DescribeAclsResource] = []
        for _ in range(count):
            (resource_type_1,) = _unpack_b(data, p)
            p += 1
            resource_name_1, p = string_(data, p)
            (pattern_type_1,) = _unpack_b(data, p)
            p += 1
            count, p = count_(data, p, 5)
            acls_1: list[AclDescription] = []
            for _ in range(count):
                principal_2, p = string_(data, p)
                host_2, p = string_(data, p)
                operation_2, permission_type_2 = _unpack_bb(data, p)
                p += 2
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                acls_1.append(AclDescription(principal_2, host_2, operation_2, permission_type_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            resources.append(DescribeAclsResource(resource_type_1, resource_name_1, pattern_type_1, acls_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeAclsResponse(throttle_time_ms, error_code, error_message, resources)
    except DECODE_ERRORS as error:
        raise malformed("DescribeAclsResponse", version, error) from None
