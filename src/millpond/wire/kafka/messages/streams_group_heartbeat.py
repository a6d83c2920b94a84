"""StreamsGroupHeartbeat request and response (api 88), versions 0-1.

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
_i = Struct(">i")
_pack_i, _unpack_i = _i.pack, _i.unpack_from
_ih = Struct(">ih")
_pack_ih, _unpack_ih = _ih.pack, _ih.unpack_from
_ii = Struct(">ii")
_pack_ii, _unpack_ii = _ii.pack, _ii.unpack_from
_iiii = Struct(">iiii")
_pack_iiii, _unpack_iiii = _iiii.pack, _iiii.unpack_from
_iiiq = Struct(">iiiq")
_pack_iiiq, _unpack_iiiq = _iiiq.pack, _iiiq.unpack_from
_iq = Struct(">iq")
_pack_iq, _unpack_iq = _iq.pack, _iq.unpack_from
_o = Struct(">?")
_pack_o, _unpack_o = _o.pack, _o.unpack_from
_oi = Struct(">?i")
_pack_oi, _unpack_oi = _oi.pack, _oi.unpack_from


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


class CopartitionGroup(Message):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")

    def __init__(
        self,
        source_topics: list[int] = NOT_GIVEN,
        source_topic_regex: list[int] = NOT_GIVEN,
        repartition_source_topics: list[int] = NOT_GIVEN,
    ) -> None:
        self.source_topics: list[int] = [] if source_topics is NOT_GIVEN else source_topics
        self.source_topic_regex: list[int] = [] if source_topic_regex is NOT_GIVEN else source_topic_regex
        self.repartition_source_topics: list[int] = [] if repartition_source_topics is NOT_GIVEN else repartition_source_topics


class Subtopology(Message):
    __slots__ = ("subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics", "copartition_groups")

    def __init__(
        self,
        subtopology_id: str = "",
        source_topics: list[str] = NOT_GIVEN,
        source_topic_regex: list[str] = NOT_GIVEN,
        state_changelog_topics: list[TopicInfo] = NOT_GIVEN,
        repartition_sink_topics: list[str] = NOT_GIVEN,
        repartition_source_topics: list[TopicInfo] = NOT_GIVEN,
        copartition_groups: list[CopartitionGroup] = NOT_GIVEN,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics: list[str] = [] if source_topics is NOT_GIVEN else source_topics
        self.source_topic_regex: list[str] = [] if source_topic_regex is NOT_GIVEN else source_topic_regex
        self.state_changelog_topics: list[TopicInfo] = [] if state_changelog_topics is NOT_GIVEN else state_changelog_topics
        self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is NOT_GIVEN else repartition_sink_topics
        self.repartition_source_topics: list[TopicInfo] = [] if repartition_source_topics is NOT_GIVEN else repartition_source_topics
        self.copartition_groups: list[CopartitionGroup] = [] if copartition_groups is NOT_GIVEN else copartition_groups


class Topology(Message):
    __slots__ = ("epoch", "subtopologies")

    def __init__(
        self,
        epoch: int = 0,
        subtopologies: list[Subtopology] = NOT_GIVEN,
    ) -> None:
        self.epoch = epoch
        self.subtopologies: list[Subtopology] = [] if subtopologies is NOT_GIVEN else subtopologies


class TaskIds(Message):
    __slots__ = ("subtopology_id", "partitions")

    def __init__(
        self,
        subtopology_id: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


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


class StreamsGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "endpoint_information_epoch", "instance_id", "rack_id", "rebalance_timeout_ms", "topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "shutdown_application")

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | None = None,
        task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None,
        shutdown_application: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application


class Status(Message):
    __slots__ = ("status_code", "status_detail")

    def __init__(
        self,
        status_code: int = 0,
        status_detail: str = "",
    ) -> None:
        self.status_code = status_code
        self.status_detail = status_detail


class TopicPartition(Message):
    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = NOT_GIVEN,
    ) -> None:
        self.topic = topic
        self.partitions: list[int] = [] if partitions is NOT_GIVEN else partitions


class EndpointToPartitions(Message):
    __slots__ = ("user_endpoint", "active_partitions", "standby_partitions")

    def __init__(
        self,
        user_endpoint: Endpoint = NOT_GIVEN,
        active_partitions: list[TopicPartition] = NOT_GIVEN,
        standby_partitions: list[TopicPartition] = NOT_GIVEN,
    ) -> None:
        self.user_endpoint: Endpoint = Endpoint() if user_endpoint is NOT_GIVEN else user_endpoint
        self.active_partitions: list[TopicPartition] = [] if active_partitions is NOT_GIVEN else active_partitions
        self.standby_partitions: list[TopicPartition] = [] if standby_partitions is NOT_GIVEN else standby_partitions


class StreamsGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "acceptable_recovery_lag_legacy", "task_offset_interval_ms", "acceptable_recovery_lag", "status", "active_tasks", "standby_tasks", "warmup_tasks", "topology_description_required", "endpoint_information_epoch", "partitions_by_user_endpoint")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag_legacy: int = 0,
        task_offset_interval_ms: int = 0,
        acceptable_recovery_lag: int = -1,
        status: list[Status] | None = NOT_GIVEN,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        topology_description_required: bool = False,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[EndpointToPartitions] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag_legacy = acceptable_recovery_lag_legacy
        self.task_offset_interval_ms = task_offset_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.status: list[Status] | None = [] if status is NOT_GIVEN else status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.topology_description_required = topology_description_required
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint


def encode_streams_group_heartbeat_request(m: StreamsGroupHeartbeatRequest, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(pack_compact_string(m.group_id))
        add(pack_compact_string(m.member_id))
        add(_pack_ii(m.member_epoch, m.endpoint_information_epoch))
        add(pack_nullable_compact_string(m.instance_id))
        add(pack_nullable_compact_string(m.rack_id))
        add(_pack_i(m.rebalance_timeout_ms))
        m_1 = m.topology
        if m_1 is None:
            add(b"\xff")
        else:
            add(b"\x01")
            add(_pack_i(m_1.epoch))
            values_2 = m_1.subtopologies
            add(pack_compact_count(len(values_2)))
            for m_3 in values_2:
                add(pack_compact_string(m_3.subtopology_id))
                values_4 = m_3.source_topics
                add(pack_compact_count(len(values_4)))
                for text in values_4:
                    add(pack_compact_string(text))
                values_5 = m_3.source_topic_regex
                add(pack_compact_count(len(values_5)))
                for text in values_5:
                    add(pack_compact_string(text))
                values_6 = m_3.state_changelog_topics
                add(pack_compact_count(len(values_6)))
                for m_7 in values_6:
                    add(pack_compact_string(m_7.name))
                    add(_pack_ih(m_7.partitions, m_7.replication_factor))
                    values_8 = m_7.topic_configs
                    add(pack_compact_count(len(values_8)))
                    for m_9 in values_8:
                        add(pack_compact_string(m_9.key))
                        add(pack_compact_string(m_9.value))
                        add(b"\x00")
                    add(b"\x00")
                values_10 = m_3.repartition_sink_topics
                add(pack_compact_count(len(values_10)))
                for text in values_10:
                    add(pack_compact_string(text))
                values_11 = m_3.repartition_source_topics
                add(pack_compact_count(len(values_11)))
                for m_12 in values_11:
                    add(pack_compact_string(m_12.name))
                    add(_pack_ih(m_12.partitions, m_12.replication_factor))
                    values_13 = m_12.topic_configs
                    add(pack_compact_count(len(values_13)))
                    for m_14 in values_13:
                        add(pack_compact_string(m_14.key))
                        add(pack_compact_string(m_14.value))
                        add(b"\x00")
                    add(b"\x00")
                values_15 = m_3.copartition_groups
                add(pack_compact_count(len(values_15)))
                for m_16 in values_15:
                    values_17 = m_16.source_topics
                    add(pack_compact_count(len(values_17)))
                    add(pack_numbers(values_17, "h"))
                    values_18 = m_16.source_topic_regex
                    add(pack_compact_count(len(values_18)))
                    add(pack_numbers(values_18, "h"))
                    values_19 = m_16.repartition_source_topics
                    add(pack_compact_count(len(values_19)))
                    add(pack_numbers(values_19, "h"))
                    add(b"\x00")
                add(b"\x00")
            add(b"\x00")
        values_20 = m.active_tasks
        if values_20 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_20)))
            for m_21 in values_20:
                add(pack_compact_string(m_21.subtopology_id))
                values_22 = m_21.partitions
                add(pack_compact_count(len(values_22)))
                add(pack_numbers(values_22, "i"))
                add(b"\x00")
        values_23 = m.standby_tasks
        if values_23 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_23)))
            for m_24 in values_23:
                add(pack_compact_string(m_24.subtopology_id))
                values_25 = m_24.partitions
                add(pack_compact_count(len(values_25)))
                add(pack_numbers(values_25, "i"))
                add(b"\x00")
        values_26 = m.warmup_tasks
        if values_26 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_26)))
            for m_27 in values_26:
                add(pack_compact_string(m_27.subtopology_id))
                values_28 = m_27.partitions
                add(pack_compact_count(len(values_28)))
                add(pack_numbers(values_28, "i"))
                add(b"\x00")
        add(pack_nullable_compact_string(m.process_id))
        m_29 = m.user_endpoint
        if m_29 is None:
            add(b"\xff")
        else:
            add(b"\x01")
            add(pack_compact_string(m_29.host))
            add(_pack_H(m_29.port))
            add(b"\x00")
        values_30 = m.client_tags
        if values_30 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_30)))
            for m_31 in values_30:
                add(pack_compact_string(m_31.key))
                add(pack_compact_string(m_31.value))
                add(b"\x00")
        values_32 = m.task_offsets
        if values_32 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_32)))
            for m_33 in values_32:
                add(pack_compact_string(m_33.subtopology_id))
                add(_pack_iq(m_33.partition, m_33.offset))
                add(b"\x00")
        values_34 = m.task_end_offsets
        if values_34 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_34)))
            for m_35 in values_34:
                add(pack_compact_string(m_35.subtopology_id))
                add(_pack_iq(m_35.partition, m_35.offset))
                add(b"\x00")
        add(_pack_o(m.shutdown_application))
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("StreamsGroupHeartbeatRequest", version, error) from error


def decode_streams_group_heartbeat_request(data: memoryview, version: int) -> StreamsGroupHeartbeatRequest:
    try:
        p = 0
        group_id, p = read_compact_string(data, p)
        member_id, p = read_compact_string(data, p)
        member_epoch, endpoint_information_epoch = _unpack_ii(data, p)
        p += 8
        instance_id, p = read_nullable_compact_string(data, p)
        rack_id, p = read_nullable_compact_string(data, p)
        (rebalance_timeout_ms,) = _unpack_i(data, p)
        p += 4
        topology: Topology | None
        present, p = read_presence(data, p)
        if present:
            (epoch_1,) = _unpack_i(data, p)
            p += 4
            count, p = read_compact_count(data, p, 8)
            subtopologies_1: list[Subtopology] = []
            for _ in range(count):
                subtopology_id_2, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 1)
                source_topics_2: list[str] = []
                for _ in range(count):
                    item, p = read_compact_string(data, p)
                    source_topics_2.append(item)
                count, p = read_compact_count(data, p, 1)
                source_topic_regex_2: list[str] = []
                for _ in range(count):
                    item, p = read_compact_string(data, p)
                    source_topic_regex_2.append(item)
                count, p = read_compact_count(data, p, 9)
                state_changelog_topics_2: list[TopicInfo] = []
                for _ in range(count):
                    name_3, p = read_compact_string(data, p)
                    partitions_3, replication_factor_3 = _unpack_ih(data, p)
                    p += 6
                    count, p = read_compact_count(data, p, 3)
                    topic_configs_3: list[KeyValue] = []
                    for _ in range(count):
                        key_4, p = read_compact_string(data, p)
                        value_4, p = read_compact_string(data, p)
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        topic_configs_3.append(KeyValue(key_4, value_4))
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    state_changelog_topics_2.append(TopicInfo(name_3, partitions_3, replication_factor_3, topic_configs_3))
                count, p = read_compact_count(data, p, 1)
                repartition_sink_topics_2: list[str] = []
                for _ in range(count):
                    item, p = read_compact_string(data, p)
                    repartition_sink_topics_2.append(item)
                count, p = read_compact_count(data, p, 9)
                repartition_source_topics_2: list[TopicInfo] = []
                for _ in range(count):
                    name_5, p = read_compact_string(data, p)
                    partitions_5, replication_factor_5 = _unpack_ih(data, p)
                    p += 6
                    count, p = read_compact_count(data, p, 3)
                    topic_configs_5: list[KeyValue] = []
                    for _ in range(count):
                        key_6, p = read_compact_string(data, p)
                        value_6, p = read_compact_string(data, p)
                        p = p + 1 if data[p] == 0 else skip_tags(data, p)
                        topic_configs_5.append(KeyValue(key_6, value_6))
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    repartition_source_topics_2.append(TopicInfo(name_5, partitions_5, replication_factor_5, topic_configs_5))
                count, p = read_compact_count(data, p, 4)
                copartition_groups_2: list[CopartitionGroup] = []
                for _ in range(count):
                    count, p = read_compact_count(data, p, 2)
                    source_topics_7, p = read_numbers(data, p, count, "h")
                    count, p = read_compact_count(data, p, 2)
                    source_topic_regex_7, p = read_numbers(data, p, count, "h")
                    count, p = read_compact_count(data, p, 2)
                    repartition_source_topics_7, p = read_numbers(data, p, count, "h")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    copartition_groups_2.append(CopartitionGroup(source_topics_7, source_topic_regex_7, repartition_source_topics_7))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                subtopologies_1.append(Subtopology(subtopology_id_2, source_topics_2, source_topic_regex_2, state_changelog_topics_2, repartition_sink_topics_2, repartition_source_topics_2, copartition_groups_2))
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            topology = Topology(epoch_1, subtopologies_1)
        else:
            topology = None
        count, p = read_nullable_compact_count(data, p, 3)
        active_tasks: list[TaskIds] | None
        if count < 0:
            active_tasks = None
        else:
            active_tasks = []
            for _ in range(count):
                subtopology_id_8, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 4)
                partitions_8, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                active_tasks.append(TaskIds(subtopology_id_8, partitions_8))
        count, p = read_nullable_compact_count(data, p, 3)
        standby_tasks: list[TaskIds] | None
        if count < 0:
            standby_tasks = None
        else:
            standby_tasks = []
            for _ in range(count):
                subtopology_id_9, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 4)
                partitions_9, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                standby_tasks.append(TaskIds(subtopology_id_9, partitions_9))
        count, p = read_nullable_compact_count(data, p, 3)
        warmup_tasks: list[TaskIds] | None
        if count < 0:
            warmup_tasks = None
        else:
            warmup_tasks = []
            for _ in range(count):
                subtopology_id_10, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 4)
                partitions_10, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                warmup_tasks.append(TaskIds(subtopology_id_10, partitions_10))
        process_id, p = read_nullable_compact_string(data, p)
        user_endpoint: Endpoint | None
        present, p = read_presence(data, p)
        if present:
            host_11, p = read_compact_string(data, p)
            (port_11,) = _unpack_H(data, p)
            p += 2
            p = p + 1 if data[p] == 0 else skip_tags(data, p)
            user_endpoint = Endpoint(host_11, port_11)
        else:
            user_endpoint = None
        count, p = read_nullable_compact_count(data, p, 3)
        client_tags: list[KeyValue] | None
        if count < 0:
            client_tags = None
        else:
            client_tags = []
            for _ in range(count):
                key_12, p = read_compact_string(data, p)
                value_12, p = read_compact_string(data, p)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                client_tags.append(KeyValue(key_12, value_12))
        count, p = read_nullable_compact_count(data, p, 14)
        task_offsets: list[TaskOffset] | None
        if count < 0:
            task_offsets = None
        else:
            task_offsets = []
            for _ in range(count):
                subtopology_id_13, p = read_compact_string(data, p)
                partition_13, offset_13 = _unpack_iq(data, p)
                p += 12
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                task_offsets.append(TaskOffset(subtopology_id_13, partition_13, offset_13))
        count, p = read_nullable_compact_count(data, p, 14)
        task_end_offsets: list[TaskOffset] | None
        if count < 0:
            task_end_offsets = None
        else:
            task_end_offsets = []
            for _ in range(count):
                subtopology_id_14, p = read_compact_string(data, p)
                partition_14, offset_14 = _unpack_iq(data, p)
                p += 12
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                task_end_offsets.append(TaskOffset(subtopology_id_14, partition_14, offset_14))
        shutdown_application = data[p] != 0
        p += 1
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return StreamsGroupHeartbeatRequest(group_id, member_id, member_epoch, endpoint_information_epoch, instance_id, rack_id, rebalance_timeout_ms, topology, active_tasks, standby_tasks, warmup_tasks, process_id, user_endpoint, client_tags, task_offsets, task_end_offsets, shutdown_application)
    except DECODE_ERRORS as error:
        raise malformed("StreamsGroupHeartbeatRequest", version, error) from None


def encode_streams_group_heartbeat_response(m: StreamsGroupHeartbeatResponse, version: int) -> bytes:
    try:
        parts: list[BytesLike] = []
        add = parts.append
        add(_pack_ih(m.throttle_time_ms, m.error_code))
        add(pack_nullable_compact_string(m.error_message))
        add(pack_compact_string(m.member_id))
        if version >= 1:
            add(_pack_iiiq(m.member_epoch, m.heartbeat_interval_ms, m.task_offset_interval_ms, m.acceptable_recovery_lag))
        else:
            add(_pack_iiii(m.member_epoch, m.heartbeat_interval_ms, m.acceptable_recovery_lag_legacy, m.task_offset_interval_ms))
        values_1 = m.status
        if values_1 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_1)))
            for m_2 in values_1:
                add(_pack_b(m_2.status_code))
                add(pack_compact_string(m_2.status_detail))
                add(b"\x00")
        values_3 = m.active_tasks
        if values_3 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_3)))
            for m_4 in values_3:
                add(pack_compact_string(m_4.subtopology_id))
                values_5 = m_4.partitions
                add(pack_compact_count(len(values_5)))
                add(pack_numbers(values_5, "i"))
                add(b"\x00")
        values_6 = m.standby_tasks
        if values_6 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_6)))
            for m_7 in values_6:
                add(pack_compact_string(m_7.subtopology_id))
                values_8 = m_7.partitions
                add(pack_compact_count(len(values_8)))
                add(pack_numbers(values_8, "i"))
                add(b"\x00")
        values_9 = m.warmup_tasks
        if values_9 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_9)))
            for m_10 in values_9:
                add(pack_compact_string(m_10.subtopology_id))
                values_11 = m_10.partitions
                add(pack_compact_count(len(values_11)))
                add(pack_numbers(values_11, "i"))
                add(b"\x00")
        if version >= 1:
            add(_pack_oi(m.topology_description_required, m.endpoint_information_epoch))
        else:
            add(_pack_i(m.endpoint_information_epoch))
        values_12 = m.partitions_by_user_endpoint
        if values_12 is None:
            add(pack_compact_count(-1))
        else:
            add(pack_compact_count(len(values_12)))
            for m_13 in values_12:
                m_14 = m_13.user_endpoint
                add(pack_compact_string(m_14.host))
                add(_pack_H(m_14.port))
                add(b"\x00")
                values_15 = m_13.active_partitions
                add(pack_compact_count(len(values_15)))
                for m_16 in values_15:
                    add(pack_compact_string(m_16.topic))
                    values_17 = m_16.partitions
                    add(pack_compact_count(len(values_17)))
                    add(pack_numbers(values_17, "i"))
                    add(b"\x00")
                values_18 = m_13.standby_partitions
                add(pack_compact_count(len(values_18)))
                for m_19 in values_18:
                    add(pack_compact_string(m_19.topic))
                    values_20 = m_19.partitions
                    add(pack_compact_count(len(values_20)))
                    add(pack_numbers(values_20, "i"))
                    add(b"\x00")
                add(b"\x00")
        add(b"\x00")
        return b"".join(parts)
    except ENCODE_ERRORS as error:
        raise unencodable("StreamsGroupHeartbeatResponse", version, error) from error


def decode_streams_group_heartbeat_response(data: memoryview, version: int) -> StreamsGroupHeartbeatResponse:
    try:
        p = 0
        throttle_time_ms, error_code = _unpack_ih(data, p)
        p += 6
        error_message, p = read_nullable_compact_string(data, p)
        member_id, p = read_compact_string(data, p)
        if version >= 1:
            member_epoch, heartbeat_interval_ms, task_offset_interval_ms, acceptable_recovery_lag = _unpack_iiiq(data, p)
            p += 20
            acceptable_recovery_lag_legacy = 0
        else:
            member_epoch, heartbeat_interval_ms, acceptable_recovery_lag_legacy, task_offset_interval_ms = _unpack_iiii(data, p)
            p += 16
            acceptable_recovery_lag = -1
        count, p = read_nullable_compact_count(data, p, 3)
        status: list[Status] | None
        if count < 0:
            status = None
        else:
            status = []
            for _ in range(count):
                (status_code_1,) = _unpack_b(data, p)
                p += 1
                status_detail_1, p = read_compact_string(data, p)
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                status.append(Status(status_code_1, status_detail_1))
        count, p = read_nullable_compact_count(data, p, 3)
        active_tasks: list[TaskIds] | None
        if count < 0:
            active_tasks = None
        else:
            active_tasks = []
            for _ in range(count):
                subtopology_id_2, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 4)
                partitions_2, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                active_tasks.append(TaskIds(subtopology_id_2, partitions_2))
        count, p = read_nullable_compact_count(data, p, 3)
        standby_tasks: list[TaskIds] | None
        if count < 0:
            standby_tasks = None
        else:
            standby_tasks = []
            for _ in range(count):
                subtopology_id_3, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 4)
                partitions_3, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                standby_tasks.append(TaskIds(subtopology_id_3, partitions_3))
        count, p = read_nullable_compact_count(data, p, 3)
        warmup_tasks: list[TaskIds] | None
        if count < 0:
            warmup_tasks = None
        else:
            warmup_tasks = []
            for _ in range(count):
                subtopology_id_4, p = read_compact_string(data, p)
                count, p = read_compact_count(data, p, 4)
                partitions_4, p = read_numbers(data, p, count, "i")
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                warmup_tasks.append(TaskIds(subtopology_id_4, partitions_4))
        if version >= 1:
            topology_description_required, endpoint_information_epoch = _unpack_oi(data, p)
            p += 5
        else:
            (endpoint_information_epoch,) = _unpack_i(data, p)
            p += 4
            topology_description_required = False
        count, p = read_nullable_compact_count(data, p, 7)
        partitions_by_user_endpoint: list[EndpointToPartitions] | None
        if count < 0:
            partitions_by_user_endpoint = None
        else:
            partitions_by_user_endpoint = []
            for _ in range(count):
                host_6, p = read_compact_string(data, p)
                (port_6,) = _unpack_H(data, p)
                p += 2
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                user_endpoint_5 = Endpoint(host_6, port_6)
                count, p = read_compact_count(data, p, 3)
                active_partitions_5: list[TopicPartition] = []
                for _ in range(count):
                    topic_7, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_7, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    active_partitions_5.append(TopicPartition(topic_7, partitions_7))
                count, p = read_compact_count(data, p, 3)
                standby_partitions_5: list[TopicPartition] = []
                for _ in range(count):
                    topic_8, p = read_compact_string(data, p)
                    count, p = read_compact_count(data, p, 4)
                    partitions_8, p = read_numbers(data, p, count, "i")
                    p = p + 1 if data[p] == 0 else skip_tags(data, p)
                    standby_partitions_5.append(TopicPartition(topic_8, partitions_8))
                p = p + 1 if data[p] == 0 else skip_tags(data, p)
                partitions_by_user_endpoint.append(EndpointToPartitions(user_endpoint_5, active_partitions_5, standby_partitions_5))
        p = p + 1 if data[p] == 0 else skip_tags(data, p)
        return StreamsGroupHeartbeatResponse(throttle_time_ms, error_code, error_message, member_id, member_epoch, heartbeat_interval_ms, acceptable_recovery_lag_legacy, task_offset_interval_ms, acceptable_recovery_lag, status, active_tasks, standby_tasks, warmup_tasks, topology_description_required, endpoint_information_epoch, partitions_by_user_endpoint)
    except DECODE_ERRORS as error:
        raise malformed("StreamsGroupHeartbeatResponse", version, error) from None
