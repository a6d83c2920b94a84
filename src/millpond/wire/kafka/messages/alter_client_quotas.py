"""AlterClientQuotas request and response (api 49), versions 0-1.

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

_do = Struct(">d?")
_pack_do, _unpack_do = _do.pack, _do.unpack_from
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from


class EntityData(Message):
    __slots__ = ("entity_type", "entity_name")

    def __init__(
        self,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class OpData(Message):
    __slots__ = ("key", "value", "remove")

    def __init__(
        self,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class EntryData(Message):
    __slots__ = ("entity", "ops")

    def __init__(
        self,
        entity: list[EntityData] = NOT_GIVEN,
        ops: list[OpData] = NOT_GIVEN,
    ) -> None:
        self.entity: list[EntityData] = [] if entity is NOT_GIVEN else entity
        self.ops: list[OpData] = [] if ops is NOT_GIVEN else ops


class AlterClientQuotasRequest(Message):
    __slots__ = ("entries", "validate_only")

    def __init__(
        self,
        entries: list[EntryData] = NOT_GIVEN,
        validate_only: bool = False,
    ) -> None:
        self.entries: list[EntryData] = [] if entries is NOT_GIVEN else entries
        self.validate_only = validate_only


class EntryResult(Message):
    __slots__ = ("error_code", "error_message", "entity")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[EntityData] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity: list[EntityData] = [] if entity is NOT_GIVEN else entity


class AlterClientQuotasResponse(Message):
    __slots__ = ("throttle_time_ms", "entries")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        entries: list[EntryResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries: list[EntryResult] = [] if entries is NOT_GIVEN else entries


def encode_alter_client_quotas_request(m: AlterClientQuotasRequest, version: int) -> bytes:
    try:
        flexible = version >= 1
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.entries
        add(count_(len(values_1)))
        for m_2 in values_1:
            values_3 = m_2.entity
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(string_(m_4.entity_type))
                add(nullable_string_(m_4.entity_name))
                if flexible:
                    add(b"\x00")
            values_5 = m_2.ops
            add(count_(len(values_5)))
            for m_6 in values_5:
                add(string_(m_6.key))
                add(_pack_do(m_6.value, m_6.remove))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        add(_pack_o(m.validate_only))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterClientQuotasRequest", version, error) from error


def decode_alter_client_quotas_request(data: memoryview, version: int) -> AlterClientQuotasRequest:
    try:
        flexible = version >= 1
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = count_(data, p, 3)
        entries: list[EntryData] = []
        for _ in range(count):
            count, p = count_(data, p, 3)
            entity_1: list[EntityData] = []
            for _ in range(count):
                entity_type_2, p = string_(data, p)
                entity_name_2, p = nullable_string_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                entity_1.append(EntityData(entity_type_2, entity_name_2))
            count, p = count_(data, p, 11)
            ops_1: list[OpData] = []
            for _ in range(count):
                key_3, p = string_(data, p)
                value_3, remove_3 = _unpack_do(data, p)
                p += 9
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                ops_1.append(OpData(key_3, value_3, remove_3))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            entries.append(EntryData(entity_1, ops_1))
        validate_only = data[p] != 0
        p += 1
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterClientQuotasRequest(entries, validate_only)
    except DECODE_ERRORS as error:
        raise malformed("AlterClientQuotasRequest", version, error) from None


def encode_alter_client_quotas_response(m: AlterClientQuotasResponse, version: int) -> bytes:
    try:
        flexible = version >= 1
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.entries
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(nullable_string_(m_2.error_message))
            values_3 = m_2.entity
            add(count_(len(values_3)))
            for m_4 in values_3:
                add(string_(m_4.entity_type))
                add(nullable_string_(m_4.entity_name))
                if flexible:
                    add(b"\x00")
            if flexible:
                add(b"\x00")
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("AlterClientQuotasResponse", version, error) from error


def decode_alter_client_quotas_response(data: memoryview, version: int) -> AlterClientQuotasResponse:
    try:
        flexible = version >= 1
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = count_(data, p, 5)
        entries: list[EntryResult] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = nullable_string_(data, p)
            count, p = count_(data, p, 3)
            entity_1: list[EntityData] = []
            for _ in range(count):
                entity_type_2, p = string_(data, p)
                entity_name_2, p = nullable_string_(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                entity_1.append(EntityData(entity_type_2, entity_name_2))
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            entries.append(EntryResult(error_code_1, error_message_1, entity_1))
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return AlterClientQuotasResponse(throttle_time_ms, entries)
    except DECODE_ERRORS as error:
        raise malformed("AlterClientQuotasResponse", version, error) from None
