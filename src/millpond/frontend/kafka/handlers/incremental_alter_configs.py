"""IncrementalAlterConfigs: set, delete, append to and subtract from single settings."""

from collections.abc import Sequence

from millpond.base.errors import InvalidConfig, InvalidRequest
from millpond.engine.api import RESOURCE_BROKER_LOGGER, AlterConfigs, AlterOp, ConfigResult
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.frontend.kafka.loggers import alter_loggers, check_node
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(context: Context, request: Request) -> Payload:
    message: IncrementalAlterConfigsRequest = decode(request)
    commands: list[AlterConfigs] = []
    # Loggers and what is no command at all are settled here; the rest is the engine's.
    done: list[ConfigResult] = []
    for resource in message.resources:
        try:
            command = _command(resource)
            if resource.resource_type == RESOURCE_BROKER_LOGGER:
                check_node(resource.resource_name, context.engine.info.node_id)
                alter_loggers(command.operations, validate_only=message.validate_only)
                done.append(
                    ConfigResult(
                        resource_type=resource.resource_type, resource_name=resource.resource_name
                    )
                )
            else:
                commands.append(command)
        except (InvalidRequest, InvalidConfig) as error:
            done.append(
                ConfigResult(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    error=error,
                )
            )
    results = await context.engine.settings_admin.alter_configs(
        commands, validate_only=message.validate_only
    )
    return _answer(request, [*results, *done])


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: IncrementalAlterConfigsRequest = decode(request)
    responses = [
        AlterConfigsResourceResponse(
            error_code=code,
            error_message=None,
            resource_type=one.resource_type,
            resource_name=one.resource_name,
        )
        for one in message.resources
    ]
    return encode(request, IncrementalAlterConfigsResponse(responses=responses))


def _command(resource: AlterConfigsResource) -> AlterConfigs:
    operations = []
    for one in resource.configs:
        try:
            operation = AlterOp(one.config_operation)
        except ValueError:
            raise InvalidRequest(f"Unknown operation type {one.config_operation}") from None
        operations.append((one.name, operation, one.value))
    return AlterConfigs(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        operations=operations,
    )


def _answer(request: Request, results: Sequence[ConfigResult]) -> Payload:
    responses = [
        AlterConfigsResourceResponse(
            error_code=0 if one.error is None else code_of(one.error),
            error_message=None if one.error is None else str(one.error),
            resource_type=one.resource_type,
            resource_name=one.resource_name,
        )
        for one in results
    ]
    return encode(request, IncrementalAlterConfigsResponse(responses=responses))


HANDLER = Handler(
    api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
)
