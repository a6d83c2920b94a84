"""ListGroups request and response (api 16), versions 0-5.

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
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_string,
    skip_tags,
    unencodable,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class ListGroupsRequest(Message):
    __slots__ = ("states_filter", "types_filter")

    def __init__(
        self,
        states_filter: list[str] = NOT_GIVEN,
        types_filter: list[str] = NOT_GIVEN,
    ) -> None:
        self.states_filter: list[str] = [] if states_filter is NOT_GIVEN else states_filter
        self.types_filter: list[str] = [] if types_filter is NOT_GIVEN else types_filter


class ListedGroup(Message):
    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")

    def __init__(
        self,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "groups")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListedGroup] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups: list[ListedGroup] = [] if groups is NOT_GIVEN else groups


def encode_list_groups_request(m: ListGroupsRequest, version: int) -> bytes:
    try:
        flexible = version >= 3
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 4:
            values_1 = m.states_filter
            add(count_(len(values_1)))
            for text in values_1:
                add(string_(text))
        if version >= 5:
            values_2 = m.types_filter
            add(count_(len(values_2)))
            for text in values_2:
                add(string_(text))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListGroupsRequest", version, error) from error


def decode_list_groups_request(data: memoryview, version: int) -> ListGroupsRequest:
    try:
        flexible = version >= 3
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        states_filter: list[str]
        if version >= 4:
            count, p = count_(data, p, 1)
            states_filter = []
            for _ in range(count):
                item, p = string_(data, p)
                states_filter.append(item)
        else:
            states_filter = []
        types_filter: list[str]
        if version >= 5:
            count, p = count_(data, p, 1)
            types_filter = []
            for _ in range(count):
                item, p = string_(data, p)
                types_filter.append(item)
        else:
            types_filter = []
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListGroupsRequest(states_filter, types_filter)
    except DECODE_ERRORS as error:
        raise malformed("ListGroupsRequest", version, error) from None


def encode_list_groups_response(m: ListGroupsResponse, version: int) -> bytes:
    try:
        flexible = version >= 3
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            add(_pack_ih(m.throttle_time_ms, m.error_code))
        else:
            add(_pack_h(m.error_code))
        values_1 = m.groups
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.group_id))
            add(string_(m_2.protocol_type))
            if version >= 4:
                add(string_(m_2.group_state))
            if version >= 5:
                add(string_(m_2.group_type))
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListGroupsResponse", version, error) from error


def decode_list_groups_response(data: memoryview, version: int) -> ListGroupsResponse:
    try:
        flexible = version >= 3
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 1:
            throttle_time_ms, error_code = _unpack_ih(data, p)
            p += 6
        else:
            (error_code,) = _unpack_h(data, p)
            p += 2
            throttle_time_ms = 0
        count, p = count_(data, p, 3)
        groups: list[ListedGroup] = []
        for _ in range(count):
            group_id_1, p = string_(data, p)
            protocol_type_1, p = string_(data, p)
            if version >= 4:
                group_state_1, p = string_(data, p)
            else:
                group_state_1 = ""
            if version >= 5:
                group_type_1, p = string_(data, p)
            else:
                group_type_1 = ""
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            groups.append(ListedGroup(group_id_1, protocol_type_1, group_state_1, group_type_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListGroupsResponse(throttle_time_ms, error_code, groups)
    except DECODE_ERRORS as error:
        raise malformed("ListGroupsResponse", version, error) from None
