"""LeaveGroup: members go, at once. Until version 2 one at a time."""

from millpond.engine.coordinators.groups import ErrorClass, Leave, LeavingMember
from millpond.frontend.kafka.groups import code_for, when_durable
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

_MANY_FROM = 3


def handle(context: Context, request: Request) -> Result:
    message: LeaveGroupRequest = decode(request)
    many = request.api_version >= _MANY_FROM
    leaving = (
        tuple(
            LeavingMember(member_id=one.member_id, instance_id=one.group_instance_id)
            for one in message.members
        )
        if many
        else (LeavingMember(member_id=message.member_id),)
    )
    command = Leave(group_id=message.group_id, members=leaving)
    errors, durable = context.engine.groups.leave(command)
    if many:
        members = [_left(one, error) for one, error in zip(leaving, errors, strict=True)]
        answer = LeaveGroupResponse(members=members)
    else:
        answer = LeaveGroupResponse(error_code=code_for(errors[0]))
    return when_durable(durable, encode(request, answer))


def _left(member: LeavingMember, error: ErrorClass | None) -> MemberResponse:
    return MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        error_code=code_for(error),
    )


HANDLER = Handler(
    api_key=ApiKey.LEAVE_GROUP,
    min_version=0,
    max_version=5,
    handle=handle,
    refuse=refuse_whole(LeaveGroupResponse),
)
