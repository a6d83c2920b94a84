"""A node comes back without committed records of one partition: other replicas lead, and it copies them."""

from functools import partial

import pytest

from millpond.base.ids import TopicPartition
from millpond.log import checkpoint
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster
from tests.unit.engine.test_eligible_leaders import ends, first, make, write


def is_away(cluster: MemoryCluster, node: int) -> bool:
    return not cluster.image.is_active(node)


def checkpointed(cluster: MemoryCluster, nodes: list[int]) -> list[int]:
    """The high watermarks that are written down."""
    path = f"data/{checkpoint.HIGH_WATERMARKS_FILE}"
    return [
        checkpoint.read_offsets(cluster.storages[node], path).get(TopicPartition("t", 0), 0)
        for node in nodes
    ]


def lose_segments(cluster: MemoryCluster, node: int) -> None:
    """The records of the partition are gone; its directory is not."""
    storage = cluster.storages[node]
    for name in tuple(storage.files()):
        where, _, file = name.rpartition("/")
        if where.endswith("t-0") and file.endswith(".log"):
            storage.delete(name)


@pytest.mark.parametrize("damage", ["the directory is gone", "the segments are gone"])
@pytest.mark.parametrize("clean", [False, True])
async def test_a_node_without_committed_records_does_not_lead(damage: str, clean: bool) -> None:
    """All nodes stop together; the files of one partition are lost on the node that led it."""

    async with memory_cluster(7) as cluster:
        nodes = await make(cluster, 3, min_isr=2)
        leader = nodes[0]
        await write(cluster, 5)
        await cluster.until(lambda: ends(cluster, nodes) == [5, 5, 5])
        await cluster.until(lambda: checkpointed(cluster, nodes) == [5, 5, 5])
        others = nodes[1:]
        early = [node for node in cluster.storages if node not in others]
        for node in (*others, *early):
            if clean:
                await cluster.stop(node)
            else:
                await cluster.kill(node, power=False)
            if node in others:
                await cluster.until(partial(is_away, cluster, node))
        storage = cluster.storages[leader]
        where = next(name.rpartition("/")[0] for name in storage.files() if "t-0/" in name)
        if damage == "the directory is gone":
            storage.delete_tree(where)
        else:
            for name in storage.list(where):
                if name.endswith(".log"):
                    storage.delete(f"{where}/{name}")
        for node in early:
            await cluster.start(node)
        await cluster.until(lambda: all(cluster.node(node).runtime.running for node in early))
        await cluster.until(lambda: cluster.image.is_active(leader))
        # A clean stop tells where the log ended: what is missing there is waited for and repaired.
        assert first(cluster).leader != leader or ends(cluster, [leader]) == [5]
        for node in others:
            await cluster.start(node)
        await cluster.until(
            lambda: first(cluster).leader >= 0 and set(first(cluster).isr) == set(nodes)
        )
        await cluster.until(lambda: ends(cluster, nodes) == [5, 5, 5])


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("damage", ["the directory is gone", "the segments are gone"])
async def test_a_partition_that_every_node_has_lost_is_led_again(damage: str, power: bool) -> None:
    """Nothing is left that another leader could save: the topic must not be without one for ever."""

    async with memory_cluster(7) as cluster:
        nodes = await make(cluster, 3, min_isr=2)
        await write(cluster, 5)
        await cluster.until(lambda: ends(cluster, nodes) == [5, 5, 5])
        await cluster.until(lambda: checkpointed(cluster, nodes) == [5, 5, 5])
        for node in cluster.storages:
            await cluster.kill(node, power=power)
        for node in nodes:
            storage = cluster.storages[node]
            for name in tuple(storage.files()):
                where, _, file = name.rpartition("/")
                if not where.endswith("t-0"):
                    continue
                if damage == "the directory is gone":
                    storage.delete_tree(where)
                    break
                if file.endswith(".log"):
                    storage.delete(name)
        for node in cluster.storages:
            await cluster.start(node)
        await cluster.until(
            lambda: all(cluster.node(node).runtime.running for node in cluster.storages)
        )
        await cluster.until(
            lambda: first(cluster).leader >= 0 and set(first(cluster).isr) == set(nodes)
        )


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("short", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
async def test_a_short_replica_does_not_lead_while_a_whole_one_may(
    short: tuple[int, ...], late: bool
) -> None:
    """All machines lose power at once. Some replicas come back short; another one has all records.

    ``late``: the short ones come when the others have been up, or were given up, for a while.
    """

    async with memory_cluster(7) as cluster:
        nodes = await make(cluster, 3, min_isr=2)
        await write(cluster, 5)
        await cluster.until(lambda: ends(cluster, nodes) == [5, 5, 5])
        await cluster.until(lambda: checkpointed(cluster, nodes) == [5, 5, 5])
        for node in tuple(cluster.storages):
            await cluster.kill(node, power=False)
            cluster.boots[node] += 1  # what was written happened to be on the disk
        damaged = [nodes[one] for one in short]
        for node in damaged:
            lose_segments(cluster, node)
        well = [node for node in cluster.storages if node not in damaged]
        for node in (*damaged, *well) if not late else well:
            await cluster.start(node)
        await cluster.until(lambda: all(cluster.node(node).runtime.running for node in well))
        if late:
            await cluster.until(lambda: all(is_away(cluster, node) for node in damaged))
            for node in damaged:
                await cluster.start(node)
        await cluster.until(
            lambda: first(cluster).leader >= 0 and set(first(cluster).isr) == set(nodes)
        )
        await cluster.until(lambda: ends(cluster, nodes) == [5, 5, 5])
