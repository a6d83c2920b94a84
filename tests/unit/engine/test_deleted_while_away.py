"""A topic that was deleted while a node was away is gone there, too, once the node is back."""

import logging

import pytest

from millpond.engine.api import CreateTopic
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster


async def make(cluster: MemoryCluster, *names: str, replicas: int = 3) -> None:
    controller = await cluster.controller()
    for name in names:
        command = CreateTopic(name=name, partitions=1, replication_factor=replicas)
        (result,) = await controller.topic_admin.create_topics([command])
        assert result.error is None
    await cluster.until(
        lambda: all(
            set(names) <= set(one.metadata.image.topics) for one in cluster.engines.values()
        )
    )


def directories(cluster: MemoryCluster, node: int, topic: str) -> set[str]:
    found = {path.split("/")[1] for path in cluster.storages[node].files() if path.count("/") > 1}
    return {name for name in found if name.startswith(f"{topic}-")}


@pytest.mark.parametrize("by_snapshot", [False, True])
async def test_its_directory_is_deleted(
    by_snapshot: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory_cluster() as cluster:
        await make(cluster, "doomed", "kept")
        controller = await cluster.controller()
        away = next(node for node in (1, 2, 3) if node != controller.info.node_id)
        await cluster.until(lambda: bool(directories(cluster, away, "doomed")))
        await cluster.until(lambda: bool(directories(cluster, away, "kept")))
        await cluster.stop(away)
        (gone,) = await controller.topic_admin.delete_topics([("doomed", None)])
        assert gone.error is None
        if by_snapshot:
            for node in cluster.engines.values():
                await node.metadata.quorum.take_snapshot()
            await make(cluster, "later", replicas=1)
            for node in cluster.engines.values():
                await node.metadata.quorum.take_snapshot()
                assert node.metadata.quorum.log.log.start_offset > 0
        with caplog.at_level(logging.INFO):
            await cluster.start(away)
            await cluster.up(1, 2, 3)
        assert ("loaded the leader's snapshot" in caplog.text) == by_snapshot
        assert "its topic was deleted" in caplog.text
        left = directories(cluster, away, "doomed")
        assert all(name.endswith("-delete") for name in left)
        assert directories(cluster, away, "kept") == {"kept-0"}
