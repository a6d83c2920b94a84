"""StreamsGroupDescribe request and response (api 89), versions 0-1.

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
    pack_numbers,
    read_compact_count,
    read_compact_string,
    read_nullable_compact_count,
    read_nullable_compact_string,
    read_numbers,
    read_presence,
    skip_tags,
    unencodable,
)

_H = Struct(">H")
_pack_H, _unpack_H = _H.pack, _H.unpack_from
_b = Struct(">b")
_pack_b, _unpack_b = _b.pack, _b.unpack_from
_h = Struct(">h")
_pack_h, _unpack_h = _h.pack, _h.unpack_from
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from
_oo = Struct(">??")
_pack_oo, _unpack_oo = _oo.pack, _oo.unpack_from


class StreamsGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations", "include_topology_description")

    def __init__(
        self,
        group_ids: list[str] = NOT_GIVEN,
        include_authorized_operations: bool = False,
        include_topology_description: bool = False,
    ) -> None:
        self.group_ids: list[str] = [] if group_ids is NOT_GIVEN else group_ids
        self.include_authorized_operations = include_authorized_operations
        self.include_topology_description = include_topology_description


class KeyValue(Message):
    __slots__ = ("key", "value")

    def __init__(
        self,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value


class TopicInfo(Message):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")

    def __init__(
        self,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[KeyValue] = NOT_GIVEN,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs: list[KeyValue] = [] if topic_configs is NOT_GIVEN else topic_configs


class Subtopology(Message):
    __slots__ = ("subtopology_id", "source_topics", "repartition_sink_topics", "state_changelog_topics", "repartition_source_topics")

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: list[str] = NOT_GIVEN,
        repartition_sink_topics: list[str] = NOT_GIVEN,
        state_changelog_topics: list[TopicInfo] = NOT_GIVEN,
        repartition_source_topics: list[TopicInfo] = NOT_GIVEN,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics: list[str] = [] if source_topics is NOT_GIVEN else source_topics
        self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is NOT_GIVEN else repartition_sink_topics
        self.state_changelog_topics: list[TopicInfo] = [] if state_changelog_topics is NOT_GIVEN else state_changelog_topics
        self.repartition_source_topics: list[TopicInfo] = [] if repartition_source_topics is NOT_GIVEN else repartition_source_topics


class Topology(Message):
    __slots__ = ("epoch", "subtopologies")

    def __init__(
        self,
        epoch: int = 0,
        subtopologies: list[Subtopology] | None = None,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


class Endpoint(Message):
    __slots__ = ("host", "port")

    def __init__(
        self,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


class TaskOffset(Message):
    __slots__ = ("subtopology_id", "partition", "offset")

    def __init__(
        self,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


class TaskIds(Message):
    __slots__ = ("subtopology_id", "partitions")

    def __init__(
        self,
        subtopology_id: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class Assignment(Message):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")

    def __init__(
        self,
        active_tasks: list[TaskIds] = NOT_GIVEN,
        standby_tasks: list[TaskIds] = NOT_GIVEN,
        warmup_tasks: list[TaskIds] = NOT_GIVEN,
    ) -> None:
        self.active_tasks: list[TaskIds] = [] if active_tasks is NOT_GIVEN else active_tasks
        self.standby_tasks: list[TaskIds] = [] if standby_tasks is NOT_GIVEN else standby_tasks
        self.warmup_tasks: list[TaskIds] = [] if warmup_tasks is NOT_GIVEN else warmup_tasks


class Member(Message):
    __slots__ = ("member_id", "member_epoch", "instance_id", "rack_id", "client_id", "client_host", "topology_epoch", "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "assignment", "target_assignment", "is_classic")

    def __init__(
        self,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] = NOT_GIVEN,
        task_offsets: list[TaskOffset] = NOT_GIVEN,
        task_end_offsets: list[TaskOffset] = NOT_GIVEN,
        assignment: Assignment = NOT_GIVEN,
        target_assignment: Assignment = NOT_GIVEN,
        is_classic: bool = False,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags: list[KeyValue] = [] if client_tags is NOT_GIVEN else client_tags
        self.task_offsets: list[TaskOffset] = [] if task_offsets is NOT_GIVEN else task_offsets
        self.task_end_offsets: list[TaskOffset] = [] if task_end_offsets is NOT_GIVEN else task_end_offsets
        self.assignment: Assignment = Assignment() if assignment is NOT_GIVEN else assignment
        self.target_assignment: Assignment = Assignment() if target_assignment is NOT_GIVEN else target_assignment
        self.is_classic = is_classic


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


class DescribedGroup(Message):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "topology", "members", "authorized_operations", "topology_description", "topology_description_status", "assignor_name")

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: Topology | None = None,
        members: list[Member] = NOT_GIVEN,
        authorized_operations: int = -2147483648,
        topology_description: TopologyDescription | None = None,
        topology_description_status: int = 0,
        assignor_name: str | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members: list[Member] = [] if members is NOT_GIVEN else members
        self.authorized_operations = authorized_operations
        self.topology_description = topology_description
        self.topology_description_status = topology_description_status
        self.assignor_name = assignor_name


class StreamsGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = NOT_GIVEN,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is NOT_GIVEN else groups


def encode_streams_group_describe_request(m: StreamsGroupDescribeRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        values_1 = m.group_ids
        add(pack_compact_count(len(values_1)))
        for text in values_1:
            add(pack_compact_string(text))
        if version >= 1:
            add(_pack_oo(m.include_authorized_operations, m.include_topology_description))
        else:
            add(_pack_o(m.include_authorized_operations))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("StreamsGroupDescribeRequest", version, error) from error


def decode_streams_group_describe_request(data: memoryview, version: int) -> StreamsGroupDescribeRequest:
    try:
        p = 0
        count, p = read_compact_count(data, p, 1)
        group_ids: list[str] = []
        for _ in range(count):
            item, p = read_compact_string(data, p)
            group_ids.append(item)
        if version >= 1:
            include_authorized_operations, include_topology_description = _unpack_oo(data, p)
            p += 2
        else:
            include_authorized_operations = data[p] != 0
            p += 1
            include_topology_description = False
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return StreamsGroupDescribeRequest(group_ids, include_authorized_operations, include_topology_description)
    except DECODE_ERRORS as error:
        raise malformed("StreamsGroupDescribeRequest", version, error) from None


def encode_streams_group_describe_response(m: StreamsGroupDescribeResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_i(m.throttle_time_ms))
        values_1 = m.groups
        add(pack_compact_count(len(values_1)))
        for m_2 in values_1:
            add(_pack_h(m_2.error_code))
            add(pack_nullable_compact_string(m_2.error_message))
            add(pack_compact_string(m_2.group_id))
            add(pack_compact_string(m_2.group_state))
            add(_pack_ii(m_2.group_epoch, m_2.assignment_epoch))
            m_3 = m_2.topology
            if m_3 is None:
                add(b"\xff")
            else:
                add(b"\x01")
                add(_pack_i(m_3.epoch))
                values_4 = m_3.subtopologies
                if values_4 is None:
                    add(pack_compact_count(-1))
                else:
                    add(pack_compact_count(len(values_4)))
                    for m_5 in values_4:
                        add(pack_compact_string(m_5.subtopology_id))
                        values_6 = m_5.source_topics
                        add(pack_compact_count(len(values_6)))
                        for text in values_6:
                            add(pack_compact_string(text))
                        values_7 = m_5.repartition_sink_topics
                        add(pack_compact_count(len(values_7)))
                        for text in values_7:
                            add(pack_compact_string(text))
                        values_8 = m_5.state_changelog_topics
                        add(pack_compact_count(len(values_8)))
                        for m_9 in values_8:
                            add(pack_compact_string(m_9.name))
                            add(_pack_ih(m_9.partitions, m_9.replication_factor))
                            values_10 = m_9.topic_configs
                            add(pack_compact_count(len(values_10)))
                            for m_11 in values_10:
                                add(pack_compact_string(m_11.key))
                                add(pack_compact_string(m_11.value))
                                add(b"\x00")
                            add(b"\x00")
                        values_12 = m_5.repartition_source_topics
                        add(pack_compact_count(len(values_12)))
                        for m_13 in values_12:
                            add(pack_compact_string(m_13.name))
                            add(_pack_ih(m_13.partitions, m_13.replication_factor))
                            values_14 = m_13.topic_configs
                            add(pack_compact_count(len(values_14)))
                            for m_15 in values_14:
                                add(pack_compact_string(m_15.key))
                                add(pack_compact_string(m_15.value))
                                add(b"\x00")
                            add(b"\x00")
                        add(b"\x00")
                add(b"\x00")
            values_16 = m_2.members
            add(pack_compact_count(len(values_16)))
            for m_17 in values_16:
                add(pack_compact_string(m_17.member_id))
                add(_pack_i(m_17.member_epoch))
                add(pack_nullable_compact_string(m_17.instance_id))
                add(pack_nullable_compact_string(m_17.rack_id))
                add(pack_compact_string(m_17.client_id))
                add(pack_compact_string(m_17.client_host))
                add(_pack_i(m_17.topology_epoch))
                add(pack_compact_string(m_17.process_id))
                m_18 = m_17.user_endpoint
                if m_18 is None:
                    add(b"\xff")
                else:
                    add(b"\x01")
                    add(pack_compact_string(m_18.host))
                    add(_pack_H(m_18.port))
                    add(b"\x00")
                values_19 = m_17.client_tags
                add(pack_compact_count(len(values_19)))
                for m_20 in values_19:
                    add(pack_compact_string(m_20.key))
                    add(pack_compact_string(m_20.value))
                    add(b"\x00")
                values_21 = m_17.task_offsets
                add(pack_compact_count(len(values_21)))
                for m_22 in values_21:
                    add(pack_compact_string(m_22.subtopology_id))
                    add(_pack_iq(m_22.partition, m_22.offset))
                    add(b"\x00")
                values_23 = m_17.task_end_offsets
                add(pack_compact_count(len(values_23)))
                for m_24 in values_23:
                    add(pack_compact_string(m_24.subtopology_id))
                    add(_pack_iq(m_24.partition, m_24.offset))
                    add(b"\x00")
                m_25 = m_17.assignment
                values_26 = m_25.active_tasks
                add(pack_compact_count(len(values_26)))
                for m_27 in values_26:
                    add(pack_compact_string(m_27.subtopology_id))
                    values_28 = m_27.partitions
                    add(pack_compact_count(len(values_28)))
                    add(pack_numbers(values_28, "i"))
                    add(b"\x00")
                values_29 = m_25.standby_tasks
                add(pack_compact_count(len(values_29)))
                for m_30 in values_29:
                    add(pack_compact_string(m_30.subtopology_id))
                    values_31 = m_30.partitions
                    add(pack_compact_count(len(values_31)))
                    add(pack_numbers(values_31, "i"))
                    add(b"\x00")
                values_32 = m_25.warmup_tasks
                add(pack_compact_count(len(values_32)))
                for m_33 in values_32:
                    add(pack_compact_string(m_33.subtopology_id))
                    values_34 = m_33.partitions
                    add(pack_compact_count(len(values_34)))
                    add(pack_numbers(values_34, "i"))
                    add(b"\x00")
                add(b"\x00")
                m_35 = m_17.target_assignment
                values_36 = m_35.active_tasks
                add(pack_compact_count(len(values_36)))
                for m_37 in values_36:
                    add(pack_compact_string(m_37.subtopology_id))
                    values_38 = m_37.partitions
                    add(pack_compact_count(len(values_38)))
                    add(pack_numbers(values_38, "i"))
                    add(b"\x00")
                values_39 = m_35.standby_tasks
                add(pack_compact_count(len(values_39)))
                for m_40 in values_39:
                    add(pack_compact_string(m_40.subtopology_id))
                    values_41 = m_40.partitions
                    add(pack_compact_count(len(values_41)))
                    add(pack_numbers(values_41, "i"))
                    add(b"\x00")
                values_42 = m_35.warmup_tasks
                add(pack_compact_count(len(values_42)))
                for m_43 in values_42:
                    add(pack_compact_string(m_43.subtopology_id))
                    values_44 = m_43.partitions
                    add(pack_compact_count(len(values_44)))
                    add(pack_numbers(values_44, "i"))
                    add(b"\x00")
                add(b"\x00")
                add(_pack_o(m_17.is_classic))
                add(b"\x00")
            add(_pack_i(m_2.authorized_operations))
            if version >= 1:
                m_45 = m_2.topology_description
                if m_45 is None:
                    add(b"\xff")
                else:
                    add(b"\x01")
                    values_46 = m_45.subtopologies
                    add(pack_compact_count(len(values_46)))
                    for m_47 in values_46:
                        add(pack_compact_string(m_47.subtopology_id))
                        values_48 = m_47.nodes
                        add(pack_compact_count(len(values_48)))
                        for m_49 in values_48:
                            add(pack_compact_string(m_49.name))
                            add(_pack_b(m_49.node_type))
                            values_50 = m_49.source_topics
                            add(pack_compact_count(len(values_50)))
                            for text in values_50:
                                add(pack_compact_string(text))
                            add(pack_nullable_compact_string(m_49.sink_topic))
                            values_51 = m_49.stores
                            add(pack_compact_count(len(values_51)))
                            for text in values_51:
                                add(pack_compact_string(text))
                            values_52 = m_49.successors
                            add(pack_compact_count(len(values_52)))
                            for text in values_52:
                                add(pack_compact_string(text))
                            add(b"\x00")
                        add(b"\x00")
                    values_53 = m_45.global_stores
                    add(pack_compact_count(len(values_53)))
                    for m_54 in values_53:
                        m_55 = m_54.source
                        add(pack_compact_string(m_55.name))
                        add(_pack_b(m_55.node_type))
                        values_56 = m_55.source_topics
                        add(pack_compact_count(len(values_56)))
                        for text in values_56:
                            add(pack_compact_string(text))
                        add(pack_nullable_compact_string(m_55.sink_topic))
                        values_57 = m_55.stores
                        add(pack_compact_count(len(values_57)))
                        for text in values_57:
                            add(pack_compact_string(text))
                        values_58 = m_55.successors
                        add(pack_compact_count(len(values_58)))
                        for text in values_58:
                            add(pack_compact_string(text))
                        add(b"\x00")
                        m_59 = m_54.processor
                        add(pack_compact_string(m_59.name))
                        add(_pack_b(m_59.node_type))
                        values_60 = m_59.source_topics
                        add(pack_compact_count(len(values_60)))
                        for text in values_60:
                            add(pack_compact_string(text))
                        add(pack_nullable_compact_string(m_59.sink_topic))
                        values_61 = m_59.stores
                        add(pack_compact_count(len(values_61)))
                        for text in values_61:
                            add(pack_compact_string(text))
                        values_62 = m_59.successors
                        add(pack_compact_count(len(values_62)))
                        for text in values_62:
                            add(pack_compact_string(text))
                        add(b"\x00")
                        add(b"\x00")
                    add(b"\x00")
                add(_pack_b(m_2.topology_description_status))
                add(pack_nullable_compact_string(m_2.assignor_name))
            add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("StreamsGroupDescribeResponse", version, error) from error


def decode_streams_group_describe_response(data: memoryview, version: int) -> StreamsGroupDescribeResponse:
    try:
        p = 0
        (throttle_time_ms,) = _unpack_i(data, p)
        p += 4
        count, p = read_compact_count(data, p, 20)
        groups: list[DescribedGroup] = []
        for _ in range(count):
            (error_code_1,) = _unpack_h(data, p)
            p += 2
            error_message_1, p = read_nullable_compact_string(data, p)
            group_id_1, p = read_compact_string(data, p)
            group_state_1, p = read_compact_string(data, p)
            group_epoch_1, assignment_epoch_1 = _unpack_ii(data, p)
            p += 8
            topology_1: Topology | None
            present, p = read_presence(data, p)
            if present:
                (epoch_2,) = _unpack_i(data, p)
                p += 4
                count, p = read_nullable_compact_count(data, p, 6)
                subtopologies_2: list[Subtopology] | None
                if count < 0:
                    subtopologies_2 = None
                else:
                    subtopologies_2 = []
                    for _ in range(count):
                        subtopology_id_3, p = read_compact_string(data, p)
                        count, p = read_compact_count(data, p, 1)
                        source_topics_3: list[str] = []
                        for _ in range(count):
                            item, p = read_compact_string(data, p)
                            source_topics_3.append(item)
                        count, p = read_compact_count(data, p, 1)
                        repartition_sink_topics_3: list[str] = []
                        for _ in range(count):
                            item, p = read_compact_string(data, p)
                            repartition_sink_topics_3.append(item)
                        count, p = read_compact_count(data, p, 9)
                        state_changelog_topics_3: list[TopicInfo] = []
                        for _ in range(count):
                            name_4, p = read_compact_string(data, p)
                            partitions_4, replication_factor_4 = _unpack_ih(data, p)
                            p += 6
                            count, p = read_compact_count(data, p, 3)
                            topic_configs_4: list[KeyValue] = []
                            for _ in range(count):
                                key_5, p = read_compact_string(data, p)
                                value_5, p = read_compact_string(data, p)
                                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                                topic_configs_4.append(KeyValue(key_5, value_5))
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                            state_changelog_topics_3.append(TopicInfo(name_4, partitions_4, replication_factor_4, topic_configs_4))
                        count, p = read_compact_count(data, p, 9)
                        repartition_source_topics_3: list[TopicInfo] = []
                        for _ in range(count):
                            name_6, p = read_compact_string(data, p)
                            partitions_6, replication_factor_6 = _unpack_ih(data, p)
                            p += 6
                            count, p = read_compact_count(data, p, 3)
                            topic_configs_6: list[KeyValue] = []
                            for _ in range(count):
                                key_7, p = read_compact_string(data, p)
                                value_7, p = read_compact_string(data, p)
                                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                                topic_configs_6.append(KeyValue(key_7, value_7))
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                            repartition_source_topics_3.append(TopicInfo(name_6, partitions_6, replication_factor_6, topic_configs_6))
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        subtopologies_2.append(Subtopology(subtopology_id_3, source_topics_3, repartition_sink_topics_3, state_changelog_topics_3, repartition_source_topics_3))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                topology_1 = Topology(epoch_2, subtopologies_2)
            else:
                topology_1 = None
            count, p = read_compact_count(data, p, 28)
            members_1: list[Member] = []
            for _ in range(count):
                member_id_8, p = read_compact_string(data, p)
                (member_epoch_8,) = _unpack_i(data, p)
                p += 4
                instance_id_8, p = read_nullable_compact_string(data, p)
                rack_id_8, p = read_nullable_compact_string(data, p)
                client_id_8, p = read_compact_string(data, p)
                client_host_8, p = read_compact_string(data, p)
                (topology_epoch_8,) = _unpack_i(data, p)
                p += 4
                process_id_8, p = read_compact_string(data, p)
                user_endpoint_8: Endpoint | None
                present, p = read_presence(data, p)
                if present:
                    host_9, p = read_compact_string(data, p)
                    (port_9,) = _unpack_H(data, p)
                    p += 2
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    user_endpoint_8 = Endpoint(host_9, port_9)
                else:
                    user_endpoint_8 = None
                count, p = read_compact_count(data, p, 3)
                client_tags_8: list[KeyValue] = []
                for _ in range(count):
                    key_10, p = read_compact_string(data, p)
                    value_10, p = read_compact_string(data, p)
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    client_tags_8.append(KeyValue(key_10, value_10))
                count, p = read_compact_count(data, p, 14)
                task_offsets_8: list[TaskOffset] = []
                for _ in range(count):
                    subtopology_id_11, p = read_compact_string(data, p)
                    partition_11, offset_11 = _unpack_iq(data, p)
                    p += 12
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    task_offsets_8.append(TaskOffset(subtopology_id_11, partition_11, offset_11))
                count, p = read_compact_count(data, p, 14)
                task_end_offsets_8: list[TaskOffset] = []
                for _ in range(count):
                    subtopology_id_12, p = read_compact_string(data, p)
                    partition_12, offset_12 = _unpack_iq(data, p)
                    p += 12
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    task_end_offsets_8.append(TaskOffset(subtopology_id_12, partition_12, offset_12))
                count, p = read_compact_count(data, p, 3)
                active_tasks_13: list[TaskIds] = []
                for _ in range(count):
                    subtopology_id_14, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_14, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    active_tasks_13.append(TaskIds(subtopology_id_14, partitions_14))
                count, p = read_compact_count(data, p, 3)
                standby_tasks_13: list[TaskIds] = []
                for _ in range(count):
                    subtopology_id_15, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_15, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    standby_tasks_13.append(TaskIds(subtopology_id_15, partitions_15))
                count, p = read_compact_count(data, p, 3)
                warmup_tasks_13: list[TaskIds] = []
                for _ in range(count):
                    subtopology_id_16, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_16, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    warmup_tasks_13.append(TaskIds(subtopology_id_16, partitions_16))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                assignment_8 = Assignment(active_tasks_13, standby_tasks_13, warmup_tasks_13)
                count, p = read_compact_count(data, p, 3)
                active_tasks_17: list[TaskIds] = []
                for _ in range(count):
                    subtopology_id_18, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_18, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    active_tasks_17.append(TaskIds(subtopology_id_18, partitions_18))
                count, p = read_compact_count(data, p, 3)
                standby_tasks_17: list[TaskIds] = []
                for _ in range(count):
                    subtopology_id_19, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_19, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    standby_tasks_17.append(TaskIds(subtopology_id_19, partitions_19))
                count, p = read_compact_count(data, p, 3)
                warmup_tasks_17: list[TaskIds] = []
                for _ in range(count):
                    subtopology_id_20, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_20, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    warmup_tasks_17.append(TaskIds(subtopology_id_20, partitions_20))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                target_assignment_8 = Assignment(active_tasks_17, standby_tasks_17, warmup_tasks_17)
                is_classic_8 = data[p] != 0
                p += 1
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                members_1.append(Member(member_id_8, member_epoch_8, instance_id_8, rack_id_8, client_id_8, client_host_8, topology_epoch_8, process_id_8, user_endpoint_8, client_tags_8, task_offsets_8, task_end_offsets_8, assignment_8, target_assignment_8, is_classic_8))
            (authorized_operations_1,) = _unpack_i(data, p)
            p += 4
            topology_description_1: TopologyDescription | None
            assignor_name_1: str | None
            if version >= 1:
                present, p = read_presence(data, p)
                if present:
                    count, p = read_compact_count(data, p, 3)
                    subtopologies_21: list[TopologyDescriptionSubtopology] = []
                    for _ in range(count):
                        subtopology_id_22, p = read_compact_string(data, p)
                        count, p = read_compact_count(data, p, 7)
                        nodes_22: list[TopologyDescriptionNode] = []
                        for _ in range(count):
                            name_23, p = read_compact_string(data, p)
                            (node_type_23,) = _unpack_b(data, p)
                            p += 1
                            count, p = read_compact_count(data, p, 1)
                            source_topics_23: list[str] = []
                            for _ in range(count):
                                item, p = read_compact_string(data, p)
                                source_topics_23.append(item)
                            sink_topic_23, p = read_nullable_compact_string(data, p)
                            count, p = read_compact_count(data, p, 1)
                            stores_23: list[str] = []
                            for _ in range(count):
                                item, p = read_compact_string(data, p)
                                stores_23.append(item)
                            count, p = read_compact_count(data, p, 1)
                            successors_23: list[str] = []
                            for _ in range(count):
                                item, p = read_compact_string(data, p)
                                successors_23.append(item)
                            p = p + 1 if data[p] == 0 else skip_tags(data, p)
                            nodes_22.append(TopologyDescriptionNode(name_23, node_type_23, source_topics_23, sink_topic_23, stores_23, successors_23))
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        subtopologies_21.append(TopologyDescriptionSubtopology(subtopology_id_22, nodes_22))
                    count, p = read_compact_count(data, p, 15)
                    global_stores_21: list[TopologyDescriptionGlobalStore] = []
                    for _ in range(count):
                        name_25, p = read_compact_string(data, p)
                        (node_type_25,) = _unpack_b(data, p)
                        p += 1
                        count, p = read_compact_count(data, p, 1)
                        source_topics_25: list[str] = []
                        for _ in range(count):
                            item, p = read_compact_string(data, p)
                            source_topics_25.append(item)
                        sink_topic_25, p = read_nullable_compact_string(data, p)
                        count, p = read_compact_count(data, p, 1)
                        stores_25: list[str] = []
                        for _ in range(count):
                            item, p = read_compact_string(data, p)
                            stores_25.append(item)
                        count, p = read_compact_count(data, p, 1)
                        successors_25: list[str] = []
                        for _ in range(count):
                            item, p = read_compact_string(data, p)
                            successors_25.append(item)
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        source_24 = TopologyDescriptionNode(name_25, node_type_25, source_topics_25, sink_topic_25, stores_25, successors_25)
                        name_26, p = read_compact_string(data, p)
                        (node_type_26,) = _unpack_b(data, p)
                        p += 1
                        count, p = read_compact_count(data, p, 1)
                        source_topics_26: list[str] = []
                        for _ in range(count):
                            item, p = read_compact_string(data, p)
                            source_topics_26.append(item)
                        sink_topic_26, p = read_nullable_compact_string(data, p)
                        count, p = read_compact_count(data, p, 1)
                        stores_26: list[str] = []
                        for _ in range(count):
                            item, p = read_compact_string(data, p)
                            stores_26.append(item)
                        count, p = read_compact_count(data, p, 1)
                        successors_26: list[str] = []
                        for _ in range(count):
                            item, p = read_compact_string(data, p)
                            successors_26.append(item)
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        processor_24 = TopologyDescriptionNode(name_26, node_type_26, source_topics_26, sink_topic_26, stores_26, successors_26)
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        global_stores_21.append(TopologyDescriptionGlobalStore(source_24, processor_24))
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    topology_description_1 = TopologyDescription(subtopologies_21, global_stores_21)
                else:
                    topology_description_1 = None
                (topology_description_status_1,) = _unpack_b(data, p)
                p += 1
                assignor_name_1, p = read_nullable_compact_string(data, p)
            else:
                topology_description_1 = None
                topology_description_status_1 = 0
                assignor_name_1 = None
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            groups.append(DescribedGroup(error_code_1, error_message_1, group_id_1, group_state_1, group_epoch_1, assignment_epoch_1, topology_1, members_1, authorized_operations_1, topology_description_1, topology_description_status_1, assignor_name_1))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return StreamsGroupDescribeResponse(throttle_time_ms, groups)
    except DECODE_ERRORS as error:
        raise malformed("StreamsGroupDescribeResponse", version, error) from None
