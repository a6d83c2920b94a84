"""A node that is alone: what it writes into the metadata at each start, so that others can join it later."""

import pytest

from millpond.base.errors import StorageFailure
from millpond.engine.api import CreateTopic
from millpond.engine.node.node import Node
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.metadata.configs import BrokerConfig
from millpond.metadata.image import PartitionImage
from millpond.metadata.records import NO_LEADER, PartitionChangeRecord
from millpond.record.builder import build_batch
from millpond.server.protocols import record_families
from tests.support.cluster.memory_broker import SeededRng
from tests.support.cluster.memory_cluster import memory_cluster
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, virtual_loop
from tests.unit.engine.test_growth import join


class Lone:
    """A node with one disk for the metadata log and one for partitions."""

    def __init__(self) -> None:
        self.metadata, self.data = FaultyStorage(), FaultyStorage()
        self._lives = 0

    async def started(self) -> Node:
        self._lives += 1
        engine = Node(
            log_dirs=LogDirs(
                [LogDir(self.data, "data", name="/data")],
                metadata=LogDir(self.metadata, "metadata", name="/metadata"),
            ),
            node_id=1,
            cluster_id="cluster",
            broker=BrokerConfig({}),
            clock=LoopClock(virtual_loop()),
            rng=SeededRng(self._lives),
            families=record_families(),
            boot_id="boot",
        )
        await engine.start()
        await engine.advertise([])
        return engine


def at(engine: Node, index: int) -> PartitionImage:
    return engine.metadata.image.topics["t"].partitions[index]


async def with_records(lone: Lone) -> Node:
    """A topic of two partitions with a record each; of the second, a node that is gone has a copy."""
    engine = await lone.started()
    (result,) = await engine.topic_admin.create_topics(
        [CreateTopic(name="t", partitions=2, replication_factor=1)]
    )
    assert result.error is None
    topic_id = engine.metadata.image.topics["t"].topic_id
    for index in (0, 1):
        batch = build_batch([(LoopClock.EPOCH_MS, None, b"a", ())])
        durable = engine.partitions.append("t", index, batch).durable
        if durable is not None:
            await durable
    directory = engine.log_dirs.ids[0]
    await engine.metadata.quorum.propose(
        [
            PartitionChangeRecord(
                partition_id=1,
                topic_id=topic_id,
                replicas=(1, 2),
                directories=(directory, directory),
            )
        ]
    )
    return engine


async def test_each_life_of_a_lone_node_is_registered() -> None:
    lone = Lone()
    for _ in range(2):
        engine = await lone.started()
        assert engine.metadata.image.brokers[1].incarnation_id == engine.info.incarnation_id
        assert engine.metadata.image.brokers[1].log_dirs == engine.log_dirs.ids
        assert (
            engine.info.incarnation_id in engine.disk_history.kept_registrations().incarnation_ids
        )
        await engine.stop()


async def test_a_lone_node_that_gets_company_after_a_restart_leads_on() -> None:
    async with memory_cluster(1, alone=True) as cluster:
        controller = await cluster.controller()
        await controller.topic_admin.create_topics(
            [CreateTopic(name="t", partitions=1, replication_factor=1)]
        )
        await cluster.stop(1)
        await cluster.start(1)
        await cluster.up(1)
        before = at(cluster.node(1), 0)
        await join(cluster, 2, {"controller.quorum.voters": ("1@node1:9092",)})
        await cluster.until(lambda: cluster.node(1).membership.has_registered)
        after = at(cluster.node(1), 0)
        # It was never struck off: it has what it had, and was registered all the time.
        assert (after.leader, after.isr, after.recovering) == (1, (1,), False)
        assert after.leader_epoch == before.leader_epoch


async def test_the_only_data_disk_of_a_lone_node_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lone = Lone()
    engine = await with_records(lone)
    epoch = at(engine, 0).leader_epoch
    await engine.stop()
    lone.data = FaultyStorage()
    engine = await lone.started()
    assert "the records of 2 partitions are gone" in caplog.text
    own = engine.log_dirs.ids[0]
    # Without another copy it begins anew, in an epoch of its own.
    assert (at(engine, 0).leader, at(engine, 0).directory_of(1)) == (1, own)
    assert at(engine, 0).leader_epoch > epoch
    assert engine.partitions.partition("t", 0).log.end_offset == 0
    # A copy elsewhere is not cut to nothing.
    assert (at(engine, 1).leader, at(engine, 1).isr) == (NO_LEADER, ())
    assert at(engine, 1).last_known_leaders == ()
    await engine.stop()
    caplog.clear()
    engine = await lone.started()
    assert at(engine, 0).leader == 1
    assert "are gone" not in caplog.text
    await engine.stop()


async def test_a_node_without_any_disk_for_partitions_does_not_start() -> None:
    lone = Lone()
    await (await with_records(lone)).stop()
    lone.data = FaultyStorage()
    lone.data.fail_writes = True
    with pytest.raises(StorageFailure, match="no log directory could be opened: /data"):
        await lone.started()
