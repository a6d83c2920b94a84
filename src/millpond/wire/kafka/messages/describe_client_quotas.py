"""DescribeClientQuotas request and response (api 48), versions 0-1.

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
_d = Struct(">d")
_pack_d, _unpack_d = _d.pack, _d.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from


class ComponentData(Message):
    __slots__ = ("entity_type", "match_type", "match")

    def __init__(
        self,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(Message):
    __slots__ = ("components", "strict")

    def __init__(
        self,
        components: list[ComponentData] = NOT_GIVEN,
        strict: bool = False,
    ) -> None:
        self.components: list[ComponentData] = [] if components is NOT_GIVEN else components
        self.strict = strict


class EntityData(Message):
    __slots__ = ("entity_type", "entity_name")

    def __init__(
        self,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(Message):
    __slots__ = ("key", "value")

    def __init__(
        self,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key = key
        self.value = value


class EntryData(Message):
    __slots__ = ("entity", "values")

    def __init__(
        self,
        entity: list[EntityData] = NOT_GIVEN,
        values: list[ValueData] = NOT_GIVEN,
    ) -> None:
        self.entity: list[EntityData] = [] if entity is NOT_GIVEN else entity
        self.values: list[ValueData] = [] if values is NOT_GIVEN else values


class DescribeClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[EntryData] | None = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries: list[EntryData] | None = [] if entries is NOT_GIVEN else entries


def encode_describe_client_quotas_request(m: DescribeClientQuotasRequest, version: int) -> bytes:
    try:
        flexible = version >= 1
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.components
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(string_(m_2.entity_type))
            add(_pack_b(m_2.match_type))
            add(nullable_string_(m_2.match))
            if flexible:
                add(b"\x00")
        add(_pack_o(m.strict))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeClientQuotasRequest", version, error) from error


def decode_describe_client_quotas_request(data: memoryview, version: int) -> DescribeClientQuotasRequest:
    try:
        flexible = version >= 1
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 4)
        components: list[ComponentData] = []
        for _ in range(count):
            entity_type_1, p = string_(data, p)
            (match_type_1,) = _unpack_b(data, p)
            p += 1
            match_1, p = nullable_string_(data, p)
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            components.append(ComponentData(entity_type_1, match_type_1, match_1))
        strict = data[p] != 0
        p += 1
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeClientQuotasRequest(components, strict)
    except DECODE_ERRORS as error:
        raise malformed("DescribeClientQuotasRequest", version, error) from None


def encode_describe_client_quotas_response(m: DescribeClientQuotasResponse, version: int) -> bytes:
    try:
        flexible = version >= 1
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(nullable_string_(m.error_message))
        values_1 = m.entries
        if values_1 is None:
            add(count_(-1))
        else:
            add(count_(len(values_1)))
            for m_2 in values_1:
                values_3 = m_2.entity
                add(count_(len(values_3)))
                for m_4 in values_3:
                    add(string_(m_4.entity_type))
                    add(nullable_string_(m_4.entity_name))
                    if flexible:
                        add(b"\x00")
                values_5 = m_2.values
                add(count_(len(values_5)))
                for m_6 in values_5:
                    add(string_(m_6.key))
                    add(_pack_d(m_6.value))
                    if flexible:
                        add(b"\x00")
                if flexible:
                    add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeClientQuotasResponse", version, error) from error


def decode_describe_client_quotas_response(data: memoryview, version: int) -> DescribeClientQuotasResponse:
    try:
        flexible = version >= 1
        count_ = read_compact_count if flexible else read_count
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = nullable_string_(data, p)
        count, p = nullable_count_(data, p, 3)
        entries: list[EntryData] | None
        if count < 0:
            entries = None
        else:
            entries = []
            for _ in range(count):
                count, p = count_(data, p, 3)
                entity_1: list[EntityData] = []
                for _ in range(count):
                    entity_type_2, p = string_(data, p)
                    entity_name_2, p = nullable_string_(data, p)
                    if flexible:
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    entity_1.append(EntityData(entity_type_2, entity_name_2))
                count, p = count_(data, p, 10)
                values_1: list[ValueData] = []
                for _ in range(count):
                    key_3, p = string_(data, p)
                    (value_3,) = _unpack_d(data, p)
                    p += 8
                    if flexible:
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    values_1.append(ValueData(key_3, value_3))
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                entries.append(EntryData(entity_1, values_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeClientQuotasResponse(throttle_time_ms, error_code, error_message, entries)
    except DECODE_ERRORS as error:
        raise malformed("DescribeClientQuotasResponse", version, error) from None
