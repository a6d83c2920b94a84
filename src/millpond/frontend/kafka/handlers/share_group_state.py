"""The five APIs for what is kept of share partitions (KIP-932): brokers ask each other, one handler for each.

Each share partition is answered alone. An answer waits until what it says is safe; other requests do not wait
for it.
"""

from typing import Any

from millpond.base.errors import MillpondError
from millpond.engine.peers import ListShareState, PeerRequest
from millpond.frontend.kafka.errors import code_of
from millpond.frontend.kafka.handler import (
    Context,
    Deferred,
    Handler,
    Payload,
    Result,
    decode,
    encode,
)
from millpond.frontend.kafka.peers.share_state import (
    APIS,
    ShareStateApi,
    list_question,
    list_response,
)
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
        message = decode(request)
        return _response(api, request, message, [{"error_code": code}] * _count(message))

    return Handler(
        api_key=api.api_key, min_version=0, max_version=api.version, handle=handle, refuse=refuse
    )


async def _answer(
    api: ShareStateApi, context: Context, request: Request, deferred: Deferred
) -> None:
    try:
        message = decode(request)
        everything = list_question(message)
        if everything is not None:
            deferred.resolve(encode(request, await _list(context, everything)))
            return
        fields = [await _one(api, context, question) for question in api.questions(message)]
        deferred.resolve(_response(api, request, message, fields))
    except Exception as error:  # noqa: BLE001 - the session answers for it
        deferred.resolve(error)


async def _one(api: ShareStateApi, context: Context, question: PeerRequest[Any]) -> dict[str, Any]:
    try:
        return api.to_fields(await context.engine.peer_handlers.answer(question))
    except MillpondError as error:
        return {"error_code": code_of(error), "error_message": str(error)}


async def _list(context: Context, question: ListShareState) -> Any:
    try:
        found = await context.engine.peer_handlers.answer(question)
        return list_response(found)
    except MillpondError as error:
        return list_response(code_of(error))


def _count(message: Any) -> int:
    return sum(len(topic.partitions) for topic in message.topics)


def _response(
    api: ShareStateApi, request: Request, message: Any, fields: list[dict[str, Any]]
) -> Payload:
    left = iter(fields)
    results = [
        api.topic_result(
            topic_id=topic.topic_id,
            partitions=[
                api.partition_result(partition=one.partition, **next(left))
                for one in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return encode(request, api.response(results=results))


HANDLERS = tuple(_handler(api) for api in APIS)
