"""FindCoordinator: the node that keeps a group, a transactional id, or a share group's state.

That is the leader of a partition of an internal topic; any node may be asked. The first request creates
``__consumer_offsets`` or ``__transaction_state``, so a client that was answered can join and commit.
"""

import re

from millpond.frontend.kafka.convert import endpoint_of
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP = 0
TRANSACTION = 1
SHARE = 2  # the key is "group:topic id:partition"

# From this version on one request may ask for many (KIP-699).
_MANY_FROM = 4

# A group, the topic's id as Kafka writes it, a partition (KIP-932).
_SHARE_FROM = 6
_SHARE_KEY = re.compile(r".+:[\w-]{22}:\d{1,10}", re.DOTALL)


def handle(context: Context, request: Request) -> Result:
    message: FindCoordinatorRequest = decode(request)
    engine = context.engine
    if (message.key_type == GROUP and not engine.groups.is_ready) or (
        message.key_type == TRANSACTION and not engine.transactions.is_ready
    ):
        return _prepare(context, request, message)
    is_share = message.key_type == SHARE and _is_sensible(request, message)
    if is_share and not context.engine.share.is_ready:
        return _prepare(context, request, message)
    return _answer(context, request, message)


async def _prepare(context: Context, request: Request, message: FindCoordinatorRequest) -> Payload:
    if message.key_type == SHARE:
        await context.engine.share.prepare()
    elif message.key_type == TRANSACTION:
        await context.engine.transactions.prepare()
    else:
        await context.engine.groups.prepare()
    return _answer(context, request, message)


def _answer(context: Context, request: Request, message: FindCoordinatorRequest) -> Payload:
    if not _is_sensible(request, message):
        return _refusal(request, message, ErrorCode.INVALID_REQUEST)
    if request.api_version >= _MANY_FROM:
        coordinators = [_find(context, message.key_type, key) for key in message.coordinator_keys]
        return encode(request, FindCoordinatorResponse(coordinators=coordinators))
    found = _find(context, message.key_type, message.key)
    answer = FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=ErrorCode(found.error_code).name,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )
    return encode(request, answer)


def _find(context: Context, key_type: int, key: str) -> Coordinator:
    engine = context.engine
    find = {
        GROUP: engine.groups.coordinator_of,
        TRANSACTION: engine.transactions.coordinator_of,
        SHARE: engine.share.coordinator_of,
    }[key_type]
    node_id = find(key)
    point = endpoint_of(context, node_id)
    if point is None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key=key, error_code=code, error_message=code.name, node_id=-1, port=-1)
    return Coordinator(key=key, node_id=node_id, host=point.host, port=point.port)


def _is_sensible(request: Request, message: FindCoordinatorRequest) -> bool:
    if message.key_type == SHARE:
        keys = message.coordinator_keys
        return request.api_version >= _SHARE_FROM and all(map(_SHARE_KEY.fullmatch, keys))
    return message.key_type in {GROUP, TRANSACTION}


def refuse(request: Request, code: ErrorCode) -> Payload:
    # Whatever stands in the way of making the topic (a full disk, a stop under way) may pass.
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE if code != ErrorCode.INVALID_REQUEST else code
    return _refusal(request, decode(request), code)


def _refusal(request: Request, message: FindCoordinatorRequest, code: ErrorCode) -> Payload:
    if request.api_version < _MANY_FROM:
        answer = FindCoordinatorResponse(
            error_code=code, error_message=code.name, node_id=-1, port=-1
        )
        return encode(request, answer)
    coordinators = [
        Coordinator(key=key, error_code=code, error_message=code.name, node_id=-1, port=-1)
        for key in message.coordinator_keys
    ]
    return encode(request, FindCoordinatorResponse(coordinators=coordinators))


HANDLER = Handler(
    api_key=ApiKey.FIND_COORDINATOR, min_version=0, max_version=6, handle=handle, refuse=refuse
)
