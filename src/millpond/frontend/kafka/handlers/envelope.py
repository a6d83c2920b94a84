"""Envelope: a client's request that another node sent on, or a call that Kafka has no API for."""

from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.peer.forwarded_request import answer_to_wire, question_of
from millpond.peer.own_calls import OWN_CALLS_PRINCIPAL
from millpond.peer.table import OWN_CALLS
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.envelope import EnvelopeResponse


async def handle(context: Context, request: Request) -> Payload:
    message = decode(request)
    handlers = context.engine.peer_handlers
    if message.request_principal == OWN_CALLS_PRINCIPAL:
        return encode(request, await OWN_CALLS.answer(message, handlers))
    question = question_of(message)
    return encode(request, answer_to_wire(await handlers.answer(question)))


HANDLER = Handler(
    api_key=ApiKey.ENVELOPE,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(EnvelopeResponse),
)
