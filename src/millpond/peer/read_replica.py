"""``ReadReplica`` as Kafka's Fetch; ``handlers/fetch.py`` answers it as it answers clients."""

from millpond.base.errors import InvalidRequest
from millpond.engine.peers import ReadReplica
from millpond.peer.calls import ConnectionKind, PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)


def to_wire(question: ReadReplica) -> FetchRequest:
    wanted = FetchPartition(
        partition=question.partition.partition,
        current_leader_epoch=question.leader_epoch,
        fetch_offset=question.offset,
        partition_max_bytes=question.bytes_max,
    )
    # A consumer's Fetch, which any replica answers (KIP-392).
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=question.bytes_max,
        topics=[FetchTopic(topic_id=question.topic_id, partitions=[wanted])],
    )


def from_wire(question: ReadReplica, answer: FetchResponse) -> bytes | bytearray | memoryview:
    raise_refusal(answer.error_code)
    for topic in answer.responses:
        for one in topic.partitions:
            if (topic.topic_id, one.partition_index) == (
                question.topic_id,
                question.partition.partition,
            ):
                raise_refusal(one.error_code)
                return one.records if one.records is not None else b""
    raise InvalidRequest(f"the answer says nothing of {question.partition}")


CALL = PeerCall(
    kind=ReadReplica,
    api_key=ApiKey.FETCH,
    version=17,
    to_wire=to_wire,
    from_wire=from_wire,
    connection=ConnectionKind.REPAIRS,
)
