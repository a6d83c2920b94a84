"""StreamsGroupTopologyDescriptionUpdate request and response (api 93), versions 0.

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

_b = Struct(">b")
_pack_b, _unpack_b = _b.pack, _b.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from


class TopologyDescriptionNode(Message):
    __slots__ = ("name", "node_type", "source_topics", "sink_topic", "stores", "successors")

    def __init__(
        self,
        name: str = "",
        node_type: int = 0,
        source_topics: list[str] = NOT_GIVEN,
        sink_topic: str | None = None,
        stores: list[str] = NOT_GIVEN,
        successors: list[str] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.node_type = node_type
        self.source_topics: list[str] = [] if source_topics is NOT_GIVEN else source_topics
        self.sink_topic = sink_topic
        self.stores: list[str] = [] if stores is NOT_GIVEN else stores
        self.successors: list[str] = [] if successors is NOT_GIVEN else successors


class TopologyDescriptionSubtopology(Message):
    __slots__ = ("subtopology_id", "nodes")

    def __init__(
        self,
        subtopology_id: str = "",
        nodes: list[TopologyDescriptionNode] = NOT_GIVEN,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.nodes: list[TopologyDescriptionNode] = [] if nodes is NOT_GIVEN else nodes


class TopologyDescriptionGlobalStore(Message):
    __slots__ = ("source", "processor")

    def __init__(
        self,
        source: TopologyDescriptionNode = NOT_GIVEN,
        processor: TopologyDescriptionNode = NOT_GIVEN,
    ) -> None:
        self.source: TopologyDescriptionNode = TopologyDescriptionNode() if source is NOT_GIVEN else source
        self.processor: TopologyDescriptionNode = TopologyDescriptionNode() if processor is NOT_GIVEN else processor


class TopologyDescription(Message):
    __slots__ = ("subtopologies", "global_stores")

    def __init__(
        self,
        subtopologies: list[TopologyDescriptionSubtopology] = NOT_GIVEN,
        global_stores: list[TopologyDescriptionGlobalStore] = NOT_GIVEN,
    ) -> None:
        self.subtopologies: list[TopologyDescriptionSubtopology] = [] if subtopologies is NOT_GIVEN else subtopologies
        self.global_stores: list[TopologyDescriptionGlobalStore] = [] if global_stores is NOT_GIVEN else global_stores


class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    __slots__ = ("group_id", "member_id", "topology_epoch", "topology_description")

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        topology_epoch: int = 0,
        topology_description: TopologyDescription = NOT_GIVEN,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.topology_epoch = topology_epoch
        self.topology_description: TopologyDescription = TopologyDescription() if topology_description is NOT_GIVEN else topology_description


class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message


def encode_streams_group_topology_description_update_request(m: StreamsGroupTopologyDescriptionUpdateRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_compact_string(m.group_id))
        add(pack_compact_string(m.member_id))
        add(_pack_i(m.topology_epoch))
        m_1 = m.topology_description
        values_2 = m_1.subtopologies
        add(pack_compact_count(len(values_2)))
        for m_3 in values_2:
            add(pack_compact_string(m_3.subtopology_id))
            values_4 = m_3.nodes
            add(pack_compact_count(len(values_4)))
            for m_5 in values_4:
                add(pack_compact_string(m_5.name))
                add(_pack_b(m_5.node_type))
                values_6 = m_5.source_topics
                add(pack_compact_count(len(values_6)))
                for text in values_6:
                    add(pack_compact_string(text))
                add(pack_nullable_compact_string(m_5.sink_topic))
                values_7 = m_5.stores
                add(pack_compact_count(len(values_7)))
                for text in values_7:
                    add(pack_compact_string(text))
                values_8 = m_5.successors
                add(pack_compact_count(len(values_8)))
                for text in values_8:
                    add(pack_compact_string(text))
                add(b"\x00")
            add(b"\x00")
        values_9 = m_1.global_stores
        add(pack_compact_count(len(values_9)))
        for m_10 in values_9:
            m_11 = m_10.source
            add(pack_compact_string(m_11.name))
            add(_pack_b(m_11.node_type))
            values_12 = m_11.source_topics
            add(pack_compact_count(len(values_12)))
            for text in values_12:
                add(pack_compact_string(text))
            add(pack_nullable_compact_string(m_11.sink_topic))
            values_13 = m_11.stores
            add(pack_compact_count(len(values_13)))
            for text in values_13:
                add(pack_compact_string(text))
            values_14 = m_11.successors
            add(pack_compact_count(len(values_14)))
            for text in values_14:
                add(pack_compact_string(text))
            add(b"\x00")
            m_15 = m_10.processor
            add(pack_compact_string(m_15.name))
            add(_pack_b(m_15.node_type))
            values_16 = m_15.source_topics
            add(pack_compact_count(len(values_16)))
            for text in values_16:
                add(pack_compact_string(text))
            add(pack_nullable_compact_string(m_15.sink_topic))
            values_17 = m_15.stores
            add(pack_compact_count(len(values_17)))
            for text in values_17:
                add(pack_compact_string(text))
            values_18 = m_15.successors
            add(pack_compact_count(len(values_18)))
            for text in values_18:
                add(pack_compact_string(text))
            add(b"\x00")
            add(b"\x00")
        add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("StreamsGroupTopologyDescriptionUpdateRequest", version, error) from error


def decode_streams_group_topology_description_update_request(data: memoryview, version: int) -> StreamsGroupTopologyDescriptionUpdateRequest:
    try:
        p = 0
        group_id, p = read_compact_string(data, p)
        member_id, p = read_compact_string(data, p)
        (topology_epoch,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 3)
        subtopologies_1: list[TopologyDescriptionSubtopology] = []
        for _ in range(count):
            subtopology_id_2, p = read_compact_string(data, p)
            count, p = read_compact_count(data, p, 7)
            nodes_2: list[TopologyDescriptionNode] = []
            for _ in range(count):
                name_3, p = read_compact_string(data, p)
                (node_type_3,) = _unpack_b(data, p)
                p += 1
                count, p = read_compact_count(data, p, 1)
                source_topics_3: list[str] = []
                for _ in range(count):
                    item, p = read_compact_string(data, p)
                    source_topics_3.append(item)
                sink_topic_3, p = read_nullable_compact_string(data, p)
                count, p = read_compact_count(data, p, 1)
                stores_3: list[str] = []
                for _ in range(count):
                    item, p = read_compact_string(data, p)
                    stores_3.append(item)
                count, p = read_compact_count(data, p, 1)
                successors_3: list[str] = []
                for _ in range(count):
                    item, p = read_compact_string(data, p)
                    successors_3.append(item)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                nodes_2.append(TopologyDescriptionNode(name_3, node_type_3, source_topics_3, sink_topic_3, stores_3, successors_3))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            subtopologies_1.append(TopologyDescriptionSubtopology(subtopology_id_2, nodes_2))
        count, p = read_compact_count(data, p, 15)
        global_stores_1: list[TopologyDescriptionGlobalStore] = []
        for _ in range(count):
            name_5, p = read_compact_string(data, p)
            (node_type_5,) = _unpack_b(data, p)
            p += 1
            count, p = read_compact_count(data, p, 1)
            source_topics_5: list[str] = []
            for _ in range(count):
                item, p = read_compact_string(data, p)
                source_topics_5.append(item)
            sink_topic_5, p = read_nullable_compact_string(data, p)
            count, p = read_compact_count(data, p, 1)
            stores_5: list[str] = []
            for _ in range(count):
                item, p = read_compact_string(data, p)
                stores_5.append(item)
            count, p = read_compact_count(data, p, 1)
            successors_5: list[str] = []
            for _ in range(count):
                item, p = read_compact_string(data, p)
                successors_5.append(item)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            source_4 = TopologyDescriptionNode(name_5, node_type_5, source_topics_5, sink_topic_5, stores_5, successors_5)
            name_6, p = read_compact_string(data, p)
            (node_type_6,) = _unpack_b(data, p)
            p += 1
            count, p = read_compact_count(data, p, 1)
            source_topics_6: list[str] = []
            for _ in range(count):
                item, p = read_compact_string(data, p)
                source_topics_6.append(item)
            sink_topic_6, p = read_nullable_compact_string(data, p)
            count, p = read_compact_count(data, p, 1)
            stores_6: list[str] = []
            for _ in range(count):
                item, p = read_compact_string(data, p)
                stores_6.append(item)
            count, p = read_compact_count(data, p, 1)
            successors_6: list[str] = []
            for _ in range(count):
                item, p = read_compact_string(data, p)
                successors_6.append(item)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            processor_4 = TopologyDescriptionNode(name_6, node_type_6, source_topics_6, sink_topic_6, stores_6, successors_6)
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            global_stores_1.append(TopologyDescriptionGlobalStore(source_4, processor_4))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        topology_description = TopologyDescription(subtopologies_1, global_stores_1)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return StreamsGroupTopologyDescriptionUpdateRequest(group_id, member_id, topology_epoch, topology_description)
    except DECODE_ERRORS as error:
        raise malformed("StreamsGroupTopologyDescriptionUpdateRequest", version, error) from None


def encode_streams_group_topology_description_update_response(m: StreamsGroupTopologyDescriptionUpdateResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("StreamsGroupTopologyDescriptionUpdateResponse", version, error) from error


def decode_streams_group_topology_description_update_response(data: memoryview, version: int) -> StreamsGroupTopologyDescriptionUpdateResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return StreamsGroupTopologyDescriptionUpdateResponse(throttle_time_ms, error_code, error_message)
    except DECODE_ERRORS as error:
        raise malformed("StreamsGroupTopologyDescriptionUpdateResponse", version, error) from None
