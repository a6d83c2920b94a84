"""SaslHandshake: a listener without SASL has no mechanism to choose."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.sasl_handshake import SaslHandshakeResponse


def handle(_context: Context, request: Request) -> Result:
    decode(request)
    return encode(request, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


HANDLER = Handler(
    api_key=ApiKey.SASL_HANDSHAKE,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse_whole(SaslHandshakeResponse),
)
