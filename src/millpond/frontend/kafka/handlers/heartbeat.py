"""Heartbeat: a member is alive, and learns whether it has to join again."""

from millpond.engine.coordinators.groups import Heartbeat
from millpond.frontend.kafka.groups import code_for, when_durable
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(context: Context, request: Request) -> Result:
    message: HeartbeatRequest = decode(request)
    command = Heartbeat(
        group_id=message.group_id,
        member_id=message.member_id,
        generation=message.generation_id,
        instance_id=message.group_instance_id,
    )
    error, durable = context.engine.groups.heartbeat(command)
    return when_durable(durable, encode(request, HeartbeatResponse(error_code=code_for(error))))


HANDLER = Handler(
    api_key=ApiKey.HEARTBEAT,
    min_version=0,
    max_version=4,
    handle=handle,
    refuse=refuse_whole(HeartbeatResponse),
)
