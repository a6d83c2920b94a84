"""SyncGroup: the leader brings the plan, everyone takes a part. The answer may take a while."""

from millpond.base.errors import InconsistentGroupProtocol
from millpond.engine.coordinators.groups import Sync, SyncAnswer
from millpond.frontend.kafka.groups import code_for
from millpond.frontend.kafka.handler import (
    Context,
    Deferred,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# From this version on a member says which protocol it thinks was chosen (KIP-559).
_PROTOCOL_FROM = 5


def handle(context: Context, request: Request) -> Result:
    message: SyncGroupRequest = decode(request)
    if request.api_version >= _PROTOCOL_FROM and None in {
        message.protocol_type,
        message.protocol_name,
    }:
        raise InconsistentGroupProtocol("the request names no protocol")
    command = Sync(
        group_id=message.group_id,
        ticket=0,
        member_id=message.member_id,
        generation=message.generation_id,
        instance_id=message.group_instance_id,
        protocol_type=message.protocol_type,
        protocol=message.protocol_name,
        assignments={one.member_id: bytes(one.assignment) for one in message.assignments},
    )
    deferred = Deferred(is_idle=True)
    groups = context.engine.groups
    ticket = groups.sync(command, lambda answer: deferred.resolve(_payload(request, answer)))
    deferred.cancelled = lambda: groups.withdraw(ticket)
    return deferred


def _payload(request: Request, answer: SyncAnswer) -> Payload:
    response = SyncGroupResponse(
        error_code=code_for(answer.error),
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )
    return encode(request, response)


HANDLER = Handler(
    api_key=ApiKey.SYNC_GROUP,
    min_version=0,
    max_version=5,
    handle=handle,
    refuse=refuse_whole(SyncGroupResponse),
)
