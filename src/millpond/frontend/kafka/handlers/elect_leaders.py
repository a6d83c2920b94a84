"""ElectLeaders: where every partition has one replica, its leader is the preferred one already."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def handle(context: Context, request: Request) -> Result:
    message: ElectLeadersRequest = decode(request)
    known = context.engine.image.topics
    if message.topic_partitions is None:
        # Asked for all, only those are told of that had an election; none needs one.
        return encode(request, ElectLeadersResponse())
    results = []
    for asked in message.topic_partitions:
        topic = known.get(asked.topic)
        count = len(topic.partitions) if topic is not None else 0
        results.append(
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[_result(index, count) for index in asked.partitions],
            )
        )
    return encode(request, ElectLeadersResponse(replica_election_results=results))


def _result(index: int, count: int) -> PartitionResult:
    if not 0 <= index < count:
        return PartitionResult(
            partition_id=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message="This server does not host this topic-partition.",
        )
    return PartitionResult(
        partition_id=index,
        error_code=ErrorCode.ELECTION_NOT_NEEDED,
        error_message="Leader election not needed for topic partition.",
    )


HANDLER = Handler(
    api_key=ApiKey.ELECT_LEADERS,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(ElectLeadersResponse),
)
