"""``AllocateProducerIds`` as Kafka's API of that name."""

from millpond.engine.peers import AllocateProducerIds
from millpond.peer.calls import PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


def to_wire(question: AllocateProducerIds) -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(
        broker_id=question.node_id, broker_epoch=question.broker_epoch
    )


def question_of(message: AllocateProducerIdsRequest) -> AllocateProducerIds:
    """What the message asks."""
    return AllocateProducerIds(node_id=message.broker_id, broker_epoch=message.broker_epoch)


def answer_to_wire(block: range) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


def from_wire(_question: AllocateProducerIds, answer: AllocateProducerIdsResponse) -> range:
    raise_refusal(answer.error_code)
    return range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)


CALL = PeerCall(
    kind=AllocateProducerIds,
    api_key=ApiKey.ALLOCATE_PRODUCER_IDS,
    version=0,
    to_wire=to_wire,
    from_wire=from_wire,
)
