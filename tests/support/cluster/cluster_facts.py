"""Small clusters as facts, for stories about what the controller decides."""

from collections.abc import Iterable
from uuid import UUID

from millpond.metadata.elections import Rules
from millpond.metadata.features import ELIGIBLE_LEADER_REPLICAS
from millpond.metadata.image import Image, PartitionImage, apply
from millpond.metadata.levels import DIRECTORIES, ELIGIBLE_LEADERS, MILLPOND_VERSION
from millpond.metadata.records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

ORDERS = UUID(int=1234)

# Every node keeps eligible leaders when it is the controller.
KEEPS_ELIGIBLE = (
    FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=ELIGIBLE_LEADERS),
    FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=1),
)


# Partitions name the directories of their replicas.
KNOWS_DIRECTORIES = (
    FeatureLevelRecord(name=MILLPOND_VERSION, feature_level=DIRECTORIES),
    FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=1),
)


def directory(node_id: int, number: int = 0) -> UUID:
    """The id of a directory of a node; every node of ``node`` has the first."""
    return UUID(int=1000 + node_id + 1000 * number)


def node(
    node_id: int,
    *,
    fenced: bool = False,
    rack: str | None = None,
    stopping: bool = False,
    directories: int = 1,
) -> RegisterBrokerRecord:
    """A node whose epoch is ten times its number."""
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=UUID(int=node_id),
        broker_epoch=10 * node_id,
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=stopping,
        log_dirs=tuple(directory(node_id, number) for number in range(directories)),
    )


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    *,
    removing: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
    eligible: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    directories: tuple[UUID, ...] = (),
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
        eligible_leaders=eligible,
        last_known_leaders=last_known,
        directories=directories,
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
            eligible_leaders=one.eligible_leaders,
            last_known_leaders=one.last_known_leaders,
            directories=one.directories,
        )
        for index, one in enumerate(partitions)
    ]
    return apply(Image(), facts)


# No topic may be led by a replica that is behind; every topic may. No eligible leaders are kept.
never = Rules(allows_unclean=lambda _topic: False)
always = Rules(allows_unclean=lambda _topic: True)
# Eligible leaders are kept while fewer than two are in sync.
two_in_sync = Rules(allows_unclean=lambda _topic: False, min_isr_of=lambda _topic: 2)
