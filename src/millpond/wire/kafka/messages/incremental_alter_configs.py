"""IncrementalAlterConfigs request and response (api 44), versions 0-1.

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
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from


class AlterableConfig(Message):
    __slots__ = ("name", "config_operation", "value")

    def __init__(
        self,
        name: str = "",
        config_operation: int = 0,
        value: str | None = "",
    ) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class AlterConfigsResource(Message):
    __slots__ = ("resource_type", "resource_name", "configs")

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterableConfig] = NOT_GIVEN,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs: list[AlterableConfig] = [] if configs is NOT_GIVEN else configs


class IncrementalAlterConfigsRequest(Message):
    __slots__ = ("resources", "validate_only")

    def __init__(
        self,
        resources: list[AlterConfigsResource] = NOT_GIVEN,
        validate_only: bool = False,
    ) -> None:
        self.resources: list[AlterConfigsResource] = [] if resources is NOT_GIVEN else resources
        self.validate_only = validate_only


class AlterConfigsResourceResponse(Message):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class IncrementalAlterConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: list[AlterConfigsResourceResponse] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses: list[AlterConfigsResourceResponse] = [] if responses is NOT_GIVEN else responses


def encode_incremental_alter_configs_request(m: IncrementalAlterConfigsRequest, version: int) -> bytes:
    try:
        flexible = version >= 1
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.resources
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_b(m_2.resource_type))
            add(string_(m_2.resource_name))
            values_3 = m_2.configs
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(string_(m_4.name))
                add(_pack_b(m_4.config_operation))
                add(nullable_string_(m_4.value))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        add(_pack_o(m.validate_only))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("IncrementalAlterConfigsRequest", version, error) from error


def decode_incremental_alter_configs_request(data: memoryview, version: int) -> IncrementalAlterConfigsRequest:
    try:
        flexible = version >= 1
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 4)
        resources: list[AlterConfigsResource] = []
        for _ in range(count):
            (resource_type_1,) = _unpack_b(data, p)
            p += 1
            resource_name_1, p = string_(data, p)
            count, p = count_(data, p, 4)
            configs_1: list[AlterableConfig] = []
            for _ in range(count):
                name_2, p = string_(data, p)
                (config_operation_2,) = _unpack_b(data, p)
                p += 1
                value_2, p = nullable_string_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                configs_1.append(AlterableConfig(name_2, config_operation_2, value_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            resources.append(AlterConfigsResource(resource_type_1, resource_name_1, configs_1))
        validate_only = data[p] != 0
        p += 1
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return IncrementalAlterConfigsRequest(resources, validate_only)
    except DECODE_ERRORS as error:
        raise malformed("IncrementalAlterConfigsRequest", version, error) from None


def encode_incremental_alter_configs_response(m: IncrementalAlterConfigsResponse, version: int) -> bytes:
    try:
        flexible = version >= 1
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.responses
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(nullable_string_(m_2.error_message))
            add(_pack_b(m_2.resource_type))
            add(string_(m_2.resource_name))
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("IncrementalAlterConfigsResponse", version, error) from error


def decode_incremental_alter_configs_response(data: memoryview, version: int) -> IncrementalAlterConfigsResponse:
    try:
        flexible = version >= 1
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 6)
        responses: list[AlterConfigsResourceResponse] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = nullable_string_(data, p)
            (resource_type_1,) = _unpack_b(data, p)
            p += 1
            resource_name_1, p = string_(data, p)
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            responses.append(AlterConfigsResourceResponse(error_code_1, error_message_1, resource_type_1, resource_name_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return IncrementalAlterConfigsResponse(throttle_time_ms, responses)
    except DECODE_ERRORS as error:
        raise malformed("IncrementalAlterConfigsResponse", version, error) from None
