"""``AlterInSync`` as Kafka's AlterPartition."""

from collections.abc import Sequence
from itertools import groupby
from uuid import UUID

from millpond.engine.peers import AlterInSync, InSyncChange, InSyncResult
from millpond.peer.calls import PeerCall, raise_refusal, refusal_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    PartitionResult,
    TopicData,
    TopicResult,
)

NO_EPOCH = -1


def to_wire(question: AlterInSync) -> AlterPartitionRequest:
    return AlterPartitionRequest(
        broker_id=question.node_id,
        broker_epoch=question.broker_epoch,
        topics=[
            TopicData(topic_id=topic_id, partitions=[_partition(one) for one in changes])
            for topic_id, changes in groupby(sorted(question.changes, key=_topic_of), key=_topic_of)
        ],
    )


def _topic_of(change: InSyncChange | InSyncResult) -> UUID:
    return change.topic_id


def _partition(change: InSyncChange) -> PartitionData:
    epochs = change.broker_epochs or (NO_EPOCH,) * len(change.isr)
    return PartitionData(
        partition_index=change.partition,
        leader_epoch=change.leader_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=node, broker_epoch=epoch)
            for node, epoch in zip(change.isr, epochs, strict=True)
        ],
        partition_epoch=change.partition_epoch,
    )


def question_of(message: AlterPartitionRequest) -> AlterInSync:
    """What the message asks. Before version 3 nodes were named without their epochs."""
    return AlterInSync(
        node_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        changes=tuple(
            InSyncChange(
                topic_id=topic.topic_id,
                partition=one.partition_index,
                leader_epoch=one.leader_epoch,
                partition_epoch=one.partition_epoch,
                isr=tuple(state.broker_id for state in one.new_isr_with_epochs)
                or tuple(one.new_isr),
                broker_epochs=tuple(state.broker_epoch for state in one.new_isr_with_epochs),
            )
            for topic in message.topics
            for one in topic.partitions
        ),
    )


def answer_to_wire(results: Sequence[InSyncResult]) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=[
            TopicResult(topic_id=topic_id, partitions=[_result(one) for one in of_topic])
            for topic_id, of_topic in groupby(sorted(results, key=_topic_of), key=_topic_of)
        ]
    )


def _result(result: InSyncResult) -> PartitionResult:
    if result.error is not None:
        return PartitionResult(partition_index=result.partition, error_code=code_of(result.error))
    return PartitionResult(
        partition_index=result.partition,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=list(result.isr),
        partition_epoch=result.partition_epoch,
    )


def from_wire(_question: AlterInSync, answer: AlterPartitionResponse) -> Sequence[InSyncResult]:
    raise_refusal(answer.error_code)
    results = []
    for topic in answer.topics:
        for one in topic.partitions:
            error = refusal_of(one.error_code)
            if error is not None:
                results.append(
                    InSyncResult(
                        topic_id=topic.topic_id, partition=one.partition_index, error=error
                    )
                )
                continue
            results.append(
                InSyncResult(
                    topic_id=topic.topic_id,
                    partition=one.partition_index,
                    leader=one.leader_id,
                    leader_epoch=one.leader_epoch,
                    partition_epoch=one.partition_epoch,
                    isr=tuple(one.isr),
                )
            )
    return results


CALL = PeerCall(
    kind=AlterInSync,
    api_key=ApiKey.ALTER_PARTITION,
    version=3,
    to_wire=to_wire,
    from_wire=from_wire,
)
