"""UpdateRaftVoter: a voter is found at other addresses than the log says (KIP-853)."""

from uuid import UUID

from millpond.base.errors import FencedLeaderEpoch, InvalidRequest, MillpondError, NotLeader
from millpond.base.errors import UnknownLeaderEpoch as NewerEpoch
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.frontend.kafka.quorum import check_cluster, leader_address
from millpond.raft.messages import ReplicaKey
from millpond.raft.voters import Endpoint, Voter
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

_NO_ID = UUID(int=0)


async def handle(context: Context, request: Request) -> Payload:
    message: UpdateRaftVoterRequest = decode(request)
    code = ErrorCode.NONE
    try:
        await _update(context, message)
    except MillpondError as error:
        code = code_of(error)
    host = context.engine.metadata.quorum
    leader = CurrentLeader(leader_epoch=host.leader_epoch)
    found = leader_address(context, host.leader_id)
    if found is not None:
        leader.leader_id, leader.host, leader.port = found
    return encode(request, UpdateRaftVoterResponse(error_code=code, current_leader=leader))


async def _update(context: Context, message: UpdateRaftVoterRequest) -> None:
    check_cluster(context, message.cluster_id)
    host = context.engine.metadata.quorum
    if message.current_leader_epoch < host.leader_epoch:
        raise FencedLeaderEpoch("the epoch is over")
    if message.current_leader_epoch > host.leader_epoch:
        raise NewerEpoch("the epoch has not been heard of here")
    if not host.is_active:
        raise NotLeader("only the leader of the quorum changes its voters")
    spoken = message.kraft_version_feature
    if (
        message.voter_id < 0
        or message.voter_directory_id == _NO_ID
        or not message.listeners
        or not 0 <= spoken.min_supported_version <= spoken.max_supported_version
    ):
        raise InvalidRequest(
            "a voter has a number, a directory, a listener and a range of versions"
        )
    await host.update_voter(
        Voter(
            key=ReplicaKey(message.voter_id, message.voter_directory_id),
            endpoints=tuple(Endpoint(one.name, one.host, one.port) for one in message.listeners),
        )
    )


HANDLER = Handler(
    api_key=ApiKey.UPDATE_RAFT_VOTER,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse_whole(UpdateRaftVoterResponse),
)
