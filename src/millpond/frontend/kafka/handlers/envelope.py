"""Envelope: another node sends on a client's request that only the controller can carry out."""

from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.frontend.kafka.peers.envelope import answer_to_wire, question_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.envelope import EnvelopeResponse


async def handle(context: Context, request: Request) -> Payload:
    question = question_of(decode(request))
    return encode(request, answer_to_wire(await context.engine.desk.answer(question)))


HANDLER = Handler(
    api_key=ApiKey.ENVELOPE,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(EnvelopeResponse),
)
