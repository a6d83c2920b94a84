"""ListConfigResources request and response (api 74), versions 0-1.

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
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_numbers,
    skip_tags,
    unencodable,
)

_b = Struct(">b")
_pack_b, _unpack_b = _b.pack, _b.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class ListConfigResourcesRequest(Message):
    __slots__ = ("resource_types",)

    def __init__(
        self,
        resource_types: list[int] = NOT_GIVEN,
    ) -> None:
        self.resource_types: list[int] = [] if resource_types is NOT_GIVEN else resource_types


class ConfigResource(Message):
    __slots__ = ("resource_name", "resource_type")

    def __init__(
        self,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "config_resources")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources: list[ConfigResource] = [] if config_resources is NOT_GIVEN else config_resources


def encode_list_config_resources_request(m: ListConfigResourcesRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 1:
            values_1 = m.resource_types
            add(pack_compact_count(len(values_1)))
            add(pack_numbers(values_1, "b"))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListConfigResourcesRequest", version, error) from error


def decode_list_config_resources_request(data: memoryview, version: int) -> ListConfigResourcesRequest:
    try:
        p = 0
        resource_types: list[int]
        if version >= 1:
            count, p = read_compact_count(data, p, 1)
            resource_types, p = read_numbers(data, p, count, "b")
        else:
            resource_types = []
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListConfigResourcesRequest(resource_types)
    except DECODE_ERRORS as error:
        raise malformed("ListConfigResourcesRequest", version, error) from None


def encode_list_config_resources_response(m: ListConfigResourcesResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        values_1 = m.config_resources
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.resource_name))
            if version >= 1:
                add(_pack_b(m_2.resource_type))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ListConfigResourcesResponse", version, error) from error


def decode_list_config_resources_response(data: memoryview, version: int) -> ListConfigResourcesResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        count, p = read_compact_count(data, p, 2)
        config_resources: list[ConfigResource] = []
        for _ in range(count):
            resource_name_1, p = read_compact_string(data, p)
            if version >= 1:
                (resource_type_1,) = _unpack_b(data, p)
                p += 1
            else:
                resource_type_1 = 16
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            config_resources.append(ConfigResource(resource_name_1, resource_type_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ListConfigResourcesResponse(throttle_time_ms, error_code, config_resources)
    except DECODE_ERRORS as error:
        raise malformed("ListConfigResourcesResponse", version, error) from None
