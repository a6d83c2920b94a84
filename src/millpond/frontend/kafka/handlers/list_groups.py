"""ListGroups: every group, or those in some states or of some types."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


def handle(context: Context, request: Request) -> Result:
    message: ListGroupsRequest = decode(request)
    groups = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type="classic",
        )
        for group in context.engine.groups.list(message.states_filter, message.types_filter)
    ]
    return encode(request, ListGroupsResponse(groups=groups))


HANDLER = Handler(
    api_key=ApiKey.LIST_GROUPS,
    min_version=0,
    max_version=5,
    handle=handle,
    refuse=refuse_whole(ListGroupsResponse),
)
