"""AlterPartition: a leader says who is in sync."""

from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.peer.alter_in_sync import answer_to_wire, question_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.alter_partition import AlterPartitionResponse


async def handle(context: Context, request: Request) -> Payload:
    question = question_of(decode(request))
    return encode(request, answer_to_wire(await context.engine.peer_handlers.answer(question)))


HANDLER = Handler(
    api_key=ApiKey.ALTER_PARTITION,
    min_version=2,
    max_version=3,
    handle=handle,
    refuse=refuse_whole(AlterPartitionResponse),
)
