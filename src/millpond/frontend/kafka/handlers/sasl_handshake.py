"""SaslHandshake: a listener without SASL has no mechanism for clients; nodes prove what they are."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.peer.proof import MECHANISM, Answering, Place, nonce_from
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(context: Context, request: Request) -> Result:
    message: SaslHandshakeRequest = decode(request)
    secret = context.frontend.secret
    if message.mechanism != MECHANISM or secret is None or context.proof is not None:
        return encode(request, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
    engine = context.engine
    nonce = nonce_from(lambda: engine.runtime.rng.uuid4().bytes)
    frontend = context.frontend
    place = Place(context.local, own=frontend.own_addresses, shared=frontend.shared_addresses)
    node = engine.info
    context.proof = Answering(secret, node.node_id, node.cluster_id, nonce, at=place)
    return encode(request, SaslHandshakeResponse(mechanisms=[MECHANISM]))


HANDLER = Handler(
    api_key=ApiKey.SASL_HANDSHAKE,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse_whole(SaslHandshakeResponse),
)
