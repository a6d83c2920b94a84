"""InitProducerId: an identity for an idempotent producer, or the next one of a transactional id."""

from millpond.base.errors import InvalidRequest, MillpondError
from millpond.engine.coordinators.transactions import Identity, InitProducer
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    decode,
    encode,
    refuse_whole,
)
from millpond.frontend.kafka.transactions import fenced_code
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_FENCED_FROM = 4


async def handle(context: Context, request: Request) -> Payload:
    message: InitProducerIdRequest = decode(request)
    try:
        producer_id, epoch = await _identity(context, message)
    except MillpondError as error:
        code = fenced_code(error, version=request.api_version, fenced_from=_FENCED_FROM)
        return encode(
            request, InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        )
    return encode(request, InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))


async def _identity(context: Context, message: InitProducerIdRequest) -> Identity:
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        raise InvalidRequest("a producer id and an epoch come together or not at all")
    if message.transactional_id is None:
        return Identity(*await context.engine.init_producer_id())
    return await context.engine.transactions.init(
        InitProducer(
            transactional_id=message.transactional_id,
            timeout_ms=message.transaction_timeout_ms,
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
        )
    )


HANDLER = Handler(
    api_key=ApiKey.INIT_PRODUCER_ID,
    min_version=0,
    max_version=5,
    handle=handle,
    refuse=refuse_whole(InitProducerIdResponse),
)
