"""``FindOffset`` as Kafka's ListOffsets, ``AppendBatch`` as its Produce and ``ReadReplica`` as its Fetch.

All are answered as a client is: ``handlers/list_offsets.py``, ``handlers/produce.py``, ``handlers/fetch.py``.
"""

from millpond.base.errors import InvalidRequest
from millpond.base.ids import Offset
from millpond.engine.peers import AppendBatch, FindOffset, ReadReplica
from millpond.frontend.kafka.peers.call import ConnectionKind, PeerCall, raise_refusal
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from millpond.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from millpond.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


def find_to_wire(question: FindOffset) -> ListOffsetsRequest:
    topic, index = question.partition
    wanted = ListOffsetsPartition(partition_index=index, timestamp=question.place)
    # A client's question; only replicas that follow have a number here.
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )


def find_from_wire(question: FindOffset, answer: ListOffsetsResponse) -> Offset:
    for topic in answer.topics:
        for one in topic.partitions:
            if (topic.name, one.partition_index) == question.partition:
                raise_refusal(one.error_code)
                return one.offset
    raise InvalidRequest(f"the answer says nothing of {question.partition}")


def append_to_wire(question: AppendBatch) -> ProduceRequest:
    data = PartitionProduceData(index=question.partition.partition, records=question.records)
    return ProduceRequest(
        acks=-1,
        timeout_ms=question.timeout_ms,
        topic_data=[TopicProduceData(topic_id=question.topic_id, partition_data=[data])],
    )


def append_from_wire(question: AppendBatch, answer: ProduceResponse) -> Offset:
    for topic in answer.responses:
        for one in topic.partition_responses:
            if (topic.topic_id, one.index) == (question.topic_id, question.partition.partition):
                raise_refusal(one.error_code, one.error_message)
                return one.base_offset
    raise InvalidRequest(f"the answer says nothing of {question.partition}")


def read_to_wire(question: ReadReplica) -> FetchRequest:
    wanted = FetchPartition(
        partition=question.partition.partition,
        current_leader_epoch=question.leader_epoch,
        fetch_offset=question.offset,
        partition_max_bytes=question.bytes_max,
    )
    # A client's question, as above, which may be asked at any replica (KIP-392).
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=question.bytes_max,
        topics=[FetchTopic(topic_id=question.topic_id, partitions=[wanted])],
    )


def read_from_wire(question: ReadReplica, answer: FetchResponse) -> bytes | bytearray | memoryview:
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


CALLS = (
    PeerCall(
        kind=FindOffset,
        api_key=ApiKey.LIST_OFFSETS,
        version=9,
        to_wire=find_to_wire,
        from_wire=find_from_wire,
        lane=ConnectionKind.RECORDS,
    ),
    PeerCall(
        kind=AppendBatch,
        api_key=ApiKey.PRODUCE,
        version=13,
        to_wire=append_to_wire,
        from_wire=append_from_wire,
        lane=ConnectionKind.RECORDS,
    ),
    PeerCall(
        kind=ReadReplica,
        api_key=ApiKey.FETCH,
        version=17,
        to_wire=read_to_wire,
        from_wire=read_from_wire,
        lane=ConnectionKind.REPAIRS,
    ),
)
