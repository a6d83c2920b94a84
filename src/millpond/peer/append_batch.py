"""``AppendBatch`` as Kafka's Produce; ``handlers/produce.py`` answers it as it answers clients."""

from millpond.base.errors import InvalidRequest
from millpond.base.ids import Offset
from millpond.engine.peers import AppendBatch
from millpond.peer.calls import ConnectionKind, PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


def to_wire(question: AppendBatch) -> ProduceRequest:
    data = PartitionProduceData(index=question.partition.partition, records=question.records)
    return ProduceRequest(
        acks=-1,
        timeout_ms=question.timeout_ms,
        topic_data=[TopicProduceData(topic_id=question.topic_id, partition_data=[data])],
    )


def from_wire(question: AppendBatch, answer: ProduceResponse) -> Offset:
    for topic in answer.responses:
        for one in topic.partition_responses:
            if (topic.topic_id, one.index) == (question.topic_id, question.partition.partition):
                raise_refusal(one.error_code, one.error_message)
                return one.base_offset
    raise InvalidRequest(f"the answer says nothing of {question.partition}")


CALL = PeerCall(
    kind=AppendBatch,
    api_key=ApiKey.PRODUCE,
    version=13,
    to_wire=to_wire,
    from_wire=from_wire,
    connection=ConnectionKind.RECORDS,
)
