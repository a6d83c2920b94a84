"""InitProducerId: an identity for an idempotent producer. Transactional ones come with transactions."""

from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    decode,
    encode,
    refuse_whole,
)
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)


async def handle(context: Context, request: Request) -> Payload:
    message: InitProducerIdRequest = decode(request)
    producer_id, epoch = await context.engine.init_producer_id(message.transactional_id)
    return encode(request, InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))


HANDLER = Handler(
    api_key=ApiKey.INIT_PRODUCER_ID,
    min_version=0,
    max_version=5,
    handle=handle,
    refuse=refuse_whole(InitProducerIdResponse),
)
