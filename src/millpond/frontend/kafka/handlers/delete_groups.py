"""DeleteGroups: empty groups go, with their offsets. Each is answered alone."""

import asyncio

from millpond.base.errors import GroupNotFound, MillpondError, NotCoordinator
from millpond.engine.api import Engine
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(context: Context, request: Request) -> Payload:
    message: DeleteGroupsRequest = decode(request)
    last: asyncio.Future[None] | None = None
    results = []
    for group_id in dict.fromkeys(message.groups_names):
        result, durable = await _delete(context.engine, group_id)
        results.append(result)
        last = durable or last
    if last is not None:
        try:
            await asyncio.shield(last)
        except MillpondError as error:
            raise NotCoordinator("that the groups are gone could not be flushed") from error
    return encode(request, DeleteGroupsResponse(results=results))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: DeleteGroupsRequest = decode(request)
    results = [
        DeletableGroupResult(group_id=group_id, error_code=code)
        for group_id in dict.fromkeys(message.groups_names)
    ]
    return encode(request, DeleteGroupsResponse(results=results))


async def _delete(
    engine: Engine, group_id: str
) -> tuple[DeletableGroupResult, "asyncio.Future[None] | None"]:
    durable = None
    try:
        try:
            durable = engine.groups.delete(group_id)
        except GroupNotFound as error:
            await _delete_shared(engine, group_id, error)
    except MillpondError as error:
        result = DeletableGroupResult(
            group_id=group_id, error_code=code_of(error), error_message=str(error)
        )
        return result, None
    return DeletableGroupResult(group_id=group_id), durable


async def _delete_shared(engine: Engine, group_id: str, unknown: GroupNotFound) -> None:
    """It may be a share group, of which only those know who keep its state."""
    try:
        await engine.share.admin.delete(group_id)
    except GroupNotFound:
        raise unknown from None


HANDLER = Handler(
    api_key=ApiKey.DELETE_GROUPS, min_version=0, max_version=2, handle=handle, refuse=refuse
)
