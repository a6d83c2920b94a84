"""The five APIs for what is kept of share partitions (KIP-932): brokers ask each other, one handler for each.

An answer waits until what it says is safe; other requests do not wait for it.
"""

from millpond.frontend.kafka.handler import (
    Context,
    Deferred,
    Handler,
    Payload,
    Result,
    decode,
    encode,
)
from millpond.peer.share_state import APIS, ShareStateApi
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.connection import Request


def _handler(api: ShareStateApi) -> Handler:
    def handle(context: Context, request: Request) -> Result:
        deferred = Deferred()
        context.engine.runtime.tasks.spawn(
            _answer(api, context, request, deferred), name="share state"
        )
        return deferred

    def refuse(request: Request, code: ErrorCode) -> Payload:
        return encode(request, api.refusal_to(decode(request), code))

    return Handler(
        api_key=api.api_key, min_version=0, max_version=api.version, handle=handle, refuse=refuse
    )


async def _answer(
    api: ShareStateApi, context: Context, request: Request, deferred: Deferred
) -> None:
    try:
        answer = await api.answer(decode(request), context.engine.peer_handlers)
        deferred.resolve(encode(request, answer))
    except Exception as error:  # noqa: BLE001 - the session answers for it
        deferred.resolve(error)


HANDLERS = tuple(_handler(api) for api in APIS)
