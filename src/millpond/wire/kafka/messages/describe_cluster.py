"""DescribeCluster request and response (api 60), versions 0-2.

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
    pack_tags,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_string,
    read_tag,
    read_uvarint,
    skip_tags,
    unencodable,
    wrong_tag_size,
)

_b = Struct(">b")
_pack_b, _unpack_b = _b.pack, _b.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from
_ob = Struct(">?b")
_pack_ob, _unpack_ob = _ob.pack, _ob.unpack_from
_obo = Struct(">?b?")
_pack_obo, _unpack_obo = _obo.pack, _obo.unpack_from
_q = Struct(">q")
_pack_q, _unpack_q = _q.pack, _q.unpack_from


class DescribeClusterRequest(Message):
    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")

    def __init__(
        self,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class DescribeClusterBroker(Message):
    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced", "fence_reason", "fenced_ms", "silent_ms")

    def __init__(
        self,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
        fence_reason: str = "",
        fenced_ms: int = -1,
        silent_ms: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced
        self.fence_reason = fence_reason
        self.fenced_ms = fenced_ms
        self.silent_ms = silent_ms


class DescribeClusterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "endpoint_type", "cluster_id", "controller_id", "brokers", "cluster_authorized_operations")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] = NOT_GIVEN,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers: list[DescribeClusterBroker] = [] if brokers is NOT_GIVEN else brokers
        self.cluster_authorized_operations = cluster_authorized_operations


def encode_describe_cluster_request(m: DescribeClusterRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 2:
            add(_pack_obo(m.include_cluster_authorized_operations, m.endpoint_type, m.include_fenced_brokers))
        elif version >= 1:
            add(_pack_ob(m.include_cluster_authorized_operations, m.endpoint_type))
        else:
            add(_pack_o(m.include_cluster_authorized_operations))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeClusterRequest", version, error) from error


def decode_describe_cluster_request(data: memoryview, version: int) -> DescribeClusterRequest:
    try:
        p = 0
        if version >= 2:
            include_cluster_authorized_operations, endpoint_type, include_fenced_brokers = _unpack_obo(data, p)
            p += 3
        elif version >= 1:
            include_cluster_authorized_operations, endpoint_type = _unpack_ob(data, p)
            p += 2
            include_fenced_brokers = False
        else:
            include_cluster_authorized_operations = data[p] != 0
            p += 1
            endpoint_type = 1
            include_fenced_brokers = False
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeClusterRequest(include_cluster_authorized_operations, endpoint_type, include_fenced_brokers)
    except DECODE_ERRORS as error:
        raise malformed("DescribeClusterRequest", version, error) from None


def encode_describe_cluster_response(m: DescribeClusterResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        if version >= 1:
            add(_pack_b(m.endpoint_type))
        add(pack_compact_string(m.cluster_id))
        add(_pack_i(m.controller_id))
        values_1 = m.brokers
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_i(m_2.broker_id))
            add(pack_compact_string(m_2.host))
            add(_pack_i(m_2.port))
            add(pack_nullable_compact_string(m_2.rack))
            if version >= 2:
                add(_pack_o(m_2.is_fenced))
            tags_3: list[tuple[int, bytes]] = []
            if version >= 2 and m_2.fence_reason != "":
                parts_4: list[BytesLike] = []
                add_4 = parts_4.append
                add_4(pack_compact_string(m_2.fence_reason))
                tags_3.append((1000, b"".join(parts_4)))
            if version >= 2 and m_2.fenced_ms != -1:
                parts_5: list[BytesLike] = []
                add_5 = parts_5.append
                add_5(_pack_q(m_2.fenced_ms))
                tags_3.append((1001, b"".join(parts_5)))
            if version >= 2 and m_2.silent_ms != -1:
                parts_6: list[BytesLike] = []
                add_6 = parts_6.append
                add_6(_pack_q(m_2.silent_ms))
                tags_3.append((1002, b"".join(parts_6)))
            add(pack_tags(tags_3))
        add(_pack_i(m.cluster_authorized_operations))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("DescribeClusterResponse", version, error) from error


def decode_describe_cluster_response(data: memoryview, version: int) -> DescribeClusterResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        if version >= 1:
            (endpoint_type,) = _unpack_b(data, p)
            p += 1
        else:
            endpoint_type = 1
        cluster_id, p = read_compact_string(data, p)
        (controller_id,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 11)
        brokers: list[DescribeClusterBroker] = []
        for _ in range(count):
            (broker_id_1,) = _unpack_i(data, p)
            p += 4
            host_1, p = read_compact_string(data, p)
            (port_1,) = _unpack_i(data, p)
            p += 4
            rack_1, p = read_nullable_compact_string(data, p)
            if version >= 2:
                is_fenced_1 = data[p] != 0
                p += 1
            else:
                is_fenced_1 = False
            fence_reason_1: str = ""
            fenced_ms_1: int = -1
            silent_ms_1: int = -1
            if data[p] == 0:
                p += 1
            else:
                tag_count_1, p = read_uvarint(data, p)
                for _ in range(tag_count_1):
                    tag_1, p, stop_1 = read_tag(data, p)
                    if tag_1 == 1000 and version >= 2:
                        fence_reason_1, p = read_compact_string(data, p)
                        if p != stop_1:
                            raise wrong_tag_size(tag_1, p, stop_1)
                    elif tag_1 == 1001 and version >= 2:
                        (fenced_ms_1,) = _unpack_q(data, p)
                        p += 8
                        if p != stop_1:
                            raise wrong_tag_size(tag_1, p, stop_1)
                    elif tag_1 == 1002 and version >= 2:
                        (silent_ms_1,) = _unpack_q(data, p)
                        p += 8
                        if p != stop_1:
                            raise wrong_tag_size(tag_1, p, stop_1)
                    p = stop_1
            brokers.append(DescribeClusterBroker(broker_id_1, host_1, port_1, rack_1, is_fenced_1, fence_reason_1, fenced_ms_1, silent_ms_1))
        (cluster_authorized_operations,) = _unpack_i(data, p)
        p += 4
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return DescribeClusterResponse(throttle_time_ms, error_code, error_message, endpoint_type, cluster_id, controller_id, brokers, cluster_authorized_operations)
    except DECODE_ERRORS as error:
        raise malformed("DescribeClusterResponse", version, error) from None
