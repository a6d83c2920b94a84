"""DescribeClientQuotas: what users, client ids and addresses may use."""

from millpond.base.errors import InvalidRequest, MillpondError
from millpond.engine.api import QuotaFilter
from millpond.frontend.kafka.handler import Context, Handler, Payload, Result, decode, encode
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2


def handle(context: Context, request: Request) -> Result:
    message: DescribeClientQuotasRequest = decode(request)
    try:
        filters = [_filter(one) for one in message.components]
        found = context.engine.admin.find_quotas(filters, strict=message.strict)
    except MillpondError as error:
        return _failed(request, code_of(error), str(error))
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=value) for key, value in quotas.items()],
        )
        for entity, quotas in found
    ]
    return encode(request, DescribeClientQuotasResponse(error_message=None, entries=entries))


def refuse(request: Request, code: ErrorCode) -> Payload:
    return _failed(request, code, None)


def _failed(request: Request, code: ErrorCode, reason: str | None) -> Payload:
    return encode(
        request,
        DescribeClientQuotasResponse(error_code=code, error_message=reason, entries=None),
    )


def _filter(component: ComponentData) -> QuotaFilter:
    kind, match = component.entity_type, component.match
    if component.match_type == _EXACT:
        if match is None:
            raise InvalidRequest(
                "Request specified MATCH_TYPE_EXACT, but set match string to null."
            )
        return QuotaFilter(entity_type=kind, name=match)
    if component.match_type not in {_DEFAULT, _SPECIFIED}:
        raise InvalidRequest(f"Unknown match type {component.match_type}")
    if match is not None:
        word = "DEFAULT" if component.match_type == _DEFAULT else "SPECIFIED"
        raise InvalidRequest(
            f"Request specified MATCH_TYPE_{word}, but also specified a match string."
        )
    return QuotaFilter(entity_type=kind, any_name=component.match_type == _SPECIFIED)


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
)
