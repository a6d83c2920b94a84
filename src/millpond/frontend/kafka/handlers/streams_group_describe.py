"""StreamsGroupDescribe (KIP-1071): streams groups with their applications, epochs, members and tasks."""

from collections.abc import Iterable

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.engine.api.groups import StreamsMemberDescription
from millpond.frontend.kafka.convert import NOT_ASKED
from millpond.frontend.kafka.groups import GROUP_OPERATIONS
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.group.streams.records import Tasks, TaskSet
from millpond.group.streams.topology import InternalTopic
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages import streams_group_describe as wire


def handle(context: Context, request: Request) -> Result:
    message: wire.StreamsGroupDescribeRequest = decode(request)
    groups = [_describe(context.engine, one) for one in message.group_ids]
    if message.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return encode(request, wire.StreamsGroupDescribeResponse(groups=groups))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: wire.StreamsGroupDescribeRequest = decode(request)
    groups = [_refused(group_id, code) for group_id in message.group_ids]
    return encode(request, wire.StreamsGroupDescribeResponse(groups=groups))


def _refused(group_id: str, code: ErrorCode, reason: str | None = None) -> wire.DescribedGroup:
    return wire.DescribedGroup(
        error_code=code,
        error_message=reason,
        group_id=group_id,
        authorized_operations=NOT_ASKED,
    )


def _describe(engine: Engine, group_id: str) -> wire.DescribedGroup:
    if not group_id:
        return _refused(group_id, ErrorCode.INVALID_GROUP_ID)
    try:
        group = engine.groups.describe_streams(group_id)
    except MillpondError as error:
        return _refused(group_id, code_of(error), str(error))
    topology = None
    if group.topology_epoch is not None:
        topology = wire.Topology(
            epoch=group.topology_epoch,
            subtopologies=[
                wire.Subtopology(
                    subtopology_id=part.subtopology_id,
                    source_topics=list(part.sources),
                    repartition_sink_topics=list(part.repartition_sinks),
                    state_changelog_topics=_topics(part.changelogs),
                    repartition_source_topics=_topics(part.repartition_sources),
                )
                for part in group.subtopologies
            ],
        )
    return wire.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=topology,
        members=[_member(member) for member in group.members],
        authorized_operations=NOT_ASKED,
    )


def _topics(topics: Iterable[InternalTopic]) -> list[wire.TopicInfo]:
    return [
        wire.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[wire.KeyValue(key, value) for key, value in topic.configs],
        )
        for topic in topics
    ]


def _member(member: StreamsMemberDescription) -> wire.Member:
    about = member.about
    return wire.Member(
        member_id=about.member_id,
        member_epoch=member.epoch,
        instance_id=about.instance_id,
        rack_id=about.rack_id,
        client_id=about.client_id,
        client_host=about.client_host,
        topology_epoch=about.topology_epoch,
        process_id=about.process_id,
        user_endpoint=None if about.endpoint is None else wire.Endpoint(*about.endpoint),
        client_tags=[wire.KeyValue(key, value) for key, value in about.client_tags],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(member.target),
    )


def _assignment(tasks: TaskSet) -> wire.Assignment:
    return wire.Assignment(*map(_task_ids, tasks))


def _task_ids(tasks: Tasks) -> list[wire.TaskIds]:
    return [wire.TaskIds(part, sorted(tasks[part])) for part in sorted(tasks)]


HANDLER = Handler(
    api_key=ApiKey.STREAMS_GROUP_DESCRIBE,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
)
