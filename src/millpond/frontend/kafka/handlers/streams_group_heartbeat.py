"""StreamsGroupHeartbeat (KIP-1071): join, stay in and leave a streams group, and learn which tasks to run."""

from collections.abc import Iterable

from millpond.base.errors import InvalidRequest, InvalidTopicName, InvalidTopology, MillpondError
from millpond.engine.api.groups import StreamsHeartbeat, StreamsHeartbeatAnswer
from millpond.frontend.kafka.groups import client_host, when_durable
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.group.streams.messages import EndpointPartitions
from millpond.group.streams.records import Tasks
from millpond.group.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from millpond.metadata.controller import INTERNAL_TOPICS, check_topic_name
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages import streams_group_heartbeat as wire

_NOT_SAID = -1


def handle(context: Context, request: Request) -> Result:
    message: wire.StreamsGroupHeartbeatRequest = decode(request)
    try:
        command = _command(context, request, message)
        answer, durable = context.engine.groups.streams_heartbeat(command)
    except MillpondError as error:
        refusal = wire.StreamsGroupHeartbeatResponse(
            error_code=code_of(error), error_message=str(error)
        )
        return encode(request, refusal)
    return when_durable(durable, encode(request, _response(answer)))


# --- the request ----------------------------------------------------------------------------------


def _command(
    context: Context, request: Request, message: wire.StreamsGroupHeartbeatRequest
) -> StreamsHeartbeat:
    for name, offsets in (
        ("TaskOffsets", message.task_offsets),
        ("TaskEndOffsets", message.task_end_offsets),
    ):
        if offsets is not None:
            raise InvalidRequest(f"{name} are not supported yet.")
    timeout_ms, endpoint, tags = (
        message.rebalance_timeout_ms,
        message.user_endpoint,
        message.client_tags,
    )
    return StreamsHeartbeat(
        group_id=message.group_id,
        member_id=message.member_id,
        epoch=message.member_epoch,
        endpoint_epoch=message.endpoint_information_epoch,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=None if timeout_ms == _NOT_SAID else timeout_ms,
        topology=None if message.topology is None else _topology(message.topology),
        active=_tasks(message.active_tasks),
        standby=_tasks(message.standby_tasks),
        warmup=_tasks(message.warmup_tasks),
        process_id=message.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if tags is None else tuple(sorted((tag.key, tag.value) for tag in tags)),
        shutdown=message.shutdown_application,
        client_id=request.client_id or "",
        client_host=client_host(context),
    )


def _tasks(tasks: list[wire.TaskIds] | None) -> Tasks | None:
    if tasks is None:
        return None
    return {one.subtopology_id: frozenset(one.partitions) for one in tasks}


def _topology(message: wire.Topology) -> Topology:
    topology = Topology.of(message.epoch, map(_subtopology, message.subtopologies))
    names = topology.required_topics.union(
        *(part.repartition_sinks for part in topology.subtopologies.values())
    )
    internal = sorted(names & INTERNAL_TOPICS)
    if internal:
        raise InvalidTopology(
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is "
            "prohibited."
        )
    invalid = sorted(name for name in names if not _is_valid(name))
    if invalid:
        raise InvalidTopology(f"Topic names {','.join(invalid)} are not valid topic names.")
    return topology


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopicName:
        return False
    return True


def _subtopology(part: wire.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=part.subtopology_id,
        sources=tuple(part.source_topics),
        source_patterns=tuple(part.source_topic_regex),
        changelogs=tuple(map(_topic, part.state_changelog_topics)),
        repartition_sinks=tuple(part.repartition_sink_topics),
        repartition_sources=tuple(map(_topic, part.repartition_source_topics)),
        copartition_groups=tuple(
            CopartitionGroup(
                sources=tuple(group.source_topics),
                source_patterns=tuple(group.source_topic_regex),
                repartition_sources=tuple(group.repartition_source_topics),
            )
            for group in part.copartition_groups
        ),
    )


def _topic(topic: wire.TopicInfo) -> InternalTopic:
    return InternalTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=tuple((config.key, config.value) for config in topic.topic_configs),
    )


# --- the answer -----------------------------------------------------------------------------------


def _response(answer: StreamsHeartbeatAnswer) -> wire.StreamsGroupHeartbeatResponse:
    tasks = answer.tasks
    return wire.StreamsGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        status=[wire.Status(status, detail) for status, detail in answer.statuses],
        active_tasks=None if tasks is None else _task_ids(tasks.active),
        standby_tasks=None if tasks is None else _task_ids(tasks.standby),
        warmup_tasks=None if tasks is None else _task_ids(tasks.warmup),
        endpoint_information_epoch=answer.endpoint_epoch,
        partitions_by_user_endpoint=(
            None if answer.endpoints is None else [_endpoint(one) for one in answer.endpoints]
        ),
    )


def _task_ids(tasks: Tasks) -> list[wire.TaskIds]:
    return [wire.TaskIds(part, sorted(numbers)) for part, numbers in tasks.items()]


def _endpoint(one: EndpointPartitions) -> wire.EndpointToPartitions:
    return wire.EndpointToPartitions(
        user_endpoint=wire.Endpoint(one.host, one.port),
        active_partitions=_partitions(one.active),
        standby_partitions=_partitions(one.standby),
    )


def _partitions(topics: Iterable[tuple[str, tuple[int, ...]]]) -> list[wire.TopicPartition]:
    return [wire.TopicPartition(topic, list(numbers)) for topic, numbers in topics]


HANDLER = Handler(
    api_key=ApiKey.STREAMS_GROUP_HEARTBEAT,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(wire.StreamsGroupHeartbeatResponse),
)
