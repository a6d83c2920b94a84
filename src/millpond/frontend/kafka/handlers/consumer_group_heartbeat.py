"""ConsumerGroupHeartbeat (KIP-848): join, stay in and leave a consumer group, and learn what to read."""

from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.engine.api.groups import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from millpond.frontend.kafka.groups import client_host, when_durable
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_NOT_SAID = -1
# From this version on members make up their own ids (KIP-1082).
_OWN_IDS_FROM = 1


def handle(context: Context, request: Request) -> Result:
    message: ConsumerGroupHeartbeatRequest = decode(request)
    names, timeout_ms = message.subscribed_topic_names, message.rebalance_timeout_ms
    command = ConsumerHeartbeat(
        group_id=message.group_id,
        member_id=message.member_id,
        epoch=message.member_epoch,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=None if timeout_ms == _NOT_SAID else timeout_ms,
        topics=None if names is None else tuple(names),
        pattern=message.subscribed_topic_regex,
        assignor=message.server_assignor,
        owned=_owned(message.topic_partitions),
        client_id=request.client_id or "",
        client_host=client_host(context),
        member_id_required=request.api_version >= _OWN_IDS_FROM,
    )
    try:
        answer, durable = context.engine.groups.consumer_heartbeat(command)
    except MillpondError as error:
        refusal = ConsumerGroupHeartbeatResponse(
            error_code=code_of(error), error_message=str(error)
        )
        return encode(request, refusal)
    return when_durable(durable, encode(request, _response(answer)))


def _owned(topics: list[TopicPartitions] | None) -> dict[UUID, frozenset[int]] | None:
    if topics is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def _response(answer: ConsumerHeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if answer.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in answer.assignment.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=assignment,
    )


HANDLER = Handler(
    api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse_whole(ConsumerGroupHeartbeatResponse),
)
