"""ShareGroupHeartbeat (KIP-932): join, stay in and leave a share group."""

from millpond.engine.share.share_groups import Assignment, ShareHeartbeat
from millpond.frontend.kafka.groups import client_host
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.frontend.kafka.share import when_ready
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.share_group_heartbeat import (
    Assignment as AssignmentMessage,
)
from millpond.wire.kafka.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)


def handle(context: Context, request: Request) -> Result:
    return when_ready(context, request, _answer)


def _answer(context: Context, request: Request) -> Payload:
    message: ShareGroupHeartbeatRequest = decode(request)
    names = message.subscribed_topic_names
    answer = context.engine.share.heartbeat(
        ShareHeartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            epoch=message.member_epoch,
            rack_id=message.rack_id,
            topics=None if names is None else tuple(names),
            client_id=request.client_id or "",
            client_host=client_host(context),
        )
    )
    return encode(
        request,
        ShareGroupHeartbeatResponse(
            member_id=answer.member_id,
            member_epoch=answer.epoch,
            heartbeat_interval_ms=answer.heartbeat_interval_ms,
            assignment=None if answer.assignment is None else _assignment(answer.assignment),
        ),
    )


def _assignment(assignment: Assignment) -> AssignmentMessage:
    return AssignmentMessage(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in assignment.items()
        ]
    )


HANDLER = Handler(
    api_key=ApiKey.SHARE_GROUP_HEARTBEAT,
    min_version=1,
    max_version=1,
    handle=handle,
    refuse=refuse_whole(ShareGroupHeartbeatResponse),
)
