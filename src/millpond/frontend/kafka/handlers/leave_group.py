"""LeaveGroup: members go, at once. Until version 2 one at a time."""

from millpond.engine.groups import ErrorClass, Leave, LeavingMember
from millpond.frontend.kafka.groups import code_for
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
    errors = context.engine.groups.leave(Leave(group_id=message.group_id, members=leaving))
    if not many:
        return encode(request, LeaveGroupResponse(error_code=code_for(errors[0])))
    members = [_left(one, error) for one, error in zip(leaving, errors, strict=True)]
    return encode(request, LeaveGroupResponse(members=members))


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
