"""RemoveRaftVoter: one replica fewer votes (KIP-853). A leader that is removed stops when that is agreed."""

from uuid import UUID

from millpond.base.errors import InvalidRequest, MillpondError, NotLeader
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.frontend.kafka.quorum import check_changeable, check_cluster
from millpond.raft.messages import ReplicaKey
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

_NO_ID = UUID(int=0)


async def handle(context: Context, request: Request) -> Payload:
    message: RemoveRaftVoterRequest = decode(request)
    code, reason = ErrorCode.NONE, None
    try:
        await _remove(context, message)
    except MillpondError as error:
        code, reason = code_of(error), str(error)
    return encode(request, RemoveRaftVoterResponse(error_code=code, error_message=reason))


async def _remove(context: Context, message: RemoveRaftVoterRequest) -> None:
    check_cluster(context, message.cluster_id)
    host = context.engine.metadata.quorum
    if not host.is_active:
        raise NotLeader("only the leader of the quorum changes its voters")
    voter = host.voters.get(message.voter_id)
    # Voters that come from settings have no directory until one is changed; the node is enough then.
    is_unnamed = voter is not None and voter.key.directory is None
    directory = message.voter_directory_id if message.voter_directory_id != _NO_ID else None
    if message.voter_id < 0 or (directory is None and not is_unnamed):
        raise InvalidRequest("Remove voter request didn't include a valid voter")
    check_changeable(context, "removing")
    await host.remove_voter(ReplicaKey(message.voter_id, directory))


HANDLER = Handler(
    api_key=ApiKey.REMOVE_RAFT_VOTER,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(RemoveRaftVoterResponse),
)
