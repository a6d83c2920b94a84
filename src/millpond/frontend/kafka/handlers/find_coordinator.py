"""FindCoordinator: who keeps a group, or a transactional id. One node: this one.

The first question makes ``__consumer_offsets`` or ``__transaction_state``, so whoever was answered can
join and commit.
"""

from millpond.frontend.kafka.convert import advertised
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

# From this version on one request may ask for many (KIP-699).
_MANY_FROM = 4


def handle(context: Context, request: Request) -> Result:
    message: FindCoordinatorRequest = decode(request)
    engine = context.engine
    if (message.key_type == GROUP and not engine.groups.is_ready) or (
        message.key_type == TRANSACTION and not engine.transactions.is_ready
    ):
        return _prepare(context, request, message)
    return _answer(context, request, message)


async def _prepare(context: Context, request: Request, message: FindCoordinatorRequest) -> Payload:
    if message.key_type == GROUP:
        await context.engine.groups.prepare()
    else:
        await context.engine.transactions.prepare()
    return _answer(context, request, message)


def _answer(context: Context, request: Request, message: FindCoordinatorRequest) -> Payload:
    if message.key_type not in {GROUP, TRANSACTION}:
        # Share groups' state has no coordinator here.
        return _refusal(request, message, ErrorCode.INVALID_REQUEST)
    node_id = context.engine.node.node_id
    point = advertised(context)
    if request.api_version >= _MANY_FROM:
        coordinators = [
            Coordinator(key=key, node_id=node_id, host=point.host, port=point.port)
            for key in message.coordinator_keys
        ]
        return encode(request, FindCoordinatorResponse(coordinators=coordinators))
    answer = FindCoordinatorResponse(
        node_id=node_id, host=point.host, port=point.port, error_message="NONE"
    )
    return encode(request, answer)


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
