"""CreateDelegationToken: only over a connection that proved who it is, which none here does."""

from millpond.frontend.kafka.convert import ANONYMOUS, USER
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


def handle(_context: Context, request: Request) -> Result:
    message: CreateDelegationTokenRequest = decode(request)
    named = bool(message.owner_principal_name)
    return encode(
        request,
        CreateDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            principal_type=(message.owner_principal_type or USER) if named else USER,
            principal_name=(message.owner_principal_name or ANONYMOUS) if named else ANONYMOUS,
            token_requester_principal_type=USER,
            token_requester_principal_name=ANONYMOUS,
            issue_timestamp_ms=-1,
            expiry_timestamp_ms=-1,
            max_timestamp_ms=-1,
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.CREATE_DELEGATION_TOKEN,
    min_version=1,
    max_version=3,
    handle=handle,
    refuse=refuse_whole(CreateDelegationTokenResponse),
)
