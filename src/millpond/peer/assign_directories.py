"""``AssignDirectories`` as Kafka's AssignReplicasToDirs."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from millpond.base.errors import MillpondError
from millpond.engine.peers import AssignDirectories, ReplicaPlace
from millpond.peer.calls import PeerCall, raise_refusal, refusal_of
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    DirectoryResult,
    PartitionData,
    PartitionResult,
    TopicData,
    TopicResult,
)


def to_wire(question: AssignDirectories) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(
        broker_id=question.node_id,
        broker_epoch=question.broker_epoch,
        directories=[
            DirectoryData(
                id=directory,
                topics=[
                    TopicData(
                        topic_id=topic_id,
                        partitions=[PartitionData(partition_index=index) for index in indexes],
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory, topics in _nested(question.places).items()
        ],
    )


def question_of(message: AssignReplicasToDirsRequest) -> AssignDirectories:
    """What the message asks."""
    return AssignDirectories(
        node_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        places=tuple(
            ReplicaPlace(
                directory=directory.id, topic_id=topic.topic_id, partition=one.partition_index
            )
            for directory in message.directories
            for topic in directory.topics
            for one in topic.partitions
        ),
    )


def answer_to_wire(
    answer: Mapping[ReplicaPlace, MillpondError | None],
) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(
        directories=[
            DirectoryResult(
                id=directory,
                topics=[
                    TopicResult(
                        topic_id=topic_id,
                        partitions=[
                            PartitionResult(
                                partition_index=index,
                                error_code=_code(
                                    answer[
                                        ReplicaPlace(
                                            directory=directory, topic_id=topic_id, partition=index
                                        )
                                    ]
                                ),
                            )
                            for index in indexes
                        ],
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory, topics in _nested(answer).items()
        ]
    )


def from_wire(
    _question: AssignDirectories, answer: AssignReplicasToDirsResponse
) -> Mapping[ReplicaPlace, MillpondError | None]:
    raise_refusal(answer.error_code)
    return {
        ReplicaPlace(
            directory=directory.id, topic_id=topic.topic_id, partition=one.partition_index
        ): refusal_of(one.error_code)
        for directory in answer.directories
        for topic in directory.topics
        for one in topic.partitions
    }


def _nested(places: Iterable[ReplicaPlace]) -> dict[UUID, dict[UUID, dict[int, None]]]:
    """Directory, topic and partition; each named once, in the order given."""
    nested: dict[UUID, dict[UUID, dict[int, None]]] = {}
    for one in places:
        nested.setdefault(one.directory, {}).setdefault(one.topic_id, {})[one.partition] = None
    return nested


def _code(error: MillpondError | None) -> int:
    return ErrorCode.NONE if error is None else code_of(error)


CALL = PeerCall(
    kind=AssignDirectories,
    api_key=ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    version=0,
    to_wire=to_wire,
    from_wire=from_wire,
)
