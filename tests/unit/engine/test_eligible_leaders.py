"""What one power cut takes from one node others have: three replicas, two in sync for each write."""

import asyncio

import pytest

from millpond.base.errors import NotEnoughReplicas
from millpond.engine.api import (
    RESOURCE_TOPIC,
    AlterConfigs,
    AlterOp,
    CreateTopic,
    PartitionImage,
    Reassignment,
)
from millpond.metadata.records import NO_LEADER
from millpond.record.builder import build_batch
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster
from tests.support.time.virtual_loop import LoopClock


def first(cluster: MemoryCluster) -> PartitionImage:
    return cluster.image.topics["t"].partitions[0]


async def make(cluster: MemoryCluster, replicas: int, *, min_isr: int) -> list[int]:
    """A topic away from the controller; the nodes that have it, its leader first."""
    controller = await cluster.controller()
    command = CreateTopic(
        name="t",
        partitions=1,
        replication_factor=replicas,
        configs={"min.insync.replicas": str(min_isr)},
    )
    (result,) = await controller.topic_admin.create_topics([command])
    assert result.error is None
    away = [node for node in cluster.storages if node != controller.info.node_id][:replicas]
    await controller.admin.reassign([Reassignment(topic="t", partition=0, replicas=away)])
    await cluster.until(
        lambda: not first(cluster).is_reassigning and set(first(cluster).isr) == set(away)
    )
    leader = first(cluster).leader
    await cluster.until(lambda: cluster.node(leader).partitions.replica("t", 0).is_leader)
    return [leader, *(node for node in away if node != leader)]


async def write(cluster: MemoryCluster, count: int) -> None:
    """Records that are acknowledged by all who are in sync."""
    for number in range(count):
        batch = build_batch([(LoopClock.EPOCH_MS, None, b"%d" % number, ())])
        engine = cluster.node(first(cluster).leader)
        engine.partitions.replica("t", 0).check_in_sync()
        durable = engine.partitions.append("t", 0, batch).durable
        if durable is not None:
            await durable


async def fall(cluster: MemoryCluster, node: int, *, power: bool) -> None:
    """A node dies, and the cluster has noticed."""
    await cluster.kill(node, power=power)
    await cluster.until(lambda: not cluster.image.is_active(node), within_s=60)


def ends(cluster: MemoryCluster, nodes: list[int]) -> list[int]:
    return [cluster.node(node).partitions.replica("t", 0).log.end_offset for node in nodes]


async def test_a_leader_that_loses_power_as_the_last_in_sync_cuts_nobody() -> None:
    async with memory_cluster(7, auto_leader_rebalance_enable="false") as cluster:
        nodes = await make(cluster, 3, min_isr=2)
        leader, earlier, later = nodes
        await write(cluster, 5)
        assert ends(cluster, nodes) == [5, 5, 5]
        await fall(cluster, earlier, power=False)
        await fall(cluster, later, power=False)
        assert (first(cluster).isr, first(cluster).eligible_leaders) == ((leader,), (later,))
        await fall(cluster, leader, power=True)
        assert first(cluster).leader == NO_LEADER

        for node in (leader, earlier, later):
            await cluster.start(node)
        await cluster.until(lambda: set(first(cluster).isr) == set(nodes))
        assert first(cluster).leader == later
        assert ends(cluster, nodes) == [5, 5, 5]
        assert first(cluster).eligible_leaders == first(cluster).last_known_leaders == ()


@pytest.mark.parametrize("power", [True, False])
async def test_a_partition_of_one_replica_comes_back_with_its_node(power: bool) -> None:
    async with memory_cluster(4, auto_leader_rebalance_enable="false") as cluster:
        (node,) = await make(cluster, 1, min_isr=1)
        await write(cluster, 1)
        await fall(cluster, node, power=power)
        assert first(cluster).leader == NO_LEADER
        await cluster.start(node)
        await cluster.until(lambda: first(cluster).leader == node)
        assert first(cluster).isr == (node,)
        assert first(cluster).recovering == power
        if not power:
            assert ends(cluster, [node]) == [1]


async def test_a_node_that_stopped_well_while_too_few_were_in_sync_leads_when_it_is_back() -> None:
    async with memory_cluster(7, auto_leader_rebalance_enable="false") as cluster:
        nodes = await make(cluster, 3, min_isr=2)
        leader, earlier, later = nodes
        await write(cluster, 2)
        await fall(cluster, earlier, power=True)
        await cluster.stop(later)
        await cluster.until(lambda: first(cluster).isr == (leader,))
        with pytest.raises(NotEnoughReplicas):
            await write(cluster, 1)
        await fall(cluster, leader, power=True)
        await cluster.start(earlier)
        await cluster.until(lambda: cluster.image.is_active(earlier))
        assert first(cluster).leader == NO_LEADER
        await cluster.start(later)
        await cluster.until(lambda: set(first(cluster).isr) == {earlier, later})
        assert ends(cluster, [earlier, later]) == [2, 2]


async def test_what_one_is_enough_for_is_committed_and_nobody_else_is_eligible() -> None:
    async with memory_cluster(7, auto_leader_rebalance_enable="false") as cluster:
        nodes = await make(cluster, 3, min_isr=2)
        leader, earlier, later = nodes
        await fall(cluster, earlier, power=False)
        await fall(cluster, later, power=False)
        assert first(cluster).eligible_leaders == (later,)
        controller = await cluster.controller()
        await controller.settings_admin.alter_configs(
            [
                AlterConfigs(
                    resource_type=RESOURCE_TOPIC,
                    resource_name="t",
                    operations=[("min.insync.replicas", AlterOp.SET, "1")],
                )
            ]
        )
        await cluster.until(
            lambda: not cluster.node(leader).partitions.replica("t", 0).is_under_min_isr,
            within_s=5,
        )
        assert first(cluster).eligible_leaders == ()
        await write(cluster, 1)


async def test_clients_are_told_who_is_eligible() -> None:
    async with memory_cluster(7, auto_leader_rebalance_enable="false") as cluster:
        leader, earlier, later = await make(cluster, 3, min_isr=2)
        for node in (earlier, later, leader):
            await fall(cluster, node, power=False)
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
        own = (await cluster.controller()).info.node_id
        await asyncio.sleep(0.1)
        async with asyncio.timeout(5):
            answer = await cluster.client(own).ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
        (partition,) = answer.topics[0].partitions
        assert sorted(partition.eligible_leader_replicas) == sorted([leader, later])
        # The one that led last is the first of those that were given up.
        assert partition.last_known_elr == [leader, earlier]
        assert partition.isr_nodes == []
