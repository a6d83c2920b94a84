"""DeleteGroups: empty groups go, with their offsets. Each is answered alone."""

import asyncio

from millpond.base.errors import MillpondError
from millpond.engine.api import Engine
from millpond.frontend.kafka.errors import code_of
from millpond.frontend.kafka.groups import when_durable
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(context: Context, request: Request) -> Result:
    message: DeleteGroupsRequest = decode(request)
    last: asyncio.Future[None] | None = None
    results = []
    for group_id in dict.fromkeys(message.groups_names):
        result, durable = _delete(context.engine, group_id)
        results.append(result)
        last = durable or last
    return when_durable(last, encode(request, DeleteGroupsResponse(results=results)))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: DeleteGroupsRequest = decode(request)
    results = [
        DeletableGroupResult(group_id=group_id, error_code=code)
        for group_id in dict.fromkeys(message.groups_names)
    ]
    return encode(request, DeleteGroupsResponse(results=results))


def _delete(
    engine: Engine, group_id: str
) -> tuple[DeletableGroupResult, "asyncio.Future[None] | None"]:
    try:
        share = engine.share.has_group(group_id)
        durable = (engine.share if share else engine.groups).delete(group_id)
    except MillpondError as error:
        result = DeletableGroupResult(
            group_id=group_id, error_code=code_of(error), error_message=str(error)
        )
        return result, None
    return DeletableGroupResult(group_id=group_id), durable


HANDLER = Handler(
    api_key=ApiKey.DELETE_GROUPS, min_version=0, max_version=2, handle=handle, refuse=refuse
)
