"""ApiVersions request and response (api 18), versions 0-5.

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
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_string,
    read_nullable_string,
    read_string,
    read_tag,
    read_uvarint,
    skip_tags,
    unencodable,
    wrong_tag_size,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_hh = Struct(">hh")
_pack_hh, _unpack_hh = _hh.pack, _hh.unpack_from
_hhh = Struct(">hhh")
_pack_hhh, _unpack_hhh = _hhh.pack, _hhh.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from


class ApiVersionsRequest(Message):
    __slots__ = ("client_software_name", "client_software_version", "cluster_id", "node_id")

    def __init__(
        self,
        client_software_name: str = "",
        client_software_version: str = "",
        cluster_id: str | None = None,
        node_id: int = -1,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.cluster_id = cluster_id
        self.node_id = node_id


class ApiVersion(Message):
    __slots__ = ("api_key", "min_version", "max_version")

    def __init__(
        self,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Message):
    __slots__ = ("name", "min_version", "max_version")

    def __init__(
        self,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Message):
    __slots__ = ("name", "max_version_level", "min_version_level")

    def __init__(
        self,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(Message):
    __slots__ = ("error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch", "finalized_features", "zk_migration_ready")

    def __init__(
        self,
        error_code: int = 0,
        api_keys: list[ApiVersion] = NOT_GIVEN,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = NOT_GIVEN,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = NOT_GIVEN,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys: list[ApiVersion] = [] if api_keys is NOT_GIVEN else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features: list[SupportedFeatureKey] = [] if supported_features is NOT_GIVEN else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features: list[FinalizedFeatureKey] = [] if finalized_features is NOT_GIVEN else finalized_features
        self.zk_migration_ready = zk_migration_ready


def encode_api_versions_request(m: ApiVersionsRequest, version: int) -> bytes:
    try:
        flexible = version >= 3
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 3:
            add(string_(m.client_software_name))
            add(string_(m.client_software_version))
        if version >= 5:
            add(nullable_string_(m.cluster_id))
            add(_pack_i(m.node_id))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ApiVersionsRequest", version, error) from error


def decode_api_versions_request(data: memoryview, version: int) -> ApiVersionsRequest:
    try:
        flexible = version >= 3
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 3:
            client_software_name, p = string_(data, p)
            client_software_version, p = string_(data, p)
        else:
            client_software_name = ""
            client_software_version = ""
        cluster_id: str | None
        if version >= 5:
            cluster_id, p = nullable_string_(data, p)
            (node_id,) = _unpack_i(data, p)
            p += 4
        else:
            cluster_id = None
            node_id = -1
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return ApiVersionsRequest(client_software_name, client_software_version, cluster_id, node_id)
    except DECODE_ERRORS as error:
        raise malformed("ApiVersionsRequest", version, error) from None


def encode_api_versions_response(m: ApiVersionsResponse, version: int) -> bytes:
    try:
        flexible = version >= 3
        count_ = pack_compact_count if flexible else pack_count
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_h(m.error_code))
        values_1 = m.api_keys
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_hhh(m_2.api_key, m_2.min_version, m_2.max_version))
            if flexible:
                add(b"\x00")
        if version >= 1:
            add(_pack_i(m.throttle_time_ms))
        if flexible:
            tags_3: list[tuple[int, bytes]] = []
            if version >= 3 and m.supported_features:
                parts_4: list[BytesLike] = []
                add_4 = parts_4.append
                values_5 = m.supported_features
                add_4(count_(len(values_5)))
                for m_6 in values_5:
                    add_4(string_(m_6.name))
                    add_4(_pack_hh(m_6.min_version, m_6.max_version))
                    add_4(b"\x00")
                tags_3.append((0, b"".join(parts_4)))
            if version >= 3 and m.finalized_features_epoch != -1:
                parts_7: list[BytesLike] = []
                add_7 = parts_7.append
                add_7(_pack_q(m.finalized_features_epoch))
                tags_3.append((1, b"".join(parts_7)))
            if version >= 3 and m.finalized_features:
                parts_8: list[BytesLike] = []
                add_8 = parts_8.append
                values_9 = m.finalized_features
                add_8(count_(len(values_9)))
                for m_10 in values_9:
                    add_8(string_(m_10.name))
                    add_8(_pack_hh(m_10.max_version_level, m_10.min_version_level))
                    add_8(b"\x00")
                tags_3.append((2, b"".join(parts_8)))
            if version >= 3 and m.zk_migration_ready:
                parts_11: list[BytesLike] = []
                add_11 = parts_11.append
                add_11(_pack_o(m.zk_migration_ready))
                tags_3.append((3, b"".join(parts_11)))
            add(pack_tags(tags_3))
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("ApiVersionsResponse", version, error) from error


def decode_api_versions_response(data: memoryview, version: int) -> ApiVersionsResponse:
    try:
        flexible = version >= 3
        count_ = read_compact_count if flexible else read_count
        string_ = read_compact_string if flexible else read_string
        p = 0
        (error_code,) = _unpack_h(data, p)
        p += 2
        count, p = count_(data, p, 6)
        api_keys: list[ApiVersion] = []
        for _ in range(count):
            api_key_1, min_version_1, max_version_1 = _unpack_hhh(data, p)
            p += 6
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            api_keys.append(ApiVersion(api_key_1, min_version_1, max_version_1))
        if version >= 1:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
        else:
            throttle_time_ms = 0
        supported_features: list[SupportedFeatureKey] = []
        finalized_features_epoch: int = -1
        finalized_features: list[FinalizedFeatureKey] = []
        zk_migration_ready: bool = False
        if flexible:
            if data[p] == 0:
                p += 1
            else:
                tag_count, p = read_uvarint(data, p)
                for _ in range(tag_count):
                    tag, p, stop = read_tag(data, p)
                    if tag == 0 and version >= 3:
                        count, p = count_(data, p, 6)
                        supported_features = []
                        for _ in range(count):
                            name_2, p = string_(data, p)
                            min_version_2, max_version_2 = _unpack_hh(data, p)
                            p += 4
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                            supported_features.append(SupportedFeatureKey(name_2, min_version_2, max_version_2))
                        if p != stop:
                            raise wrong_tag_size(tag, p, stop)
                    elif tag == 1 and version >= 3:
                        (finalized_features_epoch,) = _unpack_q(data, p)
                        p += 8
                        if p != stop:
                            raise wrong_tag_size(tag, p, stop)
                    elif tag == 2 and version >= 3:
                        count, p = count_(data, p, 6)
                        finalized_features = []
                        for _ in range(count):
                            name_3, p = string_(data, p)
                            max_version_level_3, min_version_level_3 = _unpack_hh(data, p)
                            p += 4
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                            finalized_features.append(FinalizedFeatureKey(name_3, max_version_level_3, min_version_level_3))
                        if p != stop:
                            raise wrong_tag_size(tag, p, stop)
                    elif tag == 3 and version >= 3:
                        zk_migration_ready = data[p] != 0
                        p += 1
                        if p != stop:
                            raise wrong_tag_size(tag, p, stop)
                    p = stop
        return ApiVersionsResponse(error_code, api_keys, throttle_time_ms, supported_features, finalized_features_epoch, finalized_features, zk_migration_ready)
    except DECODE_ERRORS as error:
        raise malformed("ApiVersionsResponse", version, error) from None
