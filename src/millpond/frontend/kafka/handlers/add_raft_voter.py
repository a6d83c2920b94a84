"""AddRaftVoter: the metadata has one voter, and at kraft.version 0 the set of voters is fixed."""

from millpond.frontend.kafka.handler import Context, Handler, Result, decode, encode, refuse_whole
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


def handle(context: Context, request: Request) -> Result:
    message: AddRaftVoterRequest = decode(request)
    cluster_id = context.engine.node.cluster_id
    if message.cluster_id is not None and message.cluster_id != cluster_id:
        code = ErrorCode.INCONSISTENT_CLUSTER_ID
        reason = f"The given id {message.cluster_id!r} doesn't match the cluster id {cluster_id!r}"
    elif not message.listeners:
        code = ErrorCode.INVALID_REQUEST
        reason = "Add voter request didn't include the endpoint for the default listener"
    else:
        code = ErrorCode.UNSUPPORTED_VERSION
        reason = "Cluster doesn't support adding voter because the kraft.version feature is 0"
    return encode(request, AddRaftVoterResponse(error_code=code, error_message=reason))


HANDLER = Handler(
    api_key=ApiKey.ADD_RAFT_VOTER,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse_whole(AddRaftVoterResponse),
)
