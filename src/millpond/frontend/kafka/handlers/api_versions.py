"""ApiVersions: what this broker speaks, made from the list of handlers and nothing else."""

import re
from typing import TYPE_CHECKING

from millpond.engine.api import SUPPORTED_FEATURES
from millpond.frontend.kafka.forwarding import newest_version
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    decode,
    encode,
    refuse_whole,
)
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from millpond.frontend.kafka.frontend import KafkaFrontend

# Old librdkafka takes compression support from the minimum of Produce, so Kafka announces 0 for it though it
# answers from 3 on (KAFKA-18659). So do we.
_ANNOUNCED_MINIMUM = {ApiKey.PRODUCE: 0}

# A broker without a subscription to metrics does not invite clients to push them.
_TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})

# Before this version clients take a feature that begins at 0 for an error (KIP-584's first reading), so they
# are not told of such.
_ZERO_MINIMUM_FROM = 4

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: Context, request: Request) -> Payload:
    message: ApiVersionsRequest = decode(request)
    if request.api_version >= 3 and not (
        _SOFTWARE_NAME.fullmatch(message.client_software_name)
        and _SOFTWARE_NAME.fullmatch(message.client_software_version)
    ):
        return encode(request, ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
    if request.api_version >= 3:
        context.software_name = message.client_software_name
        context.software_version = message.client_software_version
    features = context.engine.metadata.image.features
    lowest = 0 if request.api_version >= _ZERO_MINIMUM_FROM else 1
    response = ApiVersionsResponse(
        api_keys=_api_keys(context.frontend),
        supported_features=[
            SupportedFeatureKey(
                name=name,
                min_version=one.lowest,
                max_version=one.highest,
            )
            for name, one in SUPPORTED_FEATURES.items()
            if one.lowest >= lowest
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.items()
        ],
    )
    return encode(request, response)


def unsupported_version(frontend: "KafkaFrontend") -> Payload:
    """The answer to a version we do not know, in the one that every client can read (KIP-511)."""
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_api_keys(frontend)
    )
    return (APIS[ApiKey.API_VERSIONS].encode_response(response, 0),)


def _api_keys(frontend: "KafkaFrontend") -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=one.api_key,
            min_version=_ANNOUNCED_MINIMUM.get(one.api_key, one.min_version),
            max_version=newest_version(one, frontend.engine),
        )
        for one in sorted(frontend.handlers.values(), key=lambda one: one.api_key)
        if one.api_key not in _TELEMETRY or frontend.engine.telemetry.is_wanted
    ]


HANDLER = Handler(
    api_key=ApiKey.API_VERSIONS,
    min_version=0,
    max_version=4,
    handle=handle,
    refuse=refuse_whole(ApiVersionsResponse),
)
