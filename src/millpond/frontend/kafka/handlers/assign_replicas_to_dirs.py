"""AssignReplicasToDirs: a node says in which of its log directories its replicas lie."""

from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.peer.assign_directories import answer_to_wire, question_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse


async def handle(context: Context, request: Request) -> Payload:
    question = question_of(decode(request))
    return encode(request, answer_to_wire(await context.engine.peer_handlers.answer(question)))


HANDLER = Handler(
    api_key=ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(AssignReplicasToDirsResponse),
)
