"""DescribeConfigs: the settings of topics, brokers, groups and the rest, with where each value comes from."""

from collections.abc import Sequence

from millpond.base.errors import InvalidRequest, MillpondError
from millpond.engine.api import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigEntry,
    ConfigSource,
    Engine,
)
from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    without_repeats,
)
from millpond.frontend.kafka.loggers import check_node, logger_levels
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(context: Context, request: Request) -> Result:
    message: DescribeConfigsRequest = decode(request)
    asked = without_repeats(message.resources, _identity)
    results = [_describe(context.engine, message, one) for one in asked]
    return encode(request, DescribeConfigsResponse(results=results))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: DescribeConfigsRequest = decode(request)
    results = [_failed(one, code, None) for one in message.resources]
    return encode(request, DescribeConfigsResponse(results=results))


def _identity(resource: DescribeConfigsResource) -> tuple[int, str, frozenset[str]]:
    keys = frozenset(resource.configuration_keys or ())
    return resource.resource_type, resource.resource_name, keys


def _describe(
    engine: Engine, message: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    # An empty list of names means all of them, as null does.
    names = resource.configuration_keys or None
    try:
        if resource.resource_type == RESOURCE_TOPIC:
            entries = engine.settings_admin.describe_topic(resource.resource_name, names)
        elif resource.resource_type == RESOURCE_BROKER:
            entries = engine.settings_admin.describe_broker(resource.resource_name, names)
        elif resource.resource_type == RESOURCE_GROUP:
            entries = engine.settings_admin.describe_group(resource.resource_name, names)
        elif resource.resource_type == RESOURCE_CLIENT_METRICS:
            entries = engine.settings_admin.describe_client_metrics(resource.resource_name, names)
        elif resource.resource_type == RESOURCE_BROKER_LOGGER:
            return _loggers(engine, resource, names)
        else:
            raise InvalidRequest(f"Unsupported resource type: {resource.resource_type}")
    except MillpondError as error:
        return _failed(resource, code_of(error), str(error))
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(entry, message) for entry in entries],
    )


def _loggers(
    engine: Engine, resource: DescribeConfigsResource, names: Sequence[str] | None
) -> DescribeConfigsResult:
    if not resource.resource_name:
        raise InvalidRequest("Broker id must not be empty")
    check_node(resource.resource_name, engine.info.node_id, word="Broker")
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            DescribeConfigsResourceResult(name=name, value=level, config_source=ConfigSource.LOGGER)
            for name, level in logger_levels(names).items()
        ],
    )


def _entry(entry: ConfigEntry, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = []
    if message.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source)
            for one in entry.synonyms
        ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.definition.sensitive,
        synonyms=synonyms,
        config_type=entry.definition.type,
        documentation=entry.definition.explained if message.include_documentation else None,
    )


def _failed(
    resource: DescribeConfigsResource, code: ErrorCode, message: str | None
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_CONFIGS, min_version=1, max_version=4, handle=handle, refuse=refuse
)
