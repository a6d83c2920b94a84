"""Metadata that are gone while partitions are there: nothing that was declared is dropped in silence."""

import asyncio

import pytest

from millpond.base.errors import MetadataMissing
from millpond.base.ids import NodeId
from millpond.metadata.controller import CreateTopic
from millpond.wire.amqp.methods import QueueDeclare
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.cluster.memory_broker import memory_broker
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster
from tests.support.storage.faulty_storage import FaultyStorage

METADATA = "data/__cluster_metadata-0"


async def make_topic(cluster: MemoryCluster) -> None:
    controller = await cluster.controller()
    command = CreateTopic(name="t", partitions=1, replication_factor=3)
    (result,) = await controller.topic_admin.create_topics([command])
    assert result.error is None
    await cluster.until(
        lambda: all("t" in one.metadata.image.topics for one in cluster.engines.values())
    )
    await cluster.until(lambda: all(one.exists("data/t-0") for one in cluster.storages.values()))


async def lose_metadata(cluster: MemoryCluster, *nodes: NodeId) -> None:
    for node in nodes:
        await cluster.kill(node, power=False)
    for node in nodes:
        cluster.storages[node].delete_tree(METADATA)


async def test_a_node_alone_does_not_begin_anew() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t")
    storage.delete_tree(METADATA)
    for _ in range(2):
        # What the first attempt leaves makes no difference to the second.
        with pytest.raises(MetadataMissing, match="Restore the directory from a copy"):
            async with memory_broker(storage):
                pass
    assert storage.exists("data/t-0")


async def test_a_voter_catches_up_from_the_others_and_keeps_its_replicas() -> None:
    async with memory_cluster() as cluster:
        await make_topic(cluster)
        await lose_metadata(cluster, 3)
        await cluster.start(3)
        await cluster.until(lambda: cluster.engines[3].runtime.running)
        assert (
            cluster.engines[3].metadata.image.topics.keys()
            == cluster.engines[1].metadata.image.topics.keys()
        )
        assert cluster.engines[3].partitions.replica("t", 0).replicas == (
            cluster.engines[1].partitions.replica("t", 0).replicas
        )
        assert not any("stray" in path for path in cluster.storages[3].files())
        # It counts as a voter again.
        await cluster.kill(1, power=False)
        await cluster.controller()


async def test_voters_that_have_all_lost_the_metadata_found_no_other_cluster() -> None:
    async with memory_cluster() as cluster:
        await make_topic(cluster)
        await lose_metadata(cluster, 1, 2, 3)
        for node in (1, 2, 3):
            await cluster.start(node)
        await asyncio.sleep(120)
        assert not any(one.metadata.is_controller for one in cluster.engines.values())
        assert all(one.exists("data/t-0") for one in cluster.storages.values())


async def test_a_majority_without_metadata_waits_for_the_voter_that_has_them() -> None:
    async with memory_cluster() as cluster:
        await make_topic(cluster)
        await cluster.kill(1, power=False)
        await lose_metadata(cluster, 2, 3)
        for node in (2, 3):
            await cluster.start(node)
        await asyncio.sleep(60)
        assert not any(one.metadata.is_controller for one in cluster.engines.values())
        await cluster.start(1)
        await asyncio.sleep(60)
        # It would need votes of those who may have forgotten what they agreed on.
        assert all(one.exists("data/t-0") for one in cluster.storages.values())
        assert not any("stray" in path for s in cluster.storages.values() for path in s.files())


async def test_queues_outlive_the_metadata_of_one_node() -> None:
    async with amqp_cluster() as cluster:
        client = await cluster.client(1, 1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        await cluster.nodes.until(lambda: "q" in cluster.queues_at(3))
        await cluster.kill(3)
        cluster.nodes.storages[3].delete_tree(METADATA)
        await cluster.come_back(3)
        assert "q" in cluster.queues_at(3)
        assert "q" in cluster.queues_at(1)
