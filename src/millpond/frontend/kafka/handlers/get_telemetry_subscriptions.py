"""GetTelemetrySubscriptions: which metrics a client is asked to push (KIP-714)."""

from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.engine.api.limits import ACCEPTED_CODECS
from millpond.frontend.kafka.convert import client_labels
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(context: Context, request: Request) -> Result:
    message: GetTelemetrySubscriptionsRequest = decode(request)
    engine = context.engine
    client_id = UUID(bytes=message.client_instance_id.bytes)
    if not client_id.int:
        client_id = engine.runtime.rng.uuid4()
    telemetry = engine.telemetry
    try:
        client = telemetry.subscribe(
            client_id, client_labels(context, request), now_ms=engine.runtime.clock.monotonic_ms()
        )
    except MillpondError as error:
        return encode(request, GetTelemetrySubscriptionsResponse(error_code=code_of(error)))
    return encode(
        request,
        GetTelemetrySubscriptionsResponse(
            client_instance_id=client_id,
            subscription_id=client.subscription_id,
            accepted_compression_types=[int(one) for one in ACCEPTED_CODECS],
            push_interval_ms=client.subscription.interval_ms,
            telemetry_max_bytes=telemetry.bytes_max(),
            delta_temporality=True,
            requested_metrics=list(client.subscription.metrics),
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(GetTelemetrySubscriptionsResponse),
)
