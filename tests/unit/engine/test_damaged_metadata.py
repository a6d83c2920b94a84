"""A quorum's leader whose own disk has damaged what it agreed on: it notices when it is asked, says so, and
writes down again what it knows."""

from collections.abc import Callable
from typing import Any

import pytest

from millpond.base.errors import CorruptLog, StorageFailure
from millpond.base.ids import NodeId
from millpond.engine.node.node import Node
from millpond.engine.quorum import metadata_snapshot, snapshotting
from millpond.engine.quorum.metadata_snapshot import snapshot_path
from millpond.log.storage import Storage
from millpond.metadata.records import RESOURCE_GROUP, ConfigRecord
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run

Damage = Callable[[FaultyStorage, str], None]


def flip(storage: FaultyStorage, path: str) -> None:
    storage.flip(path, storage.files()[path] // 2)


def cut(storage: FaultyStorage, path: str) -> None:
    storage.cut(path, storage.files()[path] - 20)


def empty(storage: FaultyStorage, path: str) -> None:
    storage.cut(path, 0)


def remove(storage: FaultyStorage, path: str) -> None:
    storage.delete(path)


async def agree(leader: Node, first: int, last: int) -> None:
    for value in range(first, last):
        await leader.metadata.quorum.propose(
            [
                ConfigRecord(
                    resource_type=RESOURCE_GROUP, resource_name="g", name=str(value), value="1"
                )
            ]
        )


def knows(engine: Node, count: int) -> bool:
    known = set(engine.metadata.quorum.image.config_of(RESOURCE_GROUP, "g"))
    return {str(value) for value in range(count)} <= known


async def one_away(cluster: MemoryCluster) -> tuple[Node, NodeId]:
    """The leader, and another node, which was stopped."""
    leader = await cluster.controller()
    away = next(node for node in cluster.engines if node != leader.info.node_id)
    await cluster.stop(away)
    return leader, away


async def joins_anew(cluster: MemoryCluster, node: NodeId, *, facts: int) -> Node:
    """A node with an empty disk, when it knows all that was agreed."""
    cluster.storages.pop(node)
    engine = await cluster.start(node)
    await cluster.until(lambda: knows(engine, facts))
    return engine


@pytest.mark.parametrize("damage", [flip, cut, empty, remove])
@pytest.mark.parametrize("since", [0, 5], ids=["nothing since", "facts since"])
def test_a_leader_makes_a_new_snapshot_when_its_own_is_damaged(
    damage: Damage, since: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with memory_cluster() as cluster:
            leader, away = await one_away(cluster)
            for first in (0, 10, 20):
                await agree(leader, first, first + 10)
                await leader.metadata.quorum.take_snapshot()
            damaged = leader.metadata.quorum.log.snapshot
            assert damaged is not None
            await agree(leader, 30, 30 + since)
            storage = cluster.storages[leader.info.node_id]
            damage(storage, snapshot_path(leader.metadata.quorum.log.log.directory, damaged))

            engine = await joins_anew(cluster, away, facts=30 + since)

            assert leader.metadata.quorum.is_active
            assert engine.metadata.quorum.log.start_offset > 0
            # It is whole on the disk again: the leader itself starts from it.
            await cluster.stop(leader.info.node_id)
            again = await cluster.start(leader.info.node_id)
            await cluster.until(lambda: knows(again, 30 + since))

    run(story())
    assert "a new snapshot is written of what this node knows" in caplog.text


def test_a_leader_replaces_agreed_records_that_its_disk_has_damaged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with memory_cluster() as cluster:
            leader, away = await one_away(cluster)
            await agree(leader, 0, 30)
            storage = cluster.storages[leader.info.node_id]
            flip(storage, leader.metadata.quorum.log.log.active.log_path)

            await joins_anew(cluster, away, facts=30)

            assert leader.metadata.quorum.is_active
            await agree(leader, 30, 32)
            await cluster.until(lambda: knows(cluster.node(away), 32))
            await cluster.stop(leader.info.node_id)
            again = await cluster.start(leader.info.node_id)
            await cluster.until(lambda: knows(again, 32))

    run(story())
    assert "a new snapshot is written of what this node knows" in caplog.text


async def test_a_leader_that_cannot_mend_its_snapshot_lets_another_lead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_cluster() as cluster:
        leader, away = await one_away(cluster)
        for first in (0, 10, 20):
            await agree(leader, first, first + 10)
            for engine in cluster.engines.values():
                await engine.metadata.quorum.take_snapshot()
        damaged = leader.metadata.quorum.log.snapshot
        assert damaged is not None
        full = cluster.storages[leader.info.node_id]
        flip(full, snapshot_path(leader.metadata.quorum.log.log.directory, damaged))
        write = metadata_snapshot.write_snapshot

        def write_if_there_is_room(storage: Storage, *args: Any, **kwargs: Any) -> int:
            if storage is full:
                raise StorageFailure("no space left on device")
            return write(storage, *args, **kwargs)

        monkeypatch.setattr(snapshotting, "write_snapshot", write_if_there_is_room)
        await joins_anew(cluster, away, facts=30)
        assert not leader.metadata.quorum.is_active


@pytest.mark.parametrize("is_last", [True, False])
async def test_a_start_is_refused_when_the_log_is_damaged(is_last: bool) -> None:
    async with memory_cluster() as cluster:
        leader = await cluster.controller()
        own = leader.info.node_id
        path = leader.metadata.quorum.log.log.active.log_path
        await agree(leader, 0, 30)
        await cluster.stop(own)
        storage = cluster.storages[own]
        size = storage.files()[path]
        storage.flip(path, size - 2 if is_last else size // 2)
        with pytest.raises(CorruptLog, match="are damaged") as refused:
            await cluster.start(own)
        # What helps with the log of a topic needs a broker that runs.
        assert "if it is alone, restore a copy" in str(refused.value)
        assert "DeleteRecords" not in str(refused.value)
        cluster.network.leave(own)
