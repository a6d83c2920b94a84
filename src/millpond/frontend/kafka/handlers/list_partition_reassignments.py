"""ListPartitionReassignments: the partitions that are on their way to other nodes."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(context: Context, request: Request) -> Result:
    message: ListPartitionReassignmentsRequest = decode(request)
    wanted = (
        None
        if message.topics is None
        else [(topic.name, topic.partition_indexes) for topic in message.topics]
    )
    topics: dict[str, OngoingTopicReassignment] = {}
    for name, index, partition in context.engine.admin.reassignments(wanted):
        topic = topics.setdefault(name, OngoingTopicReassignment(name=name, partitions=[]))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding),
                removing_replicas=list(partition.removing),
            )
        )
    return encode(
        request,
        ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values())),
    )


HANDLER = Handler(
    api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(ListPartitionReassignmentsResponse),
)
