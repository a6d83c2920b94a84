"""Leadership given and taken by hand: what a node hears when the controller moves a partition.

The partition takes its role as it does from the metadata, and whoever wants to know is told. ``alone`` says
whether the node is the only in-sync replica; if it is not, nothing is committed until ``follow`` says that
the other replica has it.
"""

from dataclasses import replace

from millpond.engine.api import PartitionImage
from millpond.engine.node.node import Node
from millpond.replication.partition import Change, Partition

OTHER = 2


def take(engine: Node, topic: str, index: int) -> Partition:
    """Another node leads the partition from now on."""
    return _move(engine, topic, index, leader=OTHER, alone=False)


def give(engine: Node, topic: str, index: int, *, alone: bool = True) -> Partition:
    """This node leads the partition, in a new epoch."""
    return _move(engine, topic, index, leader=engine.info.node_id, alone=alone)


def commit_all(partition: Partition) -> None:
    """The other replica has come as far as this one."""
    partition.advance(partition.log.end_offset)


def _move(engine: Node, topic: str, index: int, *, leader: int, alone: bool) -> Partition:
    partition = engine.partitions.replica(topic, index)
    node = engine.info.node_id
    replicas = (node,) if alone and leader == node else (node, OTHER)
    state = replace(
        engine.metadata.image.topics[topic].partitions[index],
        replicas=replicas,
        isr=replicas,
        leader=leader,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )
    assert isinstance(state, PartitionImage)
    change = partition.assume(state, now_ms=engine.runtime.clock.monotonic_ms())
    assert change in {Change.LEADS, Change.HANDED_OVER, Change.FOLLOWS}
    engine.partitions.tell_leadership(partition, leader == node)
    return partition
