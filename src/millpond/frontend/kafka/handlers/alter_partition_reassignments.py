"""AlterPartitionReassignments: set partitions on their way to other nodes, or call them back."""

from millpond.engine.api import Reassignment
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(context: Context, request: Request) -> Payload:
    message: AlterPartitionReassignmentsRequest = decode(request)
    commands = [
        Reassignment(topic=topic.name, partition=one.partition_index, replicas=one.replicas)
        for topic in message.topics
        for one in topic.partitions
    ]
    errors = iter(
        await context.engine.admin.reassign(
            commands, allow_factor_change=message.allow_replication_factor_change
        )
    )
    responses = []
    for topic in message.topics:
        partitions = []
        for one in topic.partitions:
            error = next(errors)
            partitions.append(
                ReassignablePartitionResponse(
                    partition_index=one.partition_index,
                    error_code=0 if error is None else code_of(error),
                    error_message=None if error is None else str(error),
                )
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    return encode(
        request,
        AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=message.allow_replication_factor_change,
            error_message=None,
            responses=responses,
        ),
    )


HANDLER = Handler(
    api_key=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse_whole(AlterPartitionReassignmentsResponse),
)
