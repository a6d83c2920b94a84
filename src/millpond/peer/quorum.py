"""The quorum's requests and answers as Kafka's Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot.

One partition, ``__cluster_metadata-0``; anything else in such a request is no request. ``quorum_asking`` is
the asking side, ``quorum_answering`` the other; here is what both share. The versions are the newest of Kafka
4.3; a fetch can do without the news of what its sender knows to be agreed, which the newest has.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from millpond.base.ids import NodeId
from millpond.peer.versions import Versions
from millpond.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchSnapshot,
    Refusal,
    ReplicaKey,
    Request,
    Vote,
)
from millpond.raft.voters import Endpoint
from millpond.wire.kafka.api import ApiKey, ErrorCode

METADATA_TOPIC_ID = UUID(int=1)
NO_NODE = -1
NO_ID = UUID(int=0)
UNKNOWN_HIGH_WATERMARK = 2**63 - 1

CODES: Mapping[Refusal, ErrorCode] = {
    Refusal.FENCED_EPOCH: ErrorCode.FENCED_LEADER_EPOCH,
    Refusal.UNKNOWN_EPOCH: ErrorCode.UNKNOWN_LEADER_EPOCH,
    Refusal.NOT_LEADER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Refusal.UNKNOWN_SNAPSHOT: ErrorCode.SNAPSHOT_NOT_FOUND,
    Refusal.WRONG_POSITION: ErrorCode.POSITION_OUT_OF_RANGE,
}
REFUSALS: Mapping[int, Refusal] = {int(code): refusal for refusal, code in CODES.items()}

# How each kind is asked.
APIS_OF: Mapping[type[Any], Versions] = {
    Vote: Versions(ApiKey.VOTE, oldest=2, newest=2),
    BeginEpoch: Versions(ApiKey.BEGIN_QUORUM_EPOCH, oldest=1, newest=1),
    EndEpoch: Versions(ApiKey.END_QUORUM_EPOCH, oldest=1, newest=1),
    Fetch: Versions(ApiKey.FETCH, oldest=17, newest=18),
    FetchSnapshot: Versions(ApiKey.FETCH_SNAPSHOT, oldest=1, newest=1),
}


class Sender(NamedTuple):
    """Who asks whom: the cluster, the replica that is asked, and where the asker is found if it leads."""

    cluster_id: str
    to: ReplicaKey
    end_points: tuple[Endpoint, ...] = ()
    wait_ms: int = 500


class Asked(NamedTuple):
    """A request that came in, and what it says besides."""

    cluster_id: str | None
    # The replica that is meant, if the asker says so.
    to: ReplicaKey | None
    request: Request


class NodeAddress(NamedTuple):
    """Where a node is found, as an answer says."""

    node_id: NodeId
    host: str
    port: int
