"""SaslAuthenticate: the rounds of a node's proof; without SASL clients have nothing to prove."""

from millpond.base.errors import RemoteProtocolError, WrongCluster
from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.frontend.kafka.quorum import complain_of_cluster
from millpond.peer.proof import Answering, ProofFailed, WrongDestination
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(context: Context, request: Request) -> Result:
    message: SaslAuthenticateRequest = decode(request)
    proof = context.proof
    if proof is None or proof.is_over:
        return encode(
            request,
            SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
            ),
        )
    try:
        answer = proof.answer(bytes(message.auth_bytes))
    except WrongCluster as error:
        complain_of_cluster(context, proof.cluster_id)
        return _refusal(request, ErrorCode.INCONSISTENT_CLUSTER_ID, error)
    except (ProofFailed, RemoteProtocolError) as error:
        _complain(context, proof, error)
        return _refusal(request, ErrorCode.SASL_AUTHENTICATION_FAILED, error)
    if proof.is_proved:
        context.is_node = True
        context.session.become_node()
    return encode(request, SaslAuthenticateResponse(error_message=None, auth_bytes=answer))


def _refusal(request: Request, code: ErrorCode, error: Exception) -> Result:
    return encode(request, SaslAuthenticateResponse(error_code=code, error_message=str(error)))


def _complain(context: Context, proof: Answering, error: Exception) -> None:
    host = context.peer.rpartition(":")[0]
    if isinstance(error, WrongDestination):
        context.frontend.complaints.say(
            "peer=%s listener=%s: refused, as a client may have relayed what node %d said to it: %s",
            context.peer,
            context.listener,
            proof.asker,
            error,
            about=("relayed", proof.asker, host),
        )
        return
    context.frontend.complaints.say(
        "peer=%s listener=%s: says that it is node %d of this cluster and cannot prove it: %s. Give every "
        "node the same cluster.secret (`millpond node secret` shows this node's)",
        context.peer,
        context.listener,
        proof.asker,
        error,
        about=("proof", proof.asker, host),
    )


HANDLER = Handler(
    api_key=ApiKey.SASL_AUTHENTICATE,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(SaslAuthenticateResponse),
)
