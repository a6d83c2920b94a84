"""PushTelemetry: metrics of a client, counted (KIP-714). Compressed ones are unpacked beside the loop."""

from functools import partial
from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.engine.api.limits import unpacked_size
from millpond.frontend.kafka.convert import client_labels
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(context: Context, request: Request) -> Result:
    message: PushTelemetryRequest = decode(request)
    engine = context.engine
    telemetry = engine.telemetry
    try:
        telemetry.admit(
            UUID(bytes=message.client_instance_id.bytes),
            client_labels(context, request),
            subscription_id=message.subscription_id,
            terminating=message.terminating,
            codec=message.compression_type,
            metrics=message.metrics,
            now_ms=engine.runtime.clock.monotonic_ms(),
        )
        if message.compression_type and len(message.metrics):
            return _unpack(context, request, message)
        telemetry.count(len(message.metrics))
    except MillpondError as error:
        return encode(request, PushTelemetryResponse(error_code=code_of(error)))
    return encode(request, PushTelemetryResponse())


async def _unpack(context: Context, request: Request, message: PushTelemetryRequest) -> Payload:
    engine = context.engine
    job = partial(unpacked_size, message.compression_type, message.metrics)
    try:
        engine.telemetry.count(await engine.runtime.offload.run(job))
    except MillpondError as error:
        engine.telemetry.refused += 1
        return encode(request, PushTelemetryResponse(error_code=code_of(error)))
    return encode(request, PushTelemetryResponse())


HANDLER = Handler(
    api_key=ApiKey.PUSH_TELEMETRY,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(PushTelemetryResponse),
)
