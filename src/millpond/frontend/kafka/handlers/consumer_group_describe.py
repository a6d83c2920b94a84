"""ConsumerGroupDescribe (KIP-848): consumer groups with their epochs, members and assignments."""

from collections.abc import Mapping
from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.engine.api.groups import ConsumerMemberDescription
from millpond.frontend.kafka.groups import GROUP_OPERATIONS
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC, _CONSUMER = 0, 1


def handle(context: Context, request: Request) -> Result:
    message: ConsumerGroupDescribeRequest = decode(request)
    groups = [_describe(context.engine, one) for one in dict.fromkeys(message.group_ids)]
    if message.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return encode(request, ConsumerGroupDescribeResponse(groups=groups))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: ConsumerGroupDescribeRequest = decode(request)
    groups = [DescribedGroup(group_id=one, error_code=code) for one in message.group_ids]
    return encode(request, ConsumerGroupDescribeResponse(groups=groups))


def _describe(engine: Engine, group_id: str) -> DescribedGroup:
    try:
        group = engine.groups.describe_consumers(group_id)
    except MillpondError as error:
        return DescribedGroup(
            group_id=group_id, error_code=code_of(error), error_message=str(error)
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(engine, member) for member in group.members],
    )


def _member(engine: Engine, member: ConsumerMemberDescription) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(engine, member.assigned),
        target_assignment=_assignment(engine, member.target),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(engine: Engine, target: Mapping[UUID, frozenset[int]]) -> Assignment:
    topics = engine.metadata.image.topics_by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id,
                topic_name=topics[topic_id].name,
                partitions=sorted(partitions),
            )
            for topic_id, partitions in target.items()
            if topic_id in topics
        ]
    )


HANDLER = Handler(
    api_key=ApiKey.CONSUMER_GROUP_DESCRIBE,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
)
