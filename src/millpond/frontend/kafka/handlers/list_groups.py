"""ListGroups: every group, or those in some states or of some types."""

from millpond.engine.api import Engine
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
            group_type=group.kind,
        )
        for group in context.engine.groups.list(message.states_filter, message.types_filter)
    ]
    groups += _share_groups(context.engine, message)
    return encode(request, ListGroupsResponse(groups=groups))


def _share_groups(engine: Engine, message: ListGroupsRequest) -> list[ListedGroup]:
    states = {state.strip().lower() for state in message.states_filter}
    types = {kind.strip().lower() for kind in message.types_filter}
    if types and "share" not in types:
        return []
    return [
        ListedGroup(group_id=group_id, protocol_type="share", group_state=state, group_type="share")
        for group_id, state in engine.share.list()
        if not states or state.lower() in states
    ]


HANDLER = Handler(
    api_key=ApiKey.LIST_GROUPS,
    min_version=0,
    max_version=5,
    handle=handle,
    refuse=refuse_whole(ListGroupsResponse),
)
