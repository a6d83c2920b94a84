"""ElectLeaders: where every partition has one replica, its leader is the preferred one already."""

from millpond.frontend.kafka.handler import (
    Context,
    Handler,
    Payload,
    Result,
    decode,
    encode,
    refuse_whole,
)
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

# Preferred and unclean; the second came with version 1, and is the default of what came before.
_ELECTION_TYPES = frozenset({0, 1})


def handle(context: Context, request: Request) -> Result:
    message: ElectLeadersRequest = decode(request)
    if message.election_type not in _ELECTION_TYPES:
        return _unknown_type(request, message)
    known = context.engine.image.topics
    if message.topic_partitions is None:
        # Asked for all, only those partitions are told of that had an election; none needs one.
        nothing = [ReplicaElectionResult(topic=name) for name in known]
        return encode(request, ElectLeadersResponse(replica_election_results=nothing))
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


def _unknown_type(request: Request, message: ElectLeadersRequest) -> Payload:
    code = ErrorCode.INVALID_REQUEST
    reason = f"Unknown election type {message.election_type}"
    results = [
        ReplicaElectionResult(
            topic=asked.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=reason)
                for index in asked.partitions
            ],
        )
        for asked in message.topic_partitions or ()
    ]
    return encode(request, ElectLeadersResponse(error_code=code, replica_election_results=results))


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
