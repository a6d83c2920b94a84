"""Who leads a partition, and who counts as in sync, when nodes come and go.

A leader comes from the in-sync replicas, in the order of the replica list: whoever is not in sync may lack
what was acknowledged. If none of them is up the partition has no leader and waits, unless it is configured to
prefer an old copy over none (``unclean.leader.election.enable``). The last in-sync replica is never struck
off: it is the one that has everything.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from millpond.base.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NotLeader,
)
from millpond.base.ids import LeaderEpoch, NodeId
from millpond.metadata.image import Image, PartitionImage, TopicImage
from millpond.metadata.records import LEADER_UNCHANGED, NO_LEADER, PartitionChangeRecord

IsUp = Callable[[NodeId], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Leader and in-sync replicas as they shall be."""

    leader: NodeId
    isr: tuple[NodeId, ...]
    is_unclean: bool = False


def elect(
    partition: PartitionImage, is_up: IsUp, *, unclean: bool = False, preferred: bool = False
) -> Outcome:
    """The best leader there is now. A leader that can go on does, unless the preferred one is asked for."""
    electable = [node for node in partition.replicas if node in partition.isr and is_up(node)]
    if preferred and electable and electable[0] == partition.replicas[0]:
        return Outcome(leader=electable[0], isr=partition.isr)
    if partition.leader in electable:
        return Outcome(leader=partition.leader, isr=partition.isr)
    if electable:
        return Outcome(leader=electable[0], isr=partition.isr)
    standing = next((node for node in partition.replicas if is_up(node)), None)
    if unclean and standing is not None:
        return Outcome(leader=standing, isr=(standing,), is_unclean=True)
    return Outcome(leader=NO_LEADER, isr=partition.isr)


def without(
    partition: PartitionImage, node: NodeId, is_up: IsUp, *, unclean: bool = False
) -> Outcome:
    """What becomes of a partition when this node stops: it is not in sync any more, and does not lead."""
    remaining = tuple(one for one in partition.isr if one != node)
    left = PartitionImage(
        replicas=partition.replicas,
        isr=remaining or partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )
    return elect(left, lambda one: one != node and is_up(one), unclean=unclean)


def change(topic: TopicImage, index: int, outcome: Outcome) -> PartitionChangeRecord | None:
    """The fact that makes the outcome true; nothing if it is true already."""
    before = topic.partitions[index]
    same_isr = set(outcome.isr) == set(before.isr)
    if outcome.leader == before.leader and same_isr:
        return None
    # Fewer in sync, or another leader: a new epoch, which tells the others to look where they stand.
    bumps = outcome.leader != before.leader or not set(before.isr) <= set(outcome.isr)
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        isr=None if same_isr else outcome.isr,
        leader=outcome.leader if bumps else LEADER_UNCHANGED,
    )


def decide_stopped(
    image: Image, node: NodeId, is_up: IsUp, unclean: Callable[[str], bool]
) -> list[PartitionChangeRecord]:
    """A node is down, or wants to be: hand over what it leads, strike it off where it is in sync."""
    return list(
        _changes(
            image,
            lambda topic, partition: without(partition, node, is_up, unclean=unclean(topic.name)),
            lambda partition: node == partition.leader or node in partition.isr,
        )
    )


def decide_started(
    image: Image, node: NodeId, is_up: IsUp, unclean: Callable[[str], bool]
) -> list[PartitionChangeRecord]:
    """A node is up: it leads what nobody leads, where it may."""
    return list(
        _changes(
            image,
            lambda topic, partition: elect(partition, is_up, unclean=unclean(topic.name)),
            lambda partition: partition.leader == NO_LEADER and node in partition.replicas,
        )
    )


def decide_preferred(image: Image, is_up: IsUp) -> list[PartitionChangeRecord]:
    """Give every partition back to the first of its replicas, where that one is in sync."""
    return list(
        _changes(
            image,
            lambda _topic, partition: elect(partition, is_up, preferred=True),
            lambda partition: partition.leader != partition.replicas[0],
        )
    )


def decide_in_sync(
    topic: TopicImage,
    index: int,
    *,
    sender: NodeId,
    leader_epoch: LeaderEpoch,
    partition_epoch: int,
    isr: tuple[NodeId, ...],
    is_up: IsUp,
) -> PartitionChangeRecord | None:
    """The leader asks for other in-sync replicas. Refused if it leads no longer, or knows an older state."""
    partition = topic.partitions[index]
    name = f"{topic.name}-{index}"
    if sender != partition.leader:
        raise NotLeader(f"node {sender} does not lead {name}; node {partition.leader} does")
    if leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpoch(
            f"{name} is led in epoch {partition.leader_epoch}, not {leader_epoch}"
        )
    if leader_epoch > partition.leader_epoch:
        raise InvalidRequest(f"{name} has not come to epoch {leader_epoch} yet")
    if partition_epoch != partition.partition_epoch:
        raise InvalidUpdateVersion(
            f"{name} is at version {partition.partition_epoch}, not {partition_epoch}; read it again"
        )
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or sender not in isr:
        raise InvalidRequest(f"{list(isr)} cannot be the in-sync replicas of {name}")
    fenced = [node for node in isr if node not in partition.isr and not is_up(node)]
    if fenced:
        raise IneligibleReplica(f"nodes {fenced} are not up and cannot be in sync for {name}")
    if set(isr) == set(partition.isr):
        return None
    return PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, isr=isr)


def _changes(
    image: Image,
    outcome_of: Callable[[TopicImage, PartitionImage], Outcome],
    concerns: Callable[[PartitionImage], bool],
) -> Iterator[PartitionChangeRecord]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if concerns(partition):
                record = change(topic, index, outcome_of(topic, partition))
                if record is not None:
                    yield record
