"""Which replicas go where: plans for moving partitions between nodes, and plans as Kafka's tools write them.

Pure. A plan is the wanted replicas of each partition, the preferred leader first. Rules: never two replicas
on one node; a replica that stays keeps its place; a new one goes to the node that holds fewest, in a rack
that the partition is not in yet if there is one.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from millpond.base.ids import TopicPartition
from millpond.client import BrokerInfo, PartitionInfo, TopicInfo

# A range of partitions on the command line is no longer than this.
PARTITIONS_NAMED_MAX = 100_000

Plan: TypeAlias = dict[TopicPartition, tuple[int, ...]]


class NoPlan(ValueError):
    """The command cannot be done; the message says why and what can."""


def holders(topics: Iterable[TopicInfo]) -> Plan:
    """The present replicas of every partition."""
    return {
        TopicPartition(topic.name, item.partition): item.replicas
        for topic in topics
        for item in topic.partitions
    }


def drain_plan(
    topics: Iterable[TopicInfo], brokers: Sequence[BrokerInfo], node_id: int, *, shrink: bool
) -> Plan:
    """Partitions of one node with other nodes in its place; with ``shrink`` one less where none is left."""
    present = holders(topics)
    racks = {
        broker.node_id: broker.rack
        for broker in brokers
        if broker.node_id != node_id and not broker.is_fenced
    }
    held = Counter(node for replicas in present.values() for node in replicas)
    plan: Plan = {}
    for place, replicas in present.items():
        if node_id not in replicas:
            continue
        others = [node for node in replicas if node != node_id]
        heir = _heir(racks, others, held)
        if heir is not None:
            held[heir] += 1
            plan[place] = tuple(heir if node == node_id else node for node in replicas)
        elif shrink and others:
            plan[place] = tuple(others)
        else:
            raise NoPlan(
                f"{place} has {len(replicas)} replicas and there are only {len(racks)} other nodes;"
                " add a node first, or give up a replica of each such partition with --shrink,"
                " or move only its leaders with --leaders-only"
            )
    return plan


def _heir(racks: Mapping[int, str | None], others: Sequence[int], held: Counter[int]) -> int | None:
    taken = {racks.get(node) for node in others}
    candidates = [node for node in racks if node not in others]
    return min(
        candidates,
        key=lambda node: (racks[node] is not None and racks[node] in taken, held[node], node),
        default=None,
    )


def unlead_plan(topics: Iterable[TopicInfo], node_id: int) -> Plan:
    """The same replicas for partitions that a node is to lead no more: it stands last."""
    return {
        TopicPartition(topic.name, item.partition): (
            *(node for node in item.replicas if node != node_id),
            node_id,
        )
        for topic in topics
        for item in topic.partitions
        if len(item.replicas) > 1 and (item.replicas[0] == node_id or item.leader == node_id)
        if node_id in item.replicas
    }


def spread_plan(
    topics: Iterable[TopicInfo],
    brokers: Sequence[BrokerInfo],
    nodes: Sequence[int],
    *,
    replication_factor: int | None,
) -> Plan:
    """Partitions dealt over nodes in turn, as a new topic's are; for ``reassign --to``."""
    known = {broker.node_id for broker in brokers}
    if strangers := [node for node in nodes if node not in known]:
        raise NoPlan(
            f"there is no node {strangers[0]} ({', '.join(map(str, sorted(known)))} are there)"
        )
    if len(set(nodes)) < len(nodes):
        raise NoPlan("a node comes twice in --to")
    plan: Plan = {}
    for topic in topics:
        for item in topic.partitions:
            count = replication_factor or len(item.replicas)
            if count > len(nodes):
                raise NoPlan(
                    f"{topic.name}-{item.partition} wants {count} replicas on {len(nodes)} nodes;"
                    " name more nodes, or fewer replicas with --replication-factor"
                )
            first = item.partition % len(nodes)
            plan[TopicPartition(topic.name, item.partition)] = tuple(
                nodes[(first + step) % len(nodes)] for step in range(count)
            )
    return plan


def changes_only(plan: Mapping[TopicPartition, Sequence[int]], topics: Iterable[TopicInfo]) -> Plan:
    """The part of a plan that is not so already."""
    present = holders(topics)
    return {
        place: tuple(replicas)
        for place, replicas in plan.items()
        if present.get(place) != tuple(replicas)
    }


def check_places(plan: Mapping[TopicPartition, Sequence[int]], topics: Iterable[TopicInfo]) -> None:
    """All that is to be moved must be there. Raises ``NoPlan``."""
    present = holders(topics)
    if strangers := [str(place) for place in plan if place not in present]:
        some = ", ".join(strangers[:5]) + (", …" if len(strangers) > 5 else "")
        raise NoPlan(f"there is no partition {some}")


def is_done(item: PartitionInfo, wanted: Sequence[int]) -> bool:
    """Return whether a partition has arrived."""
    return set(item.replicas) == set(wanted) and set(wanted) <= set(item.in_sync)


def read_plan(text: str) -> Plan:
    """A plan in the JSON of Kafka's kafka-reassign-partitions. Raises ``NoPlan``."""
    try:
        document = json.loads(text)
        return {
            TopicPartition(str(item["topic"]), int(item["partition"])): tuple(
                int(node) for node in item["replicas"]
            )
            for item in document["partitions"]
        }
    except (ValueError, TypeError, KeyError) as error:
        raise NoPlan(
            'a plan is {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 2]}]}'
            f" ({error})"
        ) from None


def write_plan(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    """The plan as Kafka's tool reads it."""
    return {
        "version": 1,
        "partitions": [
            {"topic": place.topic, "partition": place.partition, "replicas": list(replicas)}
            for place, replicas in plan.items()
        ],
    }


def parse_places(names: Iterable[str]) -> dict[str, set[int] | None]:
    """``orders``, ``orders:3`` or ``orders:0,4-7`` as topics with partitions; None is all of them."""
    chosen: dict[str, set[int] | None] = {}
    for name in names:
        topic, colon, numbers = name.partition(":")
        if not colon:
            chosen[topic] = None
            continue
        try:
            wanted = {number for part in numbers.split(",") for number in _numbers(part)}
        except ValueError:
            raise NoPlan(f"{name!r}: write TOPIC, TOPIC:0 or TOPIC:0,4-7") from None
        earlier = chosen.get(topic, set())
        chosen[topic] = None if earlier is None else earlier | wanted
    return chosen


def _numbers(part: str) -> range:
    first, dash, last = part.partition("-")
    numbers = range(int(first), int(last if dash else first) + 1)
    if not 0 < len(numbers) <= PARTITIONS_NAMED_MAX:
        raise ValueError(part)
    return numbers
