"""A node with several log directories: one of them fails, and the others serve on."""

import asyncio

import pytest

from millpond.base.errors import StorageFailure
from millpond.base.ids import TopicPartition
from millpond.engine.engine import Engine
from millpond.record.builder import build_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.support.faulty_storage import FaultyStorage
from tests.support.memory_broker import memory_broker
from tests.support.virtual_loop import LoopClock, run


def value(number: int) -> bytearray:
    return build_batch([(LoopClock.EPOCH_MS, None, b"%d" % number, ())])


async def write(engine: Engine, topic: str, index: int, number: int) -> None:
    durable = engine.append(topic, index, value(number)).durable
    if durable is not None:
        await durable


def in_directory(engine: Engine, number: int, topic: str = "t") -> list[int]:
    """The partitions of a topic that lie in this directory."""
    logs = engine.log_dirs.dirs[number - 1].logs
    return sorted(key.partition for key in logs if key.topic == topic)


# --- a node alone ---------------------------------------------------------------------------------


def test_partitions_are_spread_over_the_directories_and_found_again() -> None:
    async def story() -> None:
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
                assert broker.engine.partition("t", index).log.end_offset == 1

    run(story())


@pytest.mark.parametrize("failure", ["full", "eio", "sync"])
def test_one_directory_fails_and_the_other_serves_on(failure: str) -> None:
    async def story() -> None:
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
            await asyncio.sleep(30)
            with pytest.raises(StorageFailure):
                await write(engine, "t", sick[0], 1)
            disks[1].capacity, disks[1].fail_writes, disks[1].fail_syncs = None, False, False
            await engine.disk.online()
            assert engine.disk.offline == {}
            for index in sick:
                await write(engine, "t", index, 1)
                log = engine.partition("t", index).log
                # What could not be synced the first time has been written again.
                kept = 2 + (failure == "sync" and index == sick[0])
                assert log.end_offset == log.recovery_point == kept

    run(story())


def test_the_directory_of_the_metadata_log_takes_the_node_with_it() -> None:
    async def story() -> None:
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

    run(story())


def test_a_directory_that_is_missing_at_the_start_keeps_its_partitions_shut() -> None:
    async def story() -> None:
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
                engine.rng.uuid4()
            await broker.create("u", 2)
            await write(engine, "u", 0, 0)
            await asyncio.sleep(120)
        async with memory_broker(disks[0], None, disks[1:]) as broker:
            for index in range(4):
                log = broker.engine.partition("t", index).log
                assert log.end_offset == (2 if index in well else 1)

    run(story())


def test_log_dirs_are_described_one_by_one() -> None:
    async def story() -> None:
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

    run(story())
