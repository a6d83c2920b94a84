"""DeleteGroups request and response (api 42), versions 0-3.

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

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from


class DeleteGroupsRequest(Message):
    __slots__ = ("groups_names",)

    def __init__(
        self,
        groups_names: list[str] = NOT_GIVEN,
    ) -> None:
        self.groups_names: list[str] = [] if groups_names is NOT_GIVEN else groups_names


class DeletableGroupResult(Message):
    __slots__ = ("group_id", "error_code", "error_message")

    def __init__(
        self,
        group_id: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[DeletableGroupResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[DeletableGroupResult] = [] if results is NOT_GIVEN else results


def encode_delete_groups_request(m: DeleteGroupsRequest, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.groups_names
        add(count_(len(values_1)))
        for text in values_1:
            add(string_(text))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteGroupsRequest", version, error) from error


def decode_delete_groups_request(data: memoryview, version: int) -> DeleteGroupsRequest:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 1)
        groups_names: list[str] = []
        for _ in range(count):
            item, p = string_(data, p)
            groups_names.append(item)
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteGroupsRequest(groups_names)
    except DECODE_ERRORS as error:
        raise malformed("DeleteGroupsRequest", version, error) from None


def encode_delete_groups_response(m: DeleteGroupsResponse, version: int) -> bytes:
    try:
        flexible = version >= 2
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.results
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.group_id))
            add(_pack_h(m_2.error_code))
            if version >= 3:
                add(nullable_string_(m_2.error_message))
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DeleteGroupsResponse", version, error) from error


def decode_delete_groups_response(data: memoryview, version: int) -> DeleteGroupsResponse:
    try:
        flexible = version >= 2
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 4)
        results: list[DeletableGroupResult] = []
        for _ in range(count):
            group_id_1, p = string_(data, p)
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1: str | None
            if version >= 3:
                error_message_1, p = nullable_string_(data, p)
            else:
                error_message_1 = None
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(DeletableGroupResult(group_id_1, error_code_1, error_message_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DeleteGroupsResponse(throttle_time_ms, results)
    except DECODE_ERRORS as error:
        raise malformed("DeleteGroupsResponse", version, error) from None
