"""Which replicas a node names as lost when it registers. What the disk has lost: ``test_log_dirs.py``."""

from uuid import UUID

import pytest

from millpond.base.ids import TopicPartition
from millpond.engine.cluster.lost_replicas import lost_replicas
from millpond.metadata.image import PartitionImage
from tests.support.cluster.cluster_facts import ORDERS, orders, partition

IN_SYNC = partition((1, 2), (1, 2), 2)


def lost(key: TopicPartition, topic_id: UUID) -> bool:
    return (key, topic_id) == (TopicPartition("orders", 0), ORDERS)


def whole(_key: TopicPartition, _topic_id: UUID) -> bool:
    return False


@pytest.mark.parametrize(
    "one",
    [
        IN_SYNC,
        partition((1, 2), (2,), 2, eligible=(1,)),
        partition((1, 2), (), -1, last_known=(2, 1)),
        partition((1, 2), (2,), 2, last_known=(1,)),
    ],
)
def test_a_replica_that_may_be_elected_is_named_if_it_has_lost_records(one: PartitionImage) -> None:
    assert lost_replicas(orders(one), 1, lost) == ((ORDERS, 0),)
    assert lost_replicas(orders(one), 1, whole) == ()


def test_a_replica_that_cannot_be_elected_is_not() -> None:
    assert lost_replicas(orders(partition((1, 2), (2,), 2)), 1, lost) == ()
