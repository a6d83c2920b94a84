"""DescribeConfigs request and response (api 32), versions 1-4.

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
    read_nullable_compact_count,
    read_nullable_compact_string,
    read_nullable_count,
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
_obo = Struct(">?b?")
_pack_obo, _unpack_obo = _obo.pack, _obo.unpack_from
_oo = Struct(">??")
_pack_oo, _unpack_oo = _oo.pack, _oo.unpack_from


class DescribeConfigsResource(Message):
    __slots__ = ("resource_type", "resource_name", "configuration_keys")

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = NOT_GIVEN,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys: list[str] | None = [] if configuration_keys is NOT_GIVEN else configuration_keys


class DescribeConfigsRequest(Message):
    __slots__ = ("resources", "include_synonyms", "include_documentation")

    def __init__(
        self,
        resources: list[DescribeConfigsResource] = NOT_GIVEN,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources: list[DescribeConfigsResource] = [] if resources is NOT_GIVEN else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsSynonym(Message):
    __slots__ = ("name", "value", "source")

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(Message):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type", "documentation")

    def __init__(
        self,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = NOT_GIVEN,
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms: list[DescribeConfigsSynonym] = [] if synonyms is NOT_GIVEN else synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResult(Message):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs: list[DescribeConfigsResourceResult] = [] if configs is NOT_GIVEN else configs


class DescribeConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results: list[DescribeConfigsResult] = [] if results is NOT_GIVEN else results


def encode_describe_configs_request(m: DescribeConfigsRequest, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.resources
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_b(m_2.resource_type))
            add(string_(m_2.resource_name))
            values_3 = m_2.configuration_keys
            if values_3 is None:
                add(count_(-1))
            else:
                add(count_(len(values_3)))
                for text in values_3:
                    add(string_(text))
            if flexible:
                add(b"\x00")
        if version >= 3:
            add(_pack_oo(m.include_synonyms, m.include_documentation))
        else:
            add(_pack_o(m.include_synonyms))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeConfigsRequest", version, error) from error


def decode_describe_configs_request(data: memoryview, version: int) -> DescribeConfigsRequest:
    try:
        flexible = version >= 4
        count_ = read_compact_count if flexible else read_count
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 4)
        resources: list[DescribeConfigsResource] = []
        for _ in range(count):
            (resource_type_1,) = _unpack_b(data, p)
            p += 1
            resource_name_1, p = string_(data, p)
            count, p = nullable_count_(data, p, 1)
            configuration_keys_1: list[str] | None
            if count < 0:
                configuration_keys_1 = None
            else:
                configuration_keys_1 = []
                for _ in range(count):
                    item, p = string_(data, p)
                    configuration_keys_1.append(item)
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            resources.append(DescribeConfigsResource(resource_type_1, resource_name_1, configuration_keys_1))
        if version >= 3:
            include_synonyms, include_documentation = _unpack_oo(data, p)
            p += 2
        else:
            include_synonyms = data[p] != 0
            p += 1
            include_documentation = False
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeConfigsRequest(resources, include_synonyms, include_documentation)
    except DECODE_ERRORS as error:
        raise malformed("DescribeConfigsRequest", version, error) from None


def encode_describe_configs_response(m: DescribeConfigsResponse, version: int) -> bytes:
    try:
        flexible = version >= 4
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.results
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(nullable_string_(m_2.error_message))
            add(_pack_b(m_2.resource_type))
            add(string_(m_2.resource_name))
            values_3 = m_2.configs
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(string_(m_4.name))
                add(nullable_string_(m_4.value))
                add(_pack_obo(m_4.read_only, m_4.config_source, m_4.is_sensitive))
                values_5 = m_4.synonyms
                add(count_(len(values_5)))
                for m_6 in values_5:
                    add(string_(m_6.name))
                    add(nullable_string_(m_6.value))
                    add(_pack_b(m_6.source))
                    if flexible:
                        add(b"\x00")
                if version >= 3:
                    add(_pack_b(m_4.config_type))
                    add(nullable_string_(m_4.documentation))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeConfigsResponse", version, error) from error


def decode_describe_configs_response(data: memoryview, version: int) -> DescribeConfigsResponse:
    try:
        flexible = version >= 4
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 7)
        results: list[DescribeConfigsResult] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = nullable_string_(data, p)
            (resource_type_1,) = _unpack_b(data, p)
            p += 1
            resource_name_1, p = string_(data, p)
            count, p = count_(data, p, 9)
            configs_1: list[DescribeConfigsResourceResult] = []
            for _ in range(count):
                name_2, p = string_(data, p)
                value_2, p = nullable_string_(data, p)
                read_only_2, config_source_2, is_sensitive_2 = _unpack_obo(data, p)
                p += 3
                count, p = count_(data, p, 4)
                synonyms_2: list[DescribeConfigsSynonym] = []
                for _ in range(count):
                    name_3, p = string_(data, p)
                    value_3, p = nullable_string_(data, p)
                    (source_3,) = _unpack_b(data, p)
                    p += 1
                    if flexible:
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    synonyms_2.append(DescribeConfigsSynonym(name_3, value_3, source_3))
                documentation_2: str | None
                if version >= 3:
                    (config_type_2,) = _unpack_b(data, p)
                    p += 1
                    documentation_2, p = nullable_string_(data, p)
                else:
                    config_type_2 = 0
                    documentation_2 = ""
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                configs_1.append(DescribeConfigsResourceResult(name_2, value_2, read_only_2, config_source_2, is_sensitive_2, synonyms_2, config_type_2, documentation_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            results.append(DescribeConfigsResult(error_code_1, error_message_1, resource_type_1, resource_name_1, configs_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeConfigsResponse(throttle_time_ms, results)
    except DECODE_ERRORS as error:
        raise malformed("DescribeConfigsResponse", version, error) from None
