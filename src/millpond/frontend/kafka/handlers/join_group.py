"""JoinGroup: become a member, or take part in a group's next generation. The answer may take a while."""

from millpond.engine.coordinators.groups import Join, JoinAnswer
from millpond.frontend.kafka.groups import client_host, code_for
from millpond.frontend.kafka.handler import (
    Context,
    Deferred,
    Handler,
    Payload,
    Result,
    decode,
    encode,
)
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

# Before this version there was one time-out for sessions and rebalances.
_REBALANCE_TIMEOUT_FROM = 1
_MEMBER_ID_REQUIRED_FROM = 4  # KIP-394
_NULLABLE_PROTOCOL_FROM = 7
_SKIP_ASSIGNMENT_FROM = 9  # KIP-814


def handle(context: Context, request: Request) -> Result:
    message: JoinGroupRequest = decode(request)
    version = request.api_version
    command = Join(
        group_id=message.group_id,
        ticket=0,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id or "",
        client_host=client_host(context),
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=(
            message.rebalance_timeout_ms
            if version >= _REBALANCE_TIMEOUT_FROM
            else message.session_timeout_ms
        ),
        protocol_type=message.protocol_type,
        protocols=tuple((one.name, bytes(one.metadata)) for one in message.protocols),
        member_id_required=version >= _MEMBER_ID_REQUIRED_FROM,
        may_skip_assignment=version >= _SKIP_ASSIGNMENT_FROM,
    )
    deferred = Deferred(is_idle=True)
    groups = context.engine.groups
    ticket = groups.join(command, lambda answer: deferred.resolve(_payload(request, answer)))
    deferred.cancelled = lambda: groups.withdraw(ticket)
    return deferred


def _payload(request: Request, answer: JoinAnswer) -> Payload:
    protocol = answer.protocol
    if protocol is None and request.api_version < _NULLABLE_PROTOCOL_FROM:
        protocol = ""
    response = JoinGroupResponse(
        error_code=code_for(answer.error),
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )
    return encode(request, response)


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: JoinGroupRequest = decode(request)
    return encode(
        request,
        JoinGroupResponse(
            error_code=code,
            member_id=message.member_id,
            protocol_name="" if request.api_version < _NULLABLE_PROTOCOL_FROM else None,
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.JOIN_GROUP, min_version=0, max_version=9, handle=handle, refuse=refuse
)
