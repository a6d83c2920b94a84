"""Metadata request and response (api 3), versions 0-13.

Written by ``python -m codegen`` from ``codegen/kafka_messages.txt``; change it there.
"""

from struct import Struct
from uuid import UUID

from millpond.wire.kafka.primitives import (
    BytesLike,
    DECODE_ERRORS,
    ENCODE_ERRORS,
    malformed,
    Message,
    NO_ID,
    NOT_GIVEN,
    pack_compact_count,
    pack_compact_string,
    pack_count,
    pack_nullable_compact_string,
    pack_nullable_string,
    pack_numbers,
    pack_string,
    read_compact_count,
    read_compact_string,
    read_count,
    read_nullable_compact_count,
    read_nullable_compact_string,
    read_nullable_count,
    read_nullable_string,
    read_numbers,
    read_string,
    skip_tags,
    unencodable,
    uuid_of,
)

_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_hii = Struct(">hii")
_pack_hii, _unpack_hii = _hii.pack, _hii.unpack_from
_hiii = Struct(">hiii")
_pack_hiii, _unpack_hiii = _hiii.pack, _hiii.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from
_oo = Struct(">??")
_pack_oo, _unpack_oo = _oo.pack, _oo.unpack_from
_ooo = Struct(">???")
_pack_ooo, _unpack_ooo = _ooo.pack, _ooo.unpack_from
_u = Struct(">16s")
_pack_u, _unpack_u = _u.pack, _u.unpack_from
_uo = Struct(">16s?")
_pack_uo, _unpack_uo = _uo.pack, _uo.unpack_from


class MetadataRequestTopic(Message):
    __slots__ = ("topic_id", "name")

    def __init__(
        self,
        topic_id: UUID = NO_ID,
        name: str | None = "",
    ) -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(Message):
    __slots__ = ("topics", "allow_auto_topic_creation", "include_cluster_authorized_operations", "include_topic_authorized_operations")

    def __init__(
        self,
        topics: list[MetadataRequestTopic] | None = NOT_GIVEN,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics: list[MetadataRequestTopic] | None = [] if topics is NOT_GIVEN else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataResponseBroker(Message):
    __slots__ = ("node_id", "host", "port", "rack")

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponsePartition(Message):
    __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas")

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = NOT_GIVEN,
        isr_nodes: list[int] = NOT_GIVEN,
        offline_replicas: list[int] = NOT_GIVEN,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is NOT_GIVEN else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is NOT_GIVEN else isr_nodes
        self.offline_replicas: list[int] = [] if offline_replicas is NOT_GIVEN else offline_replicas


class MetadataResponseTopic(Message):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: UUID = NO_ID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] = NOT_GIVEN,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions: list[MetadataResponsePartition] = [] if partitions is NOT_GIVEN else partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(Message):
    __slots__ = ("throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics", "cluster_authorized_operations", "error_code")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] = NOT_GIVEN,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] = NOT_GIVEN,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers: list[MetadataResponseBroker] = [] if brokers is NOT_GIVEN else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics: list[MetadataResponseTopic] = [] if topics is NOT_GIVEN else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code


def encode_metadata_request(m: MetadataRequest, version: int) -> bytes:
    try:
        flexible = version >= 9
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.topics
        if values_1 is None:
            if not version >= 1:
                raise TypeError("topics may not be null")
            add(count_(-1))
        else:
            add(count_(len(values_1)))
            for m_2 in values_1:
                if version >= 10:
                    add(_pack_u(m_2.topic_id.bytes))
                if m_2.name is None and not version >= 10:
                    raise TypeError("name may not be null")
                add(nullable_string_(m_2.name))
                if flexible:
                    add(b"\x00")
        if version >= 11:
            add(_pack_oo(m.allow_auto_topic_creation, m.include_topic_authorized_operations))
        elif version >= 8:
            add(_pack_ooo(m.allow_auto_topic_creation, m.include_cluster_authorized_operations, m.include_topic_authorized_operations))
        elif version >= 4:
            add(_pack_o(m.allow_auto_topic_creation))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("MetadataRequest", version, error) from error


def decode_metadata_request(data: memoryview, version: int) -> MetadataRequest:
    try:
        flexible = version >= 9
        count_ = read_compact_count if flexible else read_count
        nullable_count_ = read_nullable_compact_count if flexible else read_nullable_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        count, p = (nullable_count_ if version >= 1 else count_)(data, p, 2)
        topics: list[MetadataRequestTopic] | None
        if count < 0:
            topics = None
        else:
            topics = []
            for _ in range(count):
                if version >= 10:
                    (topic_id_1,) = _unpack_u(data, p)
                    p += 16
                    topic_id_1 = uuid_of(topic_id_1)
                else:
                    topic_id_1 = NO_ID
                name_1, p = (nullable_string_ if version >= 10 else string_)(data, p)
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topics.append(MetadataRequestTopic(topic_id_1, name_1))
        if version >= 11:
            allow_auto_topic_creation, include_topic_authorized_operations = _unpack_oo(data, p)
            p += 2
            include_cluster_authorized_operations = False
        elif version >= 8:
            allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations = _unpack_ooo(data, p)
            p += 3
        elif version >= 4:
            allow_auto_topic_creation = data[p] != 0
            p += 1
            include_cluster_authorized_operations = False
            include_topic_authorized_operations = False
        else:
            allow_auto_topic_creation = True
            include_cluster_authorized_operations = False
            include_topic_authorized_operations = False
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return MetadataRequest(topics, allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations)
    except DECODE_ERRORS as error:
        raise malformed("MetadataRequest", version, error) from None


def encode_metadata_response(m: MetadataResponse, version: int) -> bytes:
    try:
        flexible = version >= 9
        count_ = pack_compact_count if flexible else pack_count
        nullable_string_ = pack_nullable_compact_string if flexible else pack_nullable_string
        string_ = pack_compact_string if flexible else pack_string
        parts: list[BytesLike] = []
        add = parts.append
        if version >= 3:
            add(_pack_i(m.throttle_time_ms))
        values_1 = m.brokers
        add(count_(len(values_1)))
        for m_2 in values_1:
            add(_pack_i(m_2.node_id))
            add(string_(m_2.host))
            add(_pack_i(m_2.port))
            if version >= 1:
                add(nullable_string_(m_2.rack))
            if flexible:
                add(b"\x00")
        if version >= 2:
            add(nullable_string_(m.cluster_id))
        if version >= 1:
            add(_pack_i(m.controller_id))
        values_3 = m.topics
        add(count_(len(values_3)))
        for m_4 in values_3:
            add(_pack_h(m_4.error_code))
            if m_4.name is None and not version >= 12:
                raise TypeError("name may not be null")
            add(nullable_string_(m_4.name))
            if version >= 10:
                add(_pack_uo(m_4.topic_id.bytes, m_4.is_internal))
            elif version >= 1:
                add(_pack_o(m_4.is_internal))
            values_5 = m_4.partitions
            add(count_(len(values_5)))
            for m_6 in values_5:
                if version >= 7:
                    add(_pack_hiii(m_6.error_code, m_6.partition_index, m_6.leader_id, m_6.leader_epoch))
                else:
                    add(_pack_hii(m_6.error_code, m_6.partition_index, m_6.leader_id))
                values_7 = m_6.replica_nodes
                add(count_(len(values_7)))
                add(pack_numbers(values_7, "i"))
                values_8 = m_6.isr_nodes
                add(count_(len(values_8)))
                add(pack_numbers(values_8, "i"))
                if version >= 5:
                    values_9 = m_6.offline_replicas
                    add(count_(len(values_9)))
                    add(pack_numbers(values_9, "i"))
                if flexible:
                    add(b"\x00")
            if version >= 8:
                add(_pack_i(m_4.topic_authorized_operations))
            if flexible:
                add(b"\x00")
        if version >= 13:
            add(_pack_h(m.error_code))
        elif version >= 11:
            pass
        elif version >= 8:
            add(_pack_i(m.cluster_authorized_operations))
        if flexible:
            add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("MetadataResponse", version, error) from error


def decode_metadata_response(data: memoryview, version: int) -> MetadataResponse:
    try:
        flexible = version >= 9
        count_ = read_compact_count if flexible else read_count
        nullable_string_ = read_nullable_compact_string if flexible else read_nullable_string
        string_ = read_compact_string if flexible else read_string
        p = 0
        if version >= 3:
            (throttle_time_ms,) = _unpack_i(data, p)
            p += 4
        else:
            throttle_time_ms = 0
        count, p = count_(data, p, 10)
        brokers: list[MetadataResponseBroker] = []
        for _ in range(count):
            (node_id_1,) = _unpack_i(data, p)
            p += 4
            host_1, p = string_(data, p)
            (port_1,) = _unpack_i(data, p)
            p += 4
            rack_1: str | None
            if version >= 1:
                rack_1, p = nullable_string_(data, p)
            else:
                rack_1 = None
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            brokers.append(MetadataResponseBroker(node_id_1, host_1, port_1, rack_1))
        cluster_id: str | None
        if version >= 2:
            cluster_id, p = nullable_string_(data, p)
        else:
            cluster_id = None
        if version >= 1:
            (controller_id,) = _unpack_i(data, p)
            p += 4
        else:
            controller_id = -1
        count, p = count_(data, p, 8)
        topics: list[MetadataResponseTopic] = []
        for _ in range(count):
            (error_code_2,) = _unpack_h(data, p)
            p += 2
            name_2, p = (nullable_string_ if version >= 12 else string_)(data, p)
            if version >= 10:
                topic_id_2, is_internal_2 = _unpack_uo(data, p)
                p += 17
                topic_id_2 = uuid_of(topic_id_2)
            elif version >= 1:
                is_internal_2 = data[p] != 0
                p += 1
                topic_id_2 = NO_ID
            else:
                topic_id_2 = NO_ID
                is_internal_2 = False
            count, p = count_(data, p, 18)
            partitions_2: list[MetadataResponsePartition] = []
            for _ in range(count):
                if version >= 7:
                    error_code_3, partition_index_3, leader_id_3, leader_epoch_3 = _unpack_hiii(data, p)
                    p += 14
                else:
                    error_code_3, partition_index_3, leader_id_3 = _unpack_hii(data, p)
                    p += 10
                    leader_epoch_3 = -1
                count, p = count_(data, p, 4)
                replica_nodes_3, p = read_numbers(data, p, count, "i")
                count, p = count_(data, p, 4)
                isr_nodes_3, p = read_numbers(data, p, count, "i")
                offline_replicas_3: list[int]
                if version >= 5:
                    count, p = count_(data, p, 4)
                    offline_replicas_3, p = read_numbers(data, p, count, "i")
                else:
                    offline_replicas_3 = []
                if flexible:
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_2.append(MetadataResponsePartition(error_code_3, partition_index_3, leader_id_3, leader_epoch_3, replica_nodes_3, isr_nodes_3, offline_replicas_3))
            if version >= 8:
                (topic_authorized_operations_2,) = _unpack_i(data, p)
                p += 4
            else:
                topic_authorized_operations_2 = -2147483648
            if flexible:
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topics.append(MetadataResponseTopic(error_code_2, name_2, topic_id_2, is_internal_2, partitions_2, topic_authorized_operations_2))
        if version >= 13:
            (error_code,) = _unpack_h(data, p)
            p += 2
            cluster_authorized_operations = -2147483648
        elif version >= 11:
            cluster_authorized_operations = -2147483648
            error_code = 0
        elif version >= 8:
            (cluster_authorized_operations,) = _unpack_i(data, p)
            p += 4
            error_code = 0
        else:
            cluster_authorized_operations = -2147483648
            error_code = 0
        if flexible:
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return MetadataResponse(throttle_time_ms, brokers, cluster_id, controller_id, topics, cluster_authorized_operations, error_code)
    except DECODE_ERRORS as error:
        raise malformed("MetadataResponse", version, error) from None
