"""Group commit: many writers, few fsyncs, every promise kept."""

import asyncio
import contextlib
import logging
import threading

import pytest

from millpond.base.errors import MillpondError, StorageFailure, UnknownTopic
from tests.support.cluster.memory_broker import batch, memory_broker
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run


class CountingDisk(FaultyStorage):
    """Counts syncs, and can hold them."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.may_sync = threading.Event()
        self.may_sync.set()

    def _sync(self) -> None:
        assert self.may_sync.wait(20)
        self.syncs += 1
        super()._sync()


async def test_writes_that_come_during_a_flush_share_the_next_one() -> None:
    disk = CountingDisk()
    async with memory_broker(disk) as broker:
        await broker.create("t", flush_policy="group")
        first = broker.engine.partitions.append("t", 0, bytearray(batch(b"0"))).durable
        assert first is not None
        await first  # names of new files are synced with it
        disk.syncs = 0
        disk.may_sync.clear()

        waiting = [broker.engine.partitions.append("t", 0, bytearray(batch(b"x"))).durable]
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the first plan is with the thread now
        waiting += [
            broker.engine.partitions.append("t", 0, bytearray(batch(b"x"))).durable
            for _ in range(100)
        ]
        disk.may_sync.set()
        for future in waiting:
            assert future is not None
            await future
        assert disk.syncs == 2
        assert broker.engine.partitions.partition("t", 0).high_watermark == 102


async def test_writes_of_one_turn_of_the_loop_share_one_fsync() -> None:
    disk = CountingDisk()
    async with memory_broker(disk) as broker:
        await broker.create("t", flush_policy="group")
        first = broker.engine.partitions.append("t", 0, bytearray(batch(b"0"))).durable
        assert first is not None
        await first
        disk.syncs = 0
        futures = [
            broker.engine.partitions.append("t", 0, bytearray(batch(b"x"))).durable
            for _ in range(50)
        ]
        for future in futures:
            assert future is not None
            await future
        assert disk.syncs == 1


async def test_the_high_watermark_follows_the_flush_and_never_the_append() -> None:
    async with memory_broker() as broker:
        await broker.create("t", flush_policy="group")
        partition = broker.engine.partitions.partition("t", 0)
        seen: list[tuple[int, int]] = []
        for number in range(5):
            future = broker.engine.partitions.append("t", 0, bytearray(batch(b"x"))).durable
            assert partition.high_watermark == number
            assert future is not None
            await future
            seen.append((partition.high_watermark, partition.log.recovery_point))
        assert seen == [(number, number) for number in range(1, 6)]


async def test_a_failed_flush_is_told_to_everyone_who_waited_and_nobody_is_promised_anything() -> (
    None
):
    disk = CountingDisk()
    async with memory_broker(disk) as broker:
        await broker.create("t", flush_policy="group")
        disk.fail_syncs = True
        futures = [
            broker.engine.partitions.append("t", 0, bytearray(batch(b"x"))).durable
            for _ in range(3)
        ]
        told: list[type[MillpondError]] = []
        for future in futures:
            assert future is not None
            try:
                await future
            except StorageFailure as error:
                told.append(type(error))
        assert told == [StorageFailure] * 3
        assert broker.engine.partitions.partition("t", 0).high_watermark == 0
        disk.fail_syncs = False


def test_a_topic_deleted_during_its_flush_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        disk = CountingDisk()
        async with memory_broker(disk) as broker:
            await broker.create("t", flush_policy="group")
            await broker.create("u")
            disk.may_sync.clear()
            future = broker.engine.partitions.append("t", 0, bytearray(batch(b"x"))).durable
            assert future is not None
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # the plan is with the thread now
            # The deletion's own fact waits behind it in the same thread.
            async with asyncio.TaskGroup() as group:
                group.create_task(broker.engine.topic_admin.delete_topics([("t", None)]))
                await asyncio.sleep(0)
                disk.may_sync.set()
            with contextlib.suppress(UnknownTopic):
                await future
            await broker.engine.flusher.drained()

    run(story())
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
