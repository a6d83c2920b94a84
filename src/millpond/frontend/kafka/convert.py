"""Engine words to Kafka words, where several handlers need the same."""

from collections.abc import Iterable, Sequence

from millpond.engine.api import BrokerEndpoint
from millpond.frontend.kafka.handler import Context
from millpond.wire.kafka.api import ErrorCode
from millpond.wire.kafka.connection import Request
from millpond.wire.kafka.produce import NodeEndpoint

# What a client is told when it did not ask for its rights.
NOT_ASKED = -(2**31)

# Kafka's AclOperation numbers as bits. Without authorization every client may do everything.
TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))

# The principal of all clients on a listener without authentication.
USER, ANONYMOUS = "User", "ANONYMOUS"

_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def advertised(context: Context) -> BrokerEndpoint:
    """Return where a client of this listener reaches this node."""
    points = context.engine.info.end_points
    point = points.get(context.listener)
    if point is None:
        point = next(iter(points.values()))
    return point


def endpoint_of(context: Context, node_id: int) -> BrokerEndpoint | None:
    """Return where a client of this listener reaches a node; None if the node does not serve now."""
    if node_id == context.engine.info.node_id:
        return advertised(context)
    broker = context.engine.metadata.image.brokers.get(node_id)
    if broker is None or broker.fenced:
        return None
    return next((one for one in broker.end_points if one.name == context.listener), None)


def client_labels(context: Context, request: Request) -> dict[str, str]:
    """Return the labels that identify a client (KIP-714)."""
    host, _, port = context.peer.rpartition(":")
    return {
        "client_id": request.client_id or "",
        "client_software_name": context.software_name,
        "client_software_version": context.software_version,
        "client_source_address": host,
        "client_source_port": port,
    }


def serving_nodes(context: Context) -> list[NodeEndpoint]:
    """Return the brokers that a client of this listener can reach."""
    nodes: list[NodeEndpoint] = []
    for broker in context.engine.metadata.image.serving_brokers:
        point = endpoint_of(context, broker.broker_id)
        if point is not None:
            nodes.append((broker.broker_id, point.host, point.port, broker.rack))
    return nodes


def node_endpoints(context: Context, leaders: Iterable[int]) -> Sequence[NodeEndpoint]:
    """Return the endpoints of the leaders that a response names instead of this node (KIP-951)."""
    wanted = set(leaders)
    return [node for node in serving_nodes(context) if node[0] in wanted]


def leader_hint(
    context: Context, topic: str | None, index: int, code: int
) -> tuple[int, int] | None:
    """(leader, epoch) for a client whose idea of the leader is old (KIP-951)."""
    if code not in _MOVED or topic is None:
        return None
    image = context.engine.metadata.image.topics.get(topic)
    if image is None or not 0 <= index < len(image.partitions):
        return None
    partition = image.partitions[index]
    return (partition.leader, partition.leader_epoch) if partition.leader >= 0 else None
