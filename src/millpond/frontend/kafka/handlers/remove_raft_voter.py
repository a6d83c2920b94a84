"""RemoveRaftVoter: the metadata has one voter, and at kraft.version 0 the set of voters is fixed."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)


def handle(context: Context, request: Request) -> Result:
    message: RemoveRaftVoterRequest = decode(request)
    cluster_id = context.engine.node.cluster_id
    if message.cluster_id is not None and message.cluster_id != cluster_id:
        code = ErrorCode.INCONSISTENT_CLUSTER_ID
        reason = f"The given id {message.cluster_id!r} doesn't match the cluster id {cluster_id!r}"
    else:
        code = ErrorCode.UNSUPPORTED_VERSION
        reason = "Cluster doesn't support removing voter because the kraft.version feature is 0"
    return encode(request, RemoveRaftVoterResponse(error_code=code, error_message=reason))


HANDLER = Handler(
    api_key=ApiKey.REMOVE_RAFT_VOTER,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(RemoveRaftVoterResponse),
)
