"""UpdateFeatures: bring the cluster's features to other levels (KIP-584, KIP-1022)."""

from millpond.base.errors import InvalidUpdateVersion
from millpond.engine.api import Direction, FeatureChange
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

# From this version on the answer has one word for all.
_WHOLE_ANSWER_FROM = 2


async def handle(context: Context, request: Request) -> Payload:
    message: UpdateFeaturesRequest = decode(request)
    changes = [
        FeatureChange(
            name=one.feature,
            level=one.max_version_level,
            direction=_direction(one, request.api_version),
        )
        for one in message.feature_updates
    ]
    only = message.validate_only and request.api_version >= 1
    try:
        await context.engine.admin.update_features(changes, validate_only=only)
    except InvalidUpdateVersion as error:
        reason = (
            f"The update failed for all features since the following feature had an error: {error}"
        )
        return encode(
            request, UpdateFeaturesResponse(error_code=code_of(error), error_message=reason)
        )
    results = []
    if request.api_version < _WHOLE_ANSWER_FROM:
        results = [
            UpdatableFeatureResult(feature=one.name, error_message="NONE") for one in changes
        ]
    return encode(request, UpdateFeaturesResponse(error_message=None, results=results))


def _direction(update: FeatureUpdateKey, version: int) -> Direction | None:
    if version == 0:
        # Kafka takes the old flag for an upgrade unless it is sent for one; so does the new field's default.
        return Direction.UPGRADE
    try:
        return Direction(update.upgrade_type)
    except ValueError:
        return None


HANDLER = Handler(
    api_key=ApiKey.UPDATE_FEATURES,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(UpdateFeaturesResponse),
)
