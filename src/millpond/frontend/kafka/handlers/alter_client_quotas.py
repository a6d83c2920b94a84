"""AlterClientQuotas: set and remove what users, client ids and addresses may use."""

from millpond.engine.api import AlterQuotas, QuotaResult
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryResult,
)


async def handle(context: Context, request: Request) -> Payload:
    message: AlterClientQuotasRequest = decode(request)
    commands = [
        AlterQuotas(
            entity=[(one.entity_type, one.entity_name) for one in entry.entity],
            values=[(one.key, None if one.remove else one.value) for one in entry.ops],
        )
        for entry in message.entries
    ]
    results = await context.engine.admin.alter_quotas(commands, validate_only=message.validate_only)
    return encode(request, AlterClientQuotasResponse(entries=[_result(one) for one in results]))


def refuse(request: Request, code: ErrorCode) -> Payload:
    message: AlterClientQuotasRequest = decode(request)
    entries = [
        EntryResult(error_code=code, error_message=None, entity=entry.entity)
        for entry in message.entries
    ]
    return encode(request, AlterClientQuotasResponse(entries=entries))


def _result(result: QuotaResult) -> EntryResult:
    error = result.error
    return EntryResult(
        error_code=0 if error is None else code_of(error),
        error_message=None if error is None else str(error),
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in result.entity],
    )


HANDLER = Handler(
    api_key=ApiKey.ALTER_CLIENT_QUOTAS, min_version=0, max_version=1, handle=handle, refuse=refuse
)
