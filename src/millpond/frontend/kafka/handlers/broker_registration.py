"""BrokerRegistration: a node wants to take part; only the controller can let it."""

from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.peer.register_node import answer_to_wire, question_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.broker_registration import BrokerRegistrationResponse


async def handle(context: Context, request: Request) -> Payload:
    question = question_of(decode(request))
    return encode(request, answer_to_wire(await context.engine.peer_handlers.answer(question)))


HANDLER = Handler(
    api_key=ApiKey.BROKER_REGISTRATION,
    min_version=0,
    max_version=4,
    handle=handle,
    refuse=refuse_whole(BrokerRegistrationResponse),
)
