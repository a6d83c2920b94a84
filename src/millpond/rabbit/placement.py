"""On which nodes a queue is: those with a copy of its log, the first host, and how many must be in sync.

What is to last has three copies where there are three nodes, whatever its type; `x-quorum-initial-group-size`
and the mirror policies (`ha-mode` all, exactly, nodes) say otherwise. What does not last is on its client's
node alone. All priorities of a queue have the same replicas in the same order, so that one node leads all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millpond.base.fields import Table
from millpond.base.ids import NodeId
from millpond.metadata.image import BrokerImage, Image
from millpond.rabbit.arguments import QUORUM
from millpond.rabbit.records import Queue

COPIES = 3

# RabbitMQ's words, old and new, for the node that has the fewest queues.
_BALANCED = frozenset(("balanced", "least-leaders", "min-masters", "random"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The nodes of a queue, the preferred host first."""

    replicas: tuple[NodeId, ...]
    in_sync_min: int


def place(
    queue: Queue, policy: Table, image: Image, client: NodeId, queue_topics: Iterable[str]
) -> Place:
    """Choose the nodes of a new queue; ``policy`` has its policies, ``client`` is the declaring node."""
    brokers = {
        node: broker
        for node, broker in sorted(image.brokers.items())
        if not broker.in_controlled_shutdown
    }
    active = [node for node, broker in brokers.items() if not broker.fenced]
    if not active:
        return Place(replicas=(client,), in_sync_min=1)
    if not queue.durable or queue.is_exclusive:
        return Place(replicas=(client if client in active else active[0],), in_sync_min=1)
    wanted = _named_nodes(policy, brokers)
    choice = [node for node in active if not wanted or node in wanted] or active
    first = _first(queue, policy, image, client, choice, queue_topics)
    others = [node for node in (wanted or _ring(brokers, first)) if node != first]
    count = len(others) + 1 if wanted else _count(queue, policy, len(brokers))
    replicas = (first, *others[: count - 1])
    return Place(replicas=replicas, in_sync_min=len(replicas) // 2 + 1)


def _count(queue: Queue, policy: Table, nodes: int) -> int:
    asked: object = COPIES
    if policy.get("ha-mode") == "all":
        asked = nodes
    elif policy.get("ha-mode") == "exactly":
        asked = policy.get("ha-params")
    elif queue.type == QUORUM:
        asked = queue.arguments.get(
            "x-quorum-initial-group-size", policy.get("target-group-size", COPIES)
        )
    number = asked if isinstance(asked, int) and not isinstance(asked, bool) else COPIES
    return max(1, min(number, nodes))


def _named_nodes(policy: Table, brokers: Mapping[NodeId, BrokerImage]) -> list[NodeId]:
    """The nodes that a policy names: by number or host, or with RabbitMQ's word and @ before that."""
    names = policy.get("ha-params")
    if policy.get("ha-mode") != "nodes" or not isinstance(names, list):
        return []
    found: list[NodeId] = []
    for name in map(str, names):
        text = name.rpartition("@")[2]
        for node, broker in brokers.items():
            if text == str(node) or text in {point.host for point in broker.end_points}:
                found.append(node)
                break
    return list(dict.fromkeys(found))


def _first(
    queue: Queue,
    policy: Table,
    image: Image,
    client: NodeId,
    choice: list[NodeId],
    queue_topics: Iterable[str],
) -> NodeId:
    said = (
        queue.arguments.get("x-queue-leader-locator"),
        queue.arguments.get("x-queue-master-locator"),
        policy.get("queue-leader-locator"),
        policy.get("queue-master-locator"),
    )
    locator = next((one for one in said if isinstance(one, str)), "client-local")
    if locator not in _BALANCED and client in choice:
        return client
    leads = dict.fromkeys(choice, 0)
    for name in queue_topics:
        topic = image.topics.get(name)
        if topic is not None and topic.partitions[0].leader in leads:
            leads[topic.partitions[0].leader] += 1
    return min(choice, key=lambda node: (leads[node], node))


def _ring(brokers: Mapping[NodeId, BrokerImage], first: NodeId) -> list[NodeId]:
    """The nodes behind the first, those of other racks before those of its own; those that are down last."""
    nodes = list(brokers)
    at = nodes.index(first)
    behind = nodes[at + 1 :] + nodes[:at]
    rack = brokers[first].rack
    return sorted(
        behind,
        key=lambda node: (
            brokers[node].fenced,
            rack is not None and brokers[node].rack == rack,
        ),
    )
