"""ElectLeaders: give partitions to their first replica, or let any replica lead that is left."""

from collections.abc import Sequence

from millpond.engine.api import Election, ElectionResult
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

# The second came with version 1; the first is what there was before.
_ELECTIONS = {0: Election.PREFERRED, 1: Election.UNCLEAN}


async def handle(context: Context, request: Request) -> Payload:
    message: ElectLeadersRequest = decode(request)
    election = _ELECTIONS.get(message.election_type)
    if election is None:
        return _unknown_type(request, message)
    asked = message.topic_partitions
    targets = (
        None
        if asked is None
        else [(topic.topic, index) for topic in asked for index in topic.partitions]
    )
    results = await context.engine.admin.elect(election, targets)
    # Of all that were asked for a result is told; asked for all, every topic is named.
    names = (
        [topic.topic for topic in asked]
        if asked is not None
        else context.engine.metadata.image.topics
    )
    return encode(
        request,
        ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(topic=name, partition_result=_results(results, name))
                for name in dict.fromkeys(names)
            ]
        ),
    )


def _results(results: Sequence[ElectionResult], topic: str) -> list[PartitionResult]:
    return [
        PartitionResult(
            partition_id=one.partition,
            error_code=0 if one.error is None else code_of(one.error),
            error_message=None if one.error is None else str(one.error),
        )
        for one in results
        if one.topic == topic
    ]


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


HANDLER = Handler(
    api_key=ApiKey.ELECT_LEADERS,
    min_version=0,
    max_version=2,
    handle=handle,
    refuse=refuse_whole(ElectLeadersResponse),
)
