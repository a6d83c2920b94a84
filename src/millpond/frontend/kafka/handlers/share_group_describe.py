"""ShareGroupDescribe (KIP-932): share groups with their members and who works on what."""

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.engine.api.share import ShareMember, ShareState
from millpond.frontend.kafka.groups import GROUP_OPERATIONS
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


async def handle(context: Context, request: Request) -> Payload:
    message: ShareGroupDescribeRequest = decode(request)
    groups = [await _describe(context.engine, group_id) for group_id in message.group_ids]
    if message.include_authorized_operations:
        for group in groups:
            group.authorized_operations = GROUP_OPERATIONS
    return encode(request, ShareGroupDescribeResponse(groups=groups))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: ShareGroupDescribeRequest = decode(request)
    groups = [DescribedGroup(group_id=one, error_code=code) for one in message.group_ids]
    return encode(request, ShareGroupDescribeResponse(groups=groups))


async def _describe(engine: Engine, group_id: str) -> DescribedGroup:
    try:
        group = await engine.share.admin.describe(group_id)
    except MillpondError as error:
        return DescribedGroup(
            group_id=group_id,
            error_code=code_of(error),
            error_message=str(error),
            group_state=ShareState.DEAD,
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=group.assignor,
        members=[_member(engine, member) for member in group.members],
    )


def _member(engine: Engine, member: ShareMember) -> Member:
    topics = engine.metadata.image.topics_by_id
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(
                    topic_id=topic_id,
                    topic_name=topics[topic_id].name,
                    partitions=list(partitions),
                )
                for topic_id, partitions in member.assignment.items()
                if topic_id in topics
            ]
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.SHARE_GROUP_DESCRIBE, min_version=1, max_version=1, handle=handle, refuse=refuse
)
