"""UnregisterBroker: a broker that is not coming back is forgotten; the only one cannot be."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(context: Context, request: Request) -> Result:
    message: UnregisterBrokerRequest = decode(request)
    if message.broker_id not in context.engine.image.brokers:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED
        reason = f"Broker ID {message.broker_id} is not currently registered"
    else:
        code = ErrorCode.POLICY_VIOLATION
        reason = f"broker {message.broker_id} is this cluster's only one, and it is running"
    return encode(request, UnregisterBrokerResponse(error_code=code, error_message=reason))


HANDLER = Handler(
    api_key=ApiKey.UNREGISTER_BROKER,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(UnregisterBrokerResponse),
)
