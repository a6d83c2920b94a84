"""BrokerHeartbeat: a node is alive, and hears what the controller thinks of it."""

from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.peer.node_heartbeat import answer_to_wire, question_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatResponse


async def handle(context: Context, request: Request) -> Payload:
    question = question_of(decode(request))
    return encode(request, answer_to_wire(await context.engine.peer_handlers.answer(question)))


HANDLER = Handler(
    api_key=ApiKey.BROKER_HEARTBEAT,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse_whole(BrokerHeartbeatResponse),
)
