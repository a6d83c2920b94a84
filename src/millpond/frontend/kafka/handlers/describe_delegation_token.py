"""DescribeDelegationToken: only over a connection that proved who it is, which none here does."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.describe_delegation_token import DescribeDelegationTokenResponse


def handle(_context: Context, request: Request) -> Result:
    decode(request)
    return encode(
        request,
        DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    )


HANDLER = Handler(
    api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN,
    min_version=1,
    max_version=3,
    handle=handle,
    refuse=refuse_whole(DescribeDelegationTokenResponse),
)
