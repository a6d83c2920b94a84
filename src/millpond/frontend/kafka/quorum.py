"""What the handlers of the quorum's APIs share: check the addressed replica, ask it, name the leader.

As in Kafka: another cluster's request is refused as a whole (INCONSISTENT_CLUSTER_ID), one that was meant for
another replica of this node, whose disk was wiped since, with INVALID_VOTER_KEY.
"""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from millpond.base.errors import UnsupportedVersion, WrongCluster
from millpond.base.ids import NodeId
from millpond.engine.api import METADATA_TOPIC
from millpond.frontend.kafka.handler import Context, Handler, Payload, decode, encode, refuse_whole
from millpond.peer.quorum import METADATA_TOPIC_ID, Asked, NodeAddress
from millpond.peer.quorum_answering import answer_to_wire, request_of
from millpond.raft.messages import Answer, ReplicaKey
from millpond.wire.kafka.api import APIS, ApiKey, ErrorCode
from millpond.wire.kafka.connection import Request


def is_metadata(topic: str | None, topic_id: UUID | None) -> bool:
    """Return whether a fetch is of the metadata log: the Raft replica answers it, not a partition."""
    return topic_id == METADATA_TOPIC_ID or topic == METADATA_TOPIC


def check_cluster(context: Context, cluster_id: str | None) -> None:
    """Raises ``WrongCluster`` if the asker belongs to another one; it need not say."""
    own = context.engine.info.cluster_id
    if cluster_id is not None and cluster_id != own:
        complain_of_cluster(context, cluster_id)
        raise WrongCluster(f"The given id {cluster_id!r} doesn't match the cluster id {own!r}")


def complain_of_cluster(context: Context, cluster_id: str) -> None:
    """Say in the log that a node of another cluster asks."""
    context.frontend.complaints.say(
        "client=%s: belongs to cluster %s and asks as if to this one, %s; refused: correct cluster.id or "
        "controller.quorum.voters of that node, or start it with another data directory",
        context.peer,
        cluster_id,
        context.engine.info.cluster_id,
        about=("cluster", cluster_id, context.peer.rpartition(":")[0]),
    )


def check_changeable(context: Context, what: str) -> None:
    """Raise ``UnsupportedVersion`` at a node that is alone, because no other node could vote. Kafka answers
    the same when its voters cannot be changed.
    """
    if context.engine.metadata.is_alone and len(context.engine.metadata.image.brokers) < 2:
        raise UnsupportedVersion(
            f"Cluster doesn't support {what} voter because the kraft.version feature is 0"
        )


def leader_address(context: Context, leader: NodeId | None) -> NodeAddress | None:
    """Return the leader's address on this listener."""
    if leader is None:
        return None
    found = context.engine.metadata.address_of(leader, context.listener)
    return NodeAddress(leader, *found) if found is not None else None


async def answer_quorum(context: Context, request: Request) -> Payload:
    """Answer another replica."""
    message = decode(request)
    asked = request_of(message, request.api_version)
    check_cluster(context, asked.cluster_id)
    host = context.engine.metadata.quorum
    if asked.to is not None and not _is_meant(host.key, asked.to):
        answer = Answer(epoch=host.leader_epoch, leader=host.leader_id)
        return _encode(context, request, asked, answer, ErrorCode.INVALID_VOTER_KEY)
    wait_ms = getattr(message, "max_wait_ms", 0)
    answer = await host.answer(asked.request, wait_ms=wait_ms)
    return _encode(context, request, asked, answer, None)


def _is_meant(own: ReplicaKey, meant: ReplicaKey) -> bool:
    return own.id == meant.id and meant.directory in {None, own.directory}


def _encode(
    context: Context, request: Request, asked: Asked, answer: Answer, code: ErrorCode | None
) -> Payload:
    leader = leader_address(context, answer.leader)
    return encode(request, answer_to_wire(asked.request, answer, leader, code=code))


def quorum_handler(api_key: ApiKey, response: Callable[..., Any]) -> Handler:
    """A handler for one of the quorum's APIs, in all its versions."""
    spec = APIS[api_key]

    def handle(context: Context, request: Request) -> Awaitable[Payload]:
        return answer_quorum(context, request)

    return Handler(
        api_key=api_key,
        min_version=spec.min_version,
        max_version=spec.max_version,
        handle=handle,
        refuse=refuse_whole(response),
    )
