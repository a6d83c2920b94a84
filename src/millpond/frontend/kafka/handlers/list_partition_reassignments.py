"""ListPartitionReassignments: on one node no partition is ever on its way to another."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
)


def handle(_context: Context, request: Request) -> Result:
    decode(request)
    return encode(request, ListPartitionReassignmentsResponse(error_message=None))


HANDLER = Handler(
    api_key=ApiKey.LIST_PARTITION_REASSIGNMENTS,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(ListPartitionReassignmentsResponse),
)
