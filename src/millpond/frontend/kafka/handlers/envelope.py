"""Envelope: another node sends on a client's request for the controller, or asks about queues or timers."""

from millpond.base.errors import MillpondError
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.frontend.kafka.peers import queue_calls, timer_calls
from millpond.frontend.kafka.peers.envelope import answer_to_wire, question_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse


async def handle(context: Context, request: Request) -> Payload:
    message = decode(request)
    if message.request_principal == queue_calls.ABOUT_QUEUES:
        return encode(request, await _about_queues(context, message))
    if message.request_principal == timer_calls.ABOUT_TIMERS:
        position = await context.engine.peer_handlers.answer(timer_calls.question_of(message))
        return encode(request, timer_calls.answer_to_wire(position))
    question = question_of(message)
    return encode(request, answer_to_wire(await context.engine.peer_handlers.answer(question)))


async def _about_queues(context: Context, message: EnvelopeRequest) -> EnvelopeResponse:
    question = queue_calls.question_of(message)
    try:
        answer = await context.engine.peer_handlers.answer(question)
    except MillpondError as error:
        return queue_calls.answer_to_wire(question, None, error)
    return queue_calls.answer_to_wire(question, answer)


HANDLER = Handler(
    api_key=ApiKey.ENVELOPE,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(EnvelopeResponse),
)
