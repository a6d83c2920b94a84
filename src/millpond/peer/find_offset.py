"""``FindOffset`` as Kafka's ListOffsets; ``handlers/list_offsets.py`` answers it as it answers clients."""

from millpond.base.errors import InvalidRequest
from millpond.base.ids import Offset
from millpond.engine.peers import FindOffset
from millpond.peer.calls import ConnectionKind, PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


def to_wire(question: FindOffset) -> ListOffsetsRequest:
    topic, index = question.partition
    wanted = ListOffsetsPartition(partition_index=index, timestamp=question.place)
    # A client's question; only replicas that follow have a number here.
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )


def from_wire(question: FindOffset, answer: ListOffsetsResponse) -> Offset:
    for topic in answer.topics:
        for one in topic.partitions:
            if (topic.name, one.partition_index) == question.partition:
                raise_refusal(one.error_code)
                return one.offset
    raise InvalidRequest(f"the answer says nothing of {question.partition}")


CALL = PeerCall(
    kind=FindOffset,
    api_key=ApiKey.LIST_OFFSETS,
    version=9,
    to_wire=to_wire,
    from_wire=from_wire,
    connection=ConnectionKind.RECORDS,
)
