"""Assigns the replicas of new partitions to nodes: chosen here, or as the client asks."""

from collections.abc import Sequence
from uuid import UUID

from millpond.base.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from millpond.base.ids import NodeId
from millpond.metadata.image import Image
from millpond.metadata.partition_change import new_directory
from millpond.metadata.placement import Site, place
from millpond.metadata.reassignments import check_replicas
from millpond.metadata.records import PartitionRecord

# Topics begin at different nodes, or the first partitions of all would be on one. A prime number of places.
_BEGINNINGS = 10_007


def chosen(
    image: Image, topic_id: UUID, partitions: range, factor: int
) -> list[tuple[NodeId, ...]]:
    """Replicas spread over nodes and racks; a node that is about to stop gets none."""
    sites = [
        Site(node=node, rack=broker.rack, is_up=not broker.fenced)
        for node, broker in image.brokers.items()
        if not broker.in_controlled_shutdown
    ]
    beginning = topic_id.int % _BEGINNINGS
    assignments = place(sites, (beginning + index for index in partitions), factor)
    if not all(any(map(image.is_active, replicas)) for replicas in assignments):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in "
            "controlled shutdown."
        )
    return assignments


def named(
    image: Image, assignments: Sequence[Sequence[NodeId]], factor: int, *, first: int = 0
) -> list[tuple[NodeId, ...]]:
    """Return the replicas that a client asks for. ``first``: the index of the first partition.

    Raises ``InvalidReplicaAssignment``.
    """
    for index, replicas in enumerate(assignments, start=first):
        check_replicas(image, replicas)
        if len(replicas) != factor:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes a partition with {len(replicas)} "
                f"replica(s), but this is not consistent with previous partitions, which have "
                f"{factor} replica(s)."
            )
        if not any(map(image.is_active, replicas)):
            raise InvalidReplicaAssignment(
                f"All brokers specified in the manual partition assignment for partition {index} are "
                "fenced or in controlled shutdown."
            )
    return [tuple(replicas) for replicas in assignments]


def new_partition(
    image: Image, topic_id: UUID, index: int, replicas: tuple[NodeId, ...]
) -> PartitionRecord:
    """Return a new partition: the replicas that are up are in sync, and the first of them leads."""
    isr = tuple(filter(image.is_active, replicas))
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(new_directory(image, node) for node in replicas),
    )
