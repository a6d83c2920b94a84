"""AddRaftVoter: one more replica votes (KIP-853). It must follow the log closely before it does.

Voters connect to the addresses that it names and prove to them what they are. So a client is not believed
that a node is at an address: the node has registered it, or proves that it is there.
"""

import asyncio
from uuid import UUID

from millpond.base.errors import InvalidRequest, MillpondError, NotLeader, RequestTimedOut
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.frontend.kafka.quorum import check_changeable, check_cluster
from millpond.raft.messages import ReplicaKey
from millpond.raft.voters import Endpoint, Voter
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.error_codes import code_of
from millpond.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

_NO_ID = UUID(int=0)


async def handle(context: Context, request: Request) -> Payload:
    message: AddRaftVoterRequest = decode(request)
    code, reason = ErrorCode.NONE, None
    try:
        await _add(context, message)
    except MillpondError as error:
        code, reason = code_of(error), str(error)
    return encode(request, AddRaftVoterResponse(error_code=code, error_message=reason))


async def _add(context: Context, message: AddRaftVoterRequest) -> None:
    check_cluster(context, message.cluster_id)
    host = context.engine.metadata.quorum
    if not host.is_active:
        raise NotLeader("only the leader of the quorum changes its voters")
    if message.voter_id < 0 or message.voter_directory_id == _NO_ID:
        raise InvalidRequest("Add voter request didn't include a valid voter")
    if not message.listeners:
        raise InvalidRequest(
            "Add voter request didn't include the endpoint for the default listener"
        )
    check_changeable(context, "adding")
    voter = Voter(
        key=ReplicaKey(message.voter_id, message.voter_directory_id),
        endpoints=tuple(Endpoint(one.name, one.host, one.port) for one in message.listeners),
    )
    try:
        async with asyncio.timeout(max(message.timeout_ms, 0) / 1000):
            if not context.is_believed:
                addresses = [(one.host, one.port) for one in voter.endpoints]
                await context.engine.admin.check_voter(voter.key.id, addresses)
            await _say_where(context)
            await host.add_voter(voter, until_agreed=message.ack_when_committed)
    except TimeoutError:
        raise RequestTimedOut("the new voter was not agreed on in time; it may still be") from None


async def _say_where(context: Context) -> None:
    """A node that was started alone votes from nowhere; the others have to find it."""
    engine, host = context.engine, context.engine.metadata.quorum
    own = host.voters.get(host.key.id)
    if own is not None and not own.endpoints:
        points = engine.info.end_points.values()
        endpoints = tuple(Endpoint(one.name, one.host, one.port) for one in points)
        await host.update_voter(Voter(key=host.key, endpoints=endpoints))


HANDLER = Handler(
    api_key=ApiKey.ADD_RAFT_VOTER,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse_whole(AddRaftVoterResponse),
)
