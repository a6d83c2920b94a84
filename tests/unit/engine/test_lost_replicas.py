"""Which replicas a node names as lost when it registers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from millpond.base.ids import Offset, TopicPartition
from millpond.engine.replication.lost_replicas import lost_replicas
from millpond.metadata.image import PartitionImage
from tests.support.cluster_facts import ORDERS, orders, partition

KEY = TopicPartition("orders", 0)


@dataclass
class Found:
    topic_id: UUID | None


@dataclass
class Disk:
    logs: Mapping[TopicPartition, Found] = field(default_factory=dict)
    unreadable: Mapping[TopicPartition, str] = field(default_factory=dict)
    shortened: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    unopened: Sequence[object] = ()


IN_SYNC = partition((1, 2), (1, 2), 2)
WHOLE = Disk(logs={KEY: Found(ORDERS)})
SHORT = Disk(logs={KEY: Found(ORDERS)}, shortened={KEY: 5})
EARLIER = Disk(logs={KEY: Found(UUID(int=77))})


@pytest.mark.parametrize(
    "one",
    [
        IN_SYNC,
        partition((1, 2), (2,), 2, eligible=(1,)),
        partition((1, 2), (), -1, last_known=(2, 1)),
        partition((1, 2), (2,), 2, last_known=(1,)),
    ],
)
@pytest.mark.parametrize("disk", [Disk(), SHORT, EARLIER])
def test_a_replica_that_may_be_elected_is_named(one: PartitionImage, disk: Disk) -> None:
    assert lost_replicas(orders(one), 1, disk) == ((ORDERS, 0),)


@pytest.mark.parametrize("disk", [WHOLE, Disk(logs={KEY: Found(None)})])
def test_a_whole_replica_is_not(disk: Disk) -> None:
    assert lost_replicas(orders(IN_SYNC), 1, disk) == ()


def test_a_replica_that_may_be_there_is_not() -> None:
    assert lost_replicas(orders(IN_SYNC), 1, Disk(unopened=["a disk"])) == ()
    assert lost_replicas(orders(IN_SYNC), 1, Disk(unreadable={KEY: "it broke"})) == ()


def test_a_replica_that_cannot_be_elected_is_not() -> None:
    assert lost_replicas(orders(partition((1, 2), (2,), 2)), 1, Disk()) == ()
