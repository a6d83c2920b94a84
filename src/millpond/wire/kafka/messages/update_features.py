"""UpdateFeatures request and response (api 57), versions 0-2.

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
    pack_nullable_compact_string,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    skip_tags,
    unencodable,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_hb = Struct(">hb")
_pack_hb, _unpack_hb = _hb.pack, _hb.unpack_from
_ho = Struct(">h?")
_pack_ho, _unpack_ho = _ho.pack, _ho.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from


class FeatureUpdateKey(Message):
    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")

    def __init__(
        self,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type


class UpdateFeaturesRequest(Message):
    __slots__ = ("timeout_ms", "feature_updates", "validate_only")

    def __init__(
        self,
        timeout_ms: int = 60000,
        feature_updates: list[FeatureUpdateKey] = NOT_GIVEN,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates: list[FeatureUpdateKey] = [] if feature_updates is NOT_GIVEN else feature_updates
        self.validate_only = validate_only


class UpdatableFeatureResult(Message):
    __slots__ = ("feature", "error_code", "error_message")

    def __init__(
        self,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdatableFeatureResult] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results: list[UpdatableFeatureResult] = [] if results is NOT_GIVEN else results


def encode_update_features_request(m: UpdateFeaturesRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.timeout_ms))
        values_1 = m.feature_updates
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(pack_compact_string(m_2.feature))
            if version >= 1:
                add(_pack_hb(m_2.max_version_level, m_2.upgrade_type))
            else:
                add(_pack_ho(m_2.max_version_level, m_2.allow_downgrade))
            add(b"\x00")
        if version >= 1:
            add(_pack_o(m.validate_only))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("UpdateFeaturesRequest", version, error) from error


def decode_update_features_request(data: memoryview, version: int) -> UpdateFeaturesRequest:
    try:
        p = 0
        (timeout_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 5)
        feature_updates: list[FeatureUpdateKey] = []
        for _ in range(count):
            feature_1, p = read_compact_string(data, p)
            if version >= 1:
                max_version_level_1, upgrade_type_1 = _unpack_hb(data, p)
                p += 3
                allow_downgrade_1 = False
            else:
                max_version_level_1, allow_downgrade_1 = _unpack_ho(data, p)
                p += 3
                upgrade_type_1 = 1
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            feature_updates.append(FeatureUpdateKey(feature_1, max_version_level_1, allow_downgrade_1, upgrade_type_1))
        if version >= 1:
            validate_only = data[p] != 0
            p += 1
        else:
            validate_only = False
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return UpdateFeaturesRequest(timeout_ms, feature_updates, validate_only)
    except DECODE_ERRORS as error:
        raise malformed("UpdateFeaturesRequest", version, error) from None


def encode_update_features_response(m: UpdateFeaturesResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        if version <= 1:
            values_1 = m.results
            add(pack_compact_count(len(values_1)))
            for m_2 in values_1:
                add(pack_compact_string(m_2.feature))
                add(_pack_h(m_2.error_code))
                add(pack_nullable_compact_string(m_2.error_message))
                add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("UpdateFeaturesResponse", version, error) from error


def decode_update_features_response(data: memoryview, version: int) -> UpdateFeaturesResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        results: list[UpdatableFeatureResult]
        if version <= 1:
            count, p = read_compact_count(data, p, 5)
            results = []
            for _ in range(count):
                feature_1, p = read_compact_string(data, p)
                (error_code_1,) = _unpack_h(data, p)
                p += 2
                error_message_1, p = read_nullable_compact_string(data, p)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                results.append(UpdatableFeatureResult(feature_1, error_code_1, error_message_1))
        else:
            results = []
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return UpdateFeaturesResponse(throttle_time_ms, error_code, error_message, results)
    except DECODE_ERRORS as error:
        raise malformed("UpdateFeaturesResponse", version, error) from None
