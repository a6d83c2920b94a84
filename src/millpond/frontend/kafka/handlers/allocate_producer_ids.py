"""AllocateProducerIds: a node gets a block of ids that no other node has."""

from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.peer.producer_ids import answer_to_wire, question_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.allocate_producer_ids import AllocateProducerIdsResponse


async def handle(context: Context, request: Request) -> Payload:
    question = question_of(decode(request))
    return encode(request, answer_to_wire(await context.engine.peer_handlers.answer(question)))


HANDLER = Handler(
    api_key=ApiKey.ALLOCATE_PRODUCER_IDS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(AllocateProducerIdsResponse),
)
