"""A client's request that only the controller can carry out, sent on as it came: an Envelope (KIP-590)."""

from dataclasses import dataclass

from millpond.engine.peers import PeerRequest
from millpond.peer.calls import PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedRequest(PeerRequest[bytes]):
    """A client's whole request with its header; the answer is the whole response. ``client`` is where
    it came from."""

    request: bytes
    client: str


def to_wire(question: ForwardedRequest) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=question.request,
        request_principal=None,
        client_host_address=question.client.encode(),
    )


def question_of(message: EnvelopeRequest) -> ForwardedRequest:
    """What the message asks."""
    return ForwardedRequest(
        request=bytes(message.request_data),
        client=bytes(message.client_host_address).decode("utf-8", "replace"),
    )


def answer_to_wire(response: bytes) -> EnvelopeResponse:
    return EnvelopeResponse(response_data=response)


def from_wire(_question: ForwardedRequest, answer: EnvelopeResponse) -> bytes:
    raise_refusal(answer.error_code)
    return bytes(answer.response_data or b"")


CALL = PeerCall(
    kind=ForwardedRequest,
    api_key=ApiKey.ENVELOPE,
    version=0,
    to_wire=to_wire,
    from_wire=from_wire,
)
