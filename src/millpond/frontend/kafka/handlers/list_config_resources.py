"""ListConfigResources (KIP-1142): which topics, brokers and groups have settings. Version 0 asks for client
metrics only.
"""

from millpond.engine.api import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_SUPPORTED = frozenset(
    {
        RESOURCE_TOPIC,
        RESOURCE_BROKER,
        RESOURCE_BROKER_LOGGER,
        RESOURCE_CLIENT_METRICS,
        RESOURCE_GROUP,
    }
)


def handle(context: Context, request: Request) -> Result:
    message: ListConfigResourcesRequest = decode(request)
    wanted = set(message.resource_types) or _SUPPORTED
    if request.api_version == 0:
        wanted = {RESOURCE_CLIENT_METRICS}
    if not wanted <= _SUPPORTED:
        return encode(
            request, ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        )
    engine = context.engine
    found: list[ConfigResource] = []
    if RESOURCE_TOPIC in wanted:
        found += [
            ConfigResource(resource_name=name, resource_type=RESOURCE_TOPIC)
            for name in engine.metadata.image.topics
        ]
    for kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER):
        if kind in wanted:
            name = str(engine.info.node_id)
            found.append(ConfigResource(resource_name=name, resource_type=kind))
    found += [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind, name in engine.metadata.image.configs
        if kind in wanted and kind in {RESOURCE_GROUP, RESOURCE_CLIENT_METRICS}
    ]
    return encode(request, ListConfigResourcesResponse(config_resources=found))


HANDLER = Handler(
    api_key=ApiKey.LIST_CONFIG_RESOURCES,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse_whole(ListConfigResourcesResponse),
)
