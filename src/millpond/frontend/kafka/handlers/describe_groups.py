"""DescribeGroups: groups with their members. One that is not there is dead or, to newer clients, unknown."""

from millpond.base.errors import MillpondError
from millpond.engine.api.groups import GroupDescription, GroupState
from millpond.frontend.kafka.convert import NOT_ASKED
from millpond.frontend.kafka.groups import GROUP_OPERATIONS
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_GROUP_NOT_FOUND_FROM = 6


def handle(context: Context, request: Request) -> Result:
    message: DescribeGroupsRequest = decode(request)
    operations = GROUP_OPERATIONS if message.include_authorized_operations else NOT_ASKED
    groups = [
        _describe(context, request, group_id, operations)
        for group_id in dict.fromkeys(message.groups)
    ]
    return encode(request, DescribeGroupsResponse(groups=groups))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: DescribeGroupsRequest = decode(request)
    groups = [DescribedGroup(group_id=group_id, error_code=code) for group_id in message.groups]
    return encode(request, DescribeGroupsResponse(groups=groups))


def _describe(context: Context, request: Request, group_id: str, operations: int) -> DescribedGroup:
    try:
        group = context.engine.groups.describe(group_id)
    except MillpondError as error:
        return DescribedGroup(group_id=group_id, error_code=code_of(error))
    return _described(request, group, operations)


def _described(request: Request, group: GroupDescription, operations: int) -> DescribedGroup:
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=operations,
    )
    if group.state is GroupState.DEAD and request.api_version >= _GROUP_NOT_FOUND_FROM:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.error_message = f"Group {group.group_id} not found."
        described.authorized_operations = NOT_ASKED
    return described


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_GROUPS, min_version=0, max_version=6, handle=handle, refuse=refuse
)
