"""AlterConfigs, the old form: what is not named goes back to its default."""

from millpond.engine.api import AlterConfigs, AlterOp, ConfigResult
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(context: Context, request: Request) -> Payload:
    message: AlterConfigsRequest = decode(request)
    commands = [
        AlterConfigs(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            operations=[(one.name, AlterOp.SET, one.value) for one in resource.configs],
            replace=True,
        )
        for resource in message.resources
    ]
    results = await context.engine.settings_admin.alter_configs(
        commands, validate_only=message.validate_only
    )
    return encode(request, AlterConfigsResponse(responses=[_result(one) for one in results]))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: AlterConfigsRequest = decode(request)
    responses = [
        AlterConfigsResourceResponse(
            error_code=code,
            error_message=None,
            resource_type=one.resource_type,
            resource_name=one.resource_name,
        )
        for one in message.resources
    ]
    return encode(request, AlterConfigsResponse(responses=responses))


def _result(result: ConfigResult) -> AlterConfigsResourceResponse:
    error = result.error
    return AlterConfigsResourceResponse(
        error_code=0 if error is None else code_of(error),
        error_message=None if error is None else str(error),
        resource_type=result.resource_type,
        resource_name=result.resource_name,
    )


HANDLER = Handler(
    api_key=ApiKey.ALTER_CONFIGS, min_version=0, max_version=2, handle=handle, refuse=refuse
)
