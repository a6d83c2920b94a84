"""SaslAuthenticate: a listener without SASL has nothing to prove."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.sasl_authenticate import SaslAuthenticateResponse


def handle(_context: Context, request: Request) -> Result:
    decode(request)
    return encode(
        request,
        SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.SASL_AUTHENTICATE,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(SaslAuthenticateResponse),
)
