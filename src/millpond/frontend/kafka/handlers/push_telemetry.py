"""PushTelemetry: metrics of a client, counted (KIP-714)."""

from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.frontend.kafka.convert import client_words
from millpond.frontend.kafka.errors import code_of
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(context: Context, request: Request) -> Result:
    message: PushTelemetryRequest = decode(request)
    engine = context.engine
    try:
        engine.telemetry.push(
            UUID(bytes=message.client_instance_id.bytes),
            client_words(context, request),
            subscription_id=message.subscription_id,
            terminating=message.terminating,
            codec=message.compression_type,
            metrics=message.metrics,
            now_ms=engine.clock.monotonic_ms(),
        )
    except MillpondError as error:
        return encode(request, PushTelemetryResponse(error_code=code_of(error)))
    return encode(request, PushTelemetryResponse())


HANDLER = Handler(
    api_key=ApiKey.PUSH_TELEMETRY,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(PushTelemetryResponse),
)
