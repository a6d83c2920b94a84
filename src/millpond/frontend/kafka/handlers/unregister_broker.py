"""UnregisterBroker: a broker that is not coming back is forgotten; the only one cannot be."""

from millpond.base.errors import MillpondError
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


async def handle(context: Context, request: Request) -> Payload:
    message: UnregisterBrokerRequest = decode(request)
    error: MillpondError | None = None
    try:
        await context.engine.admin.unregister(message.broker_id)
    except MillpondError as refused:
        error = refused
    return encode(
        request,
        UnregisterBrokerResponse(
            error_code=0 if error is None else code_of(error),
            error_message=None if error is None else str(error),
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.UNREGISTER_BROKER,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(UnregisterBrokerResponse),
)
