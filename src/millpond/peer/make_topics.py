"""``MakeTopics`` as Kafka's CreateTopics; ``handlers/create_topics.py`` answers it as it answers clients."""

from collections.abc import Sequence

from millpond.base import limits
from millpond.base.errors import NotController
from millpond.engine.api import CreateTopic, TopicResult
from millpond.engine.peers import MakeTopics
from millpond.peer.calls import PeerCall, refusal_of
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millpond.wire.kafka.primitives import NO_ID


def to_wire(question: MakeTopics) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[_topic(one) for one in question.commands],
        timeout_ms=limits.CONTROLLER_WAIT_MS_MAX,
    )


def _topic(command: CreateTopic) -> CreatableTopic:
    return CreatableTopic(
        name=command.name,
        num_partitions=command.partitions,
        replication_factor=command.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in command.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in command.configs.items()
        ],
    )


def from_wire(_question: MakeTopics, answer: CreateTopicsResponse) -> Sequence[TopicResult]:
    """What became of each topic. The topics themselves come with the metadata."""
    results = [
        TopicResult(
            name=one.name,
            topic_id=one.topic_id if one.topic_id != NO_ID else None,
            error=refusal_of(one.error_code, one.error_message),
        )
        for one in answer.topics
    ]
    for result in results:
        if isinstance(result.error, NotController):
            raise result.error
    return results


CALL = PeerCall(
    kind=MakeTopics,
    api_key=ApiKey.CREATE_TOPICS,
    version=7,
    to_wire=to_wire,
    from_wire=from_wire,
)
