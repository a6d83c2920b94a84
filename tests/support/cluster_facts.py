"""Small clusters as facts, for stories about what the controller decides."""

from collections.abc import Iterable
from uuid import UUID

from millpond.metadata.image import Image, PartitionImage, apply
from millpond.metadata.records import (
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

ORDERS = UUID(int=1234)


def node(
    node_id: int, *, fenced: bool = False, rack: str | None = None, stopping: bool = False
) -> RegisterBrokerRecord:
    """A node whose epoch is ten times its number."""
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=UUID(int=node_id),
        broker_epoch=10 * node_id,
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=stopping,
        log_dirs=(UUID(int=1000 + node_id),),
    )


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    *,
    removing: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
) -> PartitionImage:
    """A partition in leader epoch 5, changed seven times."""
    return PartitionImage(
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=5,
        partition_epoch=7,
        removing=removing,
        adding=adding,
    )


def orders(
    *partitions: PartitionImage, nodes: Iterable[RegisterBrokerRecord] | None = None
) -> Image:
    """A cluster (of the nodes 1 to 4, all up) with one topic, orders."""
    facts: list[MetadataRecord] = list(map(node, range(1, 5)) if nodes is None else nodes)
    facts.append(TopicRecord(name="orders", topic_id=ORDERS))
    facts += [
        PartitionRecord(
            partition_id=index,
            topic_id=ORDERS,
            replicas=one.replicas,
            isr=one.isr,
            leader=one.leader,
            leader_epoch=one.leader_epoch,
            partition_epoch=one.partition_epoch,
            removing=one.removing,
            adding=one.adding,
        )
        for index, one in enumerate(partitions)
    ]
    return apply(Image(), facts)


def never(_topic: str) -> bool:
    """No topic may be led by a replica that is behind."""
    return False


def always(_topic: str) -> bool:
    """Every topic may."""
    return True
