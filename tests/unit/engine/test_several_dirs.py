"""A node with several log directories: one of them fails, and the others serve on."""

import asyncio
from collections.abc import Sequence

import pytest

from millpond.base.errors import StorageFailure
from millpond.base.ids import TopicPartition
from millpond.engine.node.node import Node
from millpond.engine.peers import AssignDirectories
from millpond.log.log_dir import LogDir
from millpond.metadata.controller import CreateTopic
from millpond.metadata.image import Image, PartitionImage
from millpond.metadata.records import PartitionChangeRecord
from millpond.record.builder import build_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from millpond.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.support.cluster.memory_broker import MemoryBroker, memory_broker
from tests.support.cluster.memory_cluster import MemoryCluster, memory_cluster
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock

# Virtual. By then partitions that could not be opened were tried again; that they stay shut shows nowhere.
RETRY_S = 120


def value(number: int) -> bytearray:
    return build_batch([(LoopClock.EPOCH_MS, None, b"%d" % number, ())])


async def write(engine: Node, topic: str, index: int, number: int) -> None:
    durable = engine.partitions.append(topic, index, value(number)).durable
    if durable is not None:
        await durable


def in_directory(engine: Node, number: int, topic: str = "t") -> list[int]:
    """The partitions of a topic that lie in this directory."""
    logs = engine.log_dirs.dirs[number - 1].logs
    return sorted(key.partition for key in logs if key.topic == topic)


async def tried_and_still_offline(log_dir: LogDir) -> None:
    """Wait until the node has tried the directory three times more, in vain."""
    for _ in range(3):
        before = log_dir.state.next_try_ms
        async with asyncio.timeout(600):
            while log_dir.state.next_try_ms == before:
                await asyncio.sleep(0.01)
        assert log_dir.state.is_offline


# --- a node alone ---------------------------------------------------------------------------------


async def test_partitions_are_spread_over_the_directories_and_found_again() -> None:
    disks = FaultyStorage(), FaultyStorage()
    async with memory_broker(disks[0], None, disks[1:]) as broker:
        await broker.create("t", 6)
        first, second = (in_directory(broker.engine, n) for n in (1, 2))
        assert len(first) == len(second) == 3
        for index in range(6):
            await write(broker.engine, "t", index, index)
    async with memory_broker(disks[0], None, disks[1:]) as broker:
        assert broker.engine.log_dirs.was_clean
        assert in_directory(broker.engine, 2) == second
        for index in range(6):
            assert broker.engine.partitions.partition("t", index).log.end_offset == 1


@pytest.mark.parametrize("failure", ["full", "eio", "sync"])
async def test_one_directory_fails_and_the_other_serves_on(failure: str) -> None:
    disks = FaultyStorage(), FaultyStorage()
    async with memory_broker(disks[0], None, disks[1:]) as broker:
        engine = broker.engine
        await broker.create("t", 4, flush_policy="group")
        well, sick = (in_directory(engine, n) for n in (1, 2))
        for index in range(4):
            await write(engine, "t", index, 0)
        match failure:
            case "full":
                disks[1].capacity = disks[1].used
            case "eio":
                disks[1].fail_writes = True
            case _:
                disks[1].fail_syncs, disks[1].forgets = True, True
        with pytest.raises(StorageFailure):
            await write(engine, "t", sick[0], 1)
        assert set(engine.disk.offline) == {"/memory/data2"}
        assert engine.disk.offline_dirs == (engine.log_dirs.dirs[1].directory_id,)
        for index in well:
            await write(engine, "t", index, 1)
        # New topics go where they can.
        await broker.create("u", 3)
        assert in_directory(engine, 1, "u") == [0, 1, 2]
        await write(engine, "u", 0, 0)
        await tried_and_still_offline(engine.log_dirs.dirs[1])
        with pytest.raises(StorageFailure):
            await write(engine, "t", sick[0], 1)
        disks[1].capacity, disks[1].fail_writes, disks[1].fail_syncs = None, False, False
        await engine.disk.online()
        assert engine.disk.offline == {}
        for index in sick:
            await write(engine, "t", index, 1)
            log = engine.partitions.partition("t", index).log
            # What could not be synced the first time has been written again.
            kept = 2 + (failure == "sync" and index == sick[0])
            assert log.end_offset == log.recovery_point == kept


async def test_the_directory_of_the_metadata_log_takes_the_node_with_it() -> None:
    disks = FaultyStorage(), FaultyStorage()
    async with memory_broker(disks[0], None, disks[1:]) as broker:
        engine = broker.engine
        await broker.create("t", 2, flush_policy="group")
        (sick,) = in_directory(engine, 1)
        disks[0].fail_writes = True
        with pytest.raises(StorageFailure):
            await write(engine, "t", sick, 0)
        assert engine.disk.is_offline
        assert engine.disk.offline_dirs == engine.log_dirs.ids
        disks[0].fail_writes = False
        await engine.disk.online()
        assert not engine.disk.is_offline


async def test_a_directory_that_is_missing_at_the_start_keeps_its_partitions_shut() -> None:
    disks = FaultyStorage(), FaultyStorage()
    async with memory_broker(disks[0], None, disks[1:]) as broker:
        await broker.create("t", 4)
        well, sick = (in_directory(broker.engine, n) for n in (1, 2))
        for index in range(4):
            await write(broker.engine, "t", index, 0)
    unmounted = FaultyStorage()
    unmounted.fail_writes = True
    async with memory_broker(disks[0], None, [unmounted]) as broker:
        engine = broker.engine
        assert set(engine.disk.offline) == {"/memory/data2"}
        for index in well:
            await write(engine, "t", index, 1)
        for index in sick:
            with pytest.raises(StorageFailure, match="/memory/data2"):
                await write(engine, "t", index, 1)
        assert engine.replicas.report().failed == tuple(TopicPartition("t", n) for n in sick)
        # What is new has nothing to lose there. (Not under the id of "t": each start has the same seed.)
        for _ in range(10):
            engine.runtime.rng.uuid4()
        await broker.create("u", 2)
        await write(engine, "u", 0, 0)
        await asyncio.sleep(RETRY_S)
    async with memory_broker(disks[0], None, disks[1:]) as broker:
        for index in range(4):
            log = broker.engine.partitions.partition("t", index).log
            assert log.end_offset == (2 if index in well else 1)


async def test_log_dirs_are_described_one_by_one() -> None:
    disks = FaultyStorage(), FaultyStorage()
    async with memory_broker(disks[0], None, disks[1:]) as broker:
        await broker.create("t", 4)
        sick = in_directory(broker.engine, 2)
        client = broker.client()
        request = DescribeLogDirsRequest(topics=None)
        answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, request)
        assert [one.log_dir for one in answer.results] == ["/memory/data", "/memory/data2"]
        for result, number in zip(answer.results, (1, 2), strict=True):
            assert (result.total_bytes, result.usable_bytes) == (1_000_000, 400_000)
            (topic,) = [one for one in result.topics if one.name == "t"]
            found = sorted(one.partition_index for one in topic.partitions)
            assert found == in_directory(broker.engine, number)
        disks[1].fail_writes = True
        with pytest.raises(StorageFailure):
            await write(broker.engine, "t", sick[0], 0)
        answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, request)
        assert [one.error_code for one in answer.results] == [
            ErrorCode.NONE,
            ErrorCode.KAFKA_STORAGE_ERROR,
        ]
        assert answer.results[0].topics
        assert not answer.results[1].topics


# --- among others ---------------------------------------------------------------------------------


async def make(cluster: MemoryCluster, *, partitions: int = 6, replicas: int = 3) -> None:
    command = CreateTopic(
        name="t",
        partitions=partitions,
        replication_factor=replicas,
        configs={"min.insync.replicas": "1"},
    )
    (result,) = await (await cluster.controller()).topic_admin.create_topics([command])
    assert result.error is None
    await cluster.until(lambda: is_told(cluster))


def places(cluster: MemoryCluster) -> list[PartitionImage]:
    topic = cluster.image.topics.get("t")
    return list(topic.partitions) if topic is not None else []


def is_told(cluster: MemoryCluster) -> bool:
    """Whether the metadata say of every replica where it lies."""
    return bool(places(cluster)) and all(
        (holding := cluster.node(node).log_dirs.holding(TopicPartition("t", index))) is not None
        and partition.directory_of(node) == holding.directory_id
        for index, partition in enumerate(places(cluster))
        for node in partition.replicas
        if node in cluster.engines
    )


async def test_the_controller_learns_where_replicas_lie() -> None:
    async with memory_cluster(3, 2) as cluster:
        await make(cluster)
        for node in cluster.engines:
            assert len(in_directory(cluster.node(node), 1)) == 3
            assert len(in_directory(cluster.node(node), 2)) == 3


async def test_a_node_of_one_directory_gets_a_second() -> None:
    async with memory_cluster(3) as cluster:
        await make(cluster)
        await cluster.stop(2)
        cluster.more[2] = [FaultyStorage()]
        await cluster.start(2)
        await cluster.up(1, 2, 3)
        await cluster.until(lambda: is_told(cluster))
        assert len(in_directory(cluster.node(2), 1)) == 6
        await cluster.until(lambda: all(len(one.isr) == 3 for one in places(cluster)))


@pytest.mark.parametrize("sick", [1, 2, 3])
@pytest.mark.parametrize("failure", ["eio", "sync"])
async def test_others_lead_what_lay_in_a_directory_that_failed(sick: int, failure: str) -> None:
    async with memory_cluster(3, 2) as cluster:
        await make(cluster)
        engine, disk = cluster.node(sick), cluster.more[sick][0]
        well, lost = (in_directory(engine, n) for n in (1, 2))
        led = {index for index, one in enumerate(places(cluster)) if one.leader == sick}
        for index, one in enumerate(places(cluster)):
            await write(cluster.node(one.leader), "t", index, 0)
        if failure == "eio":
            disk.fail_writes = True
        else:
            disk.fail_syncs, disk.forgets = True, True
        log_dir = engine.log_dirs.dirs[1]
        log_dir.on_failure("it broke")
        await cluster.until(
            lambda: all(
                places(cluster)[index].leader != sick and sick not in places(cluster)[index].isr
                for index in lost
            ),
            within_s=2,
        )
        # The node serves on with what lies elsewhere.
        assert cluster.image.is_active(sick)
        assert all(sick in places(cluster)[index].isr for index in well)
        assert {n for n in led if places(cluster)[n].leader == sick} == led & set(well)
        for index, one in enumerate(places(cluster)):
            await write(cluster.node(one.leader), "t", index, 1)
        await tried_and_still_offline(log_dir)
        assert all(sick not in places(cluster)[index].isr for index in lost)
        disk.fail_writes = disk.fail_syncs = False
        await engine.disk.online()
        await cluster.until(lambda: all(sick in one.isr for one in places(cluster)))
        for index in range(6):
            assert engine.partitions.replica("t", index).log.end_offset == 2


async def test_a_directory_that_the_controller_knows_nothing_of_takes_the_node_with_it() -> None:
    """A replica was made, and its directory fails before the controller has heard which one it is."""

    async with memory_cluster(3, 2) as cluster:
        await make(cluster)
        controller = await cluster.controller()
        sick = next(one for one in cluster.engines if one != controller.info.node_id)
        engine = cluster.node(sick)
        cluster.network.refused.add((sick, AssignDirectories))
        command = CreateTopic(name="u", partitions=2, replication_factor=3)
        (result,) = await controller.topic_admin.create_topics([command])
        assert result.error is None
        await cluster.until(lambda: bool(in_directory(engine, 2, "u")))
        cluster.more[sick][0].fail_writes = True
        engine.log_dirs.dirs[1].on_failure("it broke")
        await cluster.until(lambda: not cluster.image.is_active(sick), within_s=2)
        assert engine.disk.is_offline
        # As soon as it has heard, the node is back with what lies elsewhere.
        cluster.network.refused.clear()
        await cluster.until(lambda: cluster.image.is_active(sick))
        assert engine.disk.offline_dirs == (engine.log_dirs.dirs[1].directory_id,)
        for one in cluster.image.topics["u"].partitions:
            directory = one.directory_of(sick)
            if directory == engine.log_dirs.dirs[1].directory_id:
                assert sick not in one.isr


async def test_what_the_controller_knows_is_looked_up_when_something_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not with each message that is published while a directory is offline."""

    async with memory_cluster(3, 2) as cluster:
        await make(cluster)
        engine = cluster.node(2)
        cluster.more[2][0].fail_writes = True
        engine.log_dirs.dirs[1].on_failure("it broke")
        await cluster.until(lambda: bool(cluster.image.brokers[2].offline_dirs))
        await cluster.until(lambda: not engine.disk.is_offline)
        look_up, looked_up = engine.disk._is_known_by, 0

        def counted(image: Image, dirs: Sequence[LogDir]) -> bool:
            nonlocal looked_up
            looked_up += 1
            return look_up(image, dirs)

        monkeypatch.setattr(engine.disk, "_is_known_by", counted)
        assert [engine.disk.is_offline for _ in range(100)] == [False] * 100
        assert looked_up == 0
        # A log has come or gone, or the metadata have changed.
        engine.log_dirs.dirs[1].changes += 1
        assert [engine.disk.is_offline for _ in range(100)] == [False] * 100
        assert looked_up == 1
        (index, *_) = in_directory(engine, 2)
        before = engine.metadata.image
        topic = before.topics["t"]
        record = PartitionChangeRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            directories=tuple(
                engine.log_dirs.dirs[0].directory_id
                if node == 2
                else topic.partitions[index].directory_of(node)
                for node in topic.partitions[index].replicas
            ),
        )
        await (await cluster.controller()).metadata.quorum.propose([record])
        await cluster.until(lambda: engine.metadata.image is not before)
        assert engine.disk.is_offline
        assert looked_up >= 2


@pytest.mark.parametrize("replicas", [1, 3])
async def test_a_directory_that_is_missing_when_a_node_of_a_cluster_starts(replicas: int) -> None:
    async with memory_cluster(3, 2) as cluster:
        await make(cluster, partitions=12, replicas=replicas)
        for index, one in enumerate(places(cluster)):
            await write(cluster.node(one.leader), "t", index, 0)
        well, lost = (in_directory(cluster.node(2), n) for n in (1, 2))
        assert well
        assert lost
        await cluster.stop(2)
        disks = cluster.more[2]
        cluster.more[2] = [FaultyStorage()]
        cluster.more[2][0].fail_writes = True
        await cluster.start(2)
        await cluster.up(1, 2, 3)
        await cluster.until(lambda: all(2 in places(cluster)[index].isr for index in well))
        await asyncio.sleep(RETRY_S)
        for index in lost:
            assert places(cluster)[index].leader != 2
            with pytest.raises(StorageFailure):
                cluster.node(2).partitions.replica("t", index)
        for index in well:
            leader = places(cluster)[index].leader
            await write(cluster.node(leader), "t", index, 1)
        await cluster.stop(2)
        cluster.more[2] = disks
        await cluster.start(2)
        await cluster.up(1, 2, 3)
        await cluster.until(lambda: all(2 in places(cluster)[index].isr for index in lost))
        for index in lost:
            leader = places(cluster)[index].leader
            await write(cluster.node(leader), "t", index, 1)
            assert cluster.node(leader).partitions.partition("t", index).log.end_offset == 2


@pytest.mark.parametrize("clean", [True, False])
async def test_a_directory_that_was_replaced_counts_as_lost(
    clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It must not lead what lay there before it has it again."""

    async with memory_cluster(3, 2) as cluster:
        await make(cluster)
        controller = await cluster.controller()
        sick = next(one for one in cluster.engines if one != controller.info.node_id)
        for index, one in enumerate(places(cluster)):
            await write(cluster.node(one.leader), "t", index, 0)
        lost = in_directory(cluster.node(sick), 2)
        if clean:
            await cluster.stop(sick)
        else:
            await cluster.kill(sick, power=False)
        cluster.more[sick] = [FaultyStorage()]
        await cluster.until(
            lambda: all(places(cluster)[index].leader not in {sick, -1} for index in lost)
        )
        for index in lost:
            await write(cluster.node(places(cluster)[index].leader), "t", index, 1)
        await cluster.start(sick)
        await cluster.up(1, 2, 3)
        await cluster.until(lambda: all(sick in one.isr for one in places(cluster)))
        for index in lost:
            assert cluster.node(sick).partitions.replica("t", index).log.end_offset == 2
        said = [one.message for one in caplog.records if "are not here" in one.message]
        assert len(said) == 1
        assert "these are new and empty: /memory/data2" in said[0]


@pytest.mark.parametrize("is_back", ["at once", "when it is started again"])
async def test_a_topic_is_deleted_and_made_again_while_a_directory_is_offline(is_back: str) -> None:
    """What lies there of the deleted topic is removed, and keeps the node from nothing."""

    async with memory_cluster(3, 2) as cluster:
        await make(cluster)
        for index, one in enumerate(places(cluster)):
            await write(cluster.node(one.leader), "t", index, 0)
        controller = await cluster.controller()
        sick = next(one for one in cluster.engines if one != controller.info.node_id)
        old = in_directory(cluster.node(sick), 2)
        assert old
        disk = cluster.more[sick][0]
        disk.fail_writes = True
        cluster.node(sick).log_dirs.dirs[1].on_failure("input/output error")
        await cluster.until(lambda: bool(cluster.image.brokers[sick].offline_dirs))
        await controller.topic_admin.delete_topics([("t", None)])
        await make(cluster)
        assert in_directory(cluster.node(sick), 1) == [0, 1, 2, 3, 4, 5]
        assert in_directory(cluster.node(sick), 2) == []
        if is_back == "at once":
            disk.fail_writes = False
            await cluster.until(lambda: not cluster.image.brokers[sick].offline_dirs)
            await cluster.until(lambda: not any("/t-0/" in path for path in disk.files()))
        assert await cluster.stop(sick) == (is_back == "at once")
        disk.fail_writes = False
        await cluster.start(sick)
        await cluster.up(1, 2, 3)
        await cluster.until(lambda: all(sick in one.isr for one in places(cluster)))
        assert in_directory(cluster.node(sick), 1) == [0, 1, 2, 3, 4, 5]
        assert in_directory(cluster.node(sick), 2) == []
        await cluster.until(lambda: not any("/t-" in path for path in disk.files()))
        for index, one in enumerate(places(cluster)):
            await write(cluster.node(one.leader), "t", index, 0)
            assert cluster.node(one.leader).partitions.partition("t", index).log.end_offset == 1


async def test_a_topic_is_made_again_while_a_directory_could_not_be_opened() -> None:
    async with memory_cluster(3, 2) as cluster:
        await make(cluster)
        for index, one in enumerate(places(cluster)):
            await write(cluster.node(one.leader), "t", index, 0)
        disks = cluster.more[2]
        await cluster.stop(2)
        cluster.more[2] = [FaultyStorage()]
        cluster.more[2][0].fail_writes = True
        await cluster.start(2)
        await cluster.up(1, 2, 3)
        await (await cluster.controller()).topic_admin.delete_topics([("t", None)])
        await make(cluster)
        await cluster.stop(2)
        cluster.more[2] = disks
        await cluster.start(2)
        await cluster.up(1, 2, 3)
        await cluster.until(lambda: all(2 in one.isr for one in places(cluster)))
        assert in_directory(cluster.node(2), 2) == []
        for index, one in enumerate(places(cluster)):
            await write(cluster.node(one.leader), "t", index, 0)
            assert cluster.node(one.leader).partitions.partition("t", index).log.end_offset == 1


# --- AlterReplicaLogDirs --------------------------------------------------------------------------


def moved(path: str, *topics: str) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=one, partitions=[0]) for one in topics],
            )
        ]
    )


async def codes(broker: MemoryBroker, request: AlterReplicaLogDirsRequest) -> list[int]:
    answer = await broker.client().ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, request)
    return [two.error_code for one in answer.results for two in one.partitions]


async def test_a_partition_is_made_in_the_directory_that_was_chosen_for_it() -> None:
    disks = FaultyStorage(), FaultyStorage()
    async with memory_broker(disks[0], None, disks[1:]) as broker:
        names = ["a", "b", "c", "d"]
        assert await codes(broker, moved("/memory/data2", *names)) == (
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 4
        )
        for name in names:
            await broker.create(name)
            assert in_directory(broker.engine, 2, name) == [0]
        # It is there, so there is nothing to do; the other way it would have to be moved.
        assert await codes(broker, moved("/memory/data2", *names)) == [ErrorCode.NONE] * 4
        assert await codes(broker, moved("/memory/data", "a")) == [ErrorCode.UNSUPPORTED_VERSION]
        assert await codes(broker, moved("/no", "a")) == [ErrorCode.LOG_DIR_NOT_FOUND]
        disks[1].fail_writes = True
        with pytest.raises(StorageFailure):
            await write(broker.engine, "a", 0, 0)
        assert await codes(broker, moved("/memory/data2", "a")) == [ErrorCode.KAFKA_STORAGE_ERROR]


async def test_a_replica_that_is_not_here_yet_is_not_available() -> None:
    async with memory_cluster(3, 2) as cluster:
        await make(cluster, partitions=1, replicas=2)
        node = next(one for one in cluster.engines if one not in places(cluster)[0].replicas)
        answer = await cluster.client(node).ask(
            ApiKey.ALTER_REPLICA_LOG_DIRS, 2, moved("/memory/data2", "t")
        )
        ((result,),) = [one.partitions for one in answer.results]
        assert result.error_code == ErrorCode.REPLICA_NOT_AVAILABLE


async def test_a_replica_is_in_sync_again_when_its_directory_was_taken_out_of_the_settings() -> (
    None
):
    async with memory_cluster(3, 2) as cluster:
        controller = await cluster.controller()
        node = next(one for one in (1, 2, 3) if one != controller.info.node_id)
        command = CreateTopic(name="t", partitions=4, replication_factor=3)
        await controller.topic_admin.create_topics([command])

        def known() -> bool:
            partitions = cluster.image.topics["t"].partitions
            dirs = {one.directory_of(node) for one in partitions}
            return dirs == set(cluster.image.brokers[node].log_dirs)

        await cluster.until(known)
        await cluster.stop(node)
        cluster.more[node] = []
        await cluster.start(node)

        def is_whole() -> bool:
            image = cluster.image
            (only,) = image.brokers[node].log_dirs[:1]
            return all(
                one.directory_of(node) == only and len(one.isr) == 3
                for one in image.topics["t"].partitions
            )

        await cluster.until(is_whole)
