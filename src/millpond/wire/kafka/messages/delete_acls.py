"""DeleteAcls request and response (api 31), versions 1-3.

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


class DeleteAclsFilter(Message):
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


class DeleteAclsRequest(Message):
    __slots__ = ("filters",)

    def __init__(
        self,
        filters: list[DeleteAclsFilter] = NOT_GIVEN,
    ) -> None:
        self.filters: list[DeleteAclsFilter] = [] if filters is NOT_GIVEN else filters


class DeleteAclsMatchingAcl(Message):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(Message):
    __slots__ = ("error_code", "error_message", "matching_acls")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: list[DeleteAclsMatchingAcl] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls: list[DeleteAclsMatchingAcl] = [] if matching_acls is NOT_GIVEN else matching_acls


class DeleteAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "filter_results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsFilterResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results: list[DeleteAclsFilterResult] = [] if filter_results is NOT_GIVEN else filter_results


def encode_delete_acls_request(m: DeleteAclsRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.filters
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_b(m_2.resource_type_filter))
            add(nullable_string_(m_2.resource_name_filter))
            add(_pack_b(m_2.pattern_type_filter))
            add(nullable_string_(m_2.principal_filter))
            add(nullable_string_(m_2.host_filter))
            add(_pack_bb(m_2.operation, m_2.permission_type))
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteAclsRequest", version, error) from error


def decode_delete_acls_request(data: memoryview, version: int) -> DeleteAclsRequest:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        p = 0
        count, p = count_(data, p, 8)
        filters: list[DeleteAclsFilter] = []
        for _ in range(count):
            (resource_type_filter_1,) = _unpack_b(data, p)
            p += 1
            resource_name_filter_1, p = nullable_string_(data, p)
            (pattern_type_filter_1,) = _unpack_b(data, p)
            p += 1
            principal_filter_1, p = nullable_string_(data, p)
            host_filter_1, p = nullable_string_(data, p)
            operation_1, permission_type_1 = _unpack_bb(data, p)
            p += 2
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            filters.append(DeleteAclsFilter(resource_type_filter_1, resource_name_filter_1, pattern_type_filter_1, principal_filter_1, host_filter_1, operation_1, permission_type_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteAclsRequest(filters)
    except DECODE_ERRORS as error:
        raise malformed("DeleteAclsRequest", version, error) from None


def encode_delete_acls_response(m: DeleteAclsResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.filter_results
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(nullable_string_(m_2.error_message))
            values_3 = m_2.matching_acls
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(_pack_h(m_4.error_code))
                add(nullable_string_(m_4.error_message))
                add(_pack_b(m_4.resource_type))
                add(string_(m_4.resource_name))
                add(_pack_b(m_4.pattern_type))
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
        raise unencodable("DeleteAclsResponse", version, error) from error


def decode_delete_acls_response(data: memoryview, version: int) -> DeleteAclsResponse:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 5)
        filter_results: list[DeleteAclsFilterResult] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = nullable_string_(data, p)
            count, p = count_(data, p, 11)
            matching_acls_1: list[DeleteAclsMatchingAcl] = []
            for _ in range(count):
                (error_code_2,) = _unpack_h(data, p)
                p += 2
                error_message_2, p = nullable_string_(data, p)
                (resource_type_2,) = _unpack_b(data, p)
                p += 1
                resource_name_2, p = string_(data, p)
                (pattern_type_2,) = _unpack_b(data, p)
                p += 1
                principal_2, p = string_(data, p)
                host_2, p = string_(data, p)
                operation_2, permission_type_2 = _unpack_bb(data, p)
                p += 2
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                matching_acls_1.append(DeleteAclsMatchingAcl(error_code_2, error_message_2, resource_type_2, resource_name_2, pattern_type_2, principal_2, host_2, operation_2, permission_type_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            filter_results.append(DeleteAclsFilterResult(error_code_1, error_message_1, matching_acls_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteAclsResponse(throttle_time_ms, filter_results)
    except DECODE_ERRORS as error:
        raise malformed("DeleteAclsResponse", version, error) from None
