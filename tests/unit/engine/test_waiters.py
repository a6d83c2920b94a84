"""Long poll without polling: one timer, a count of bytes, one call."""

import asyncio

from millpond.engine.partitions.waiters import ReadWaiter
from tests.support.cluster.memory_broker import MemoryBroker, batch, memory_broker
from tests.support.time.virtual_loop import virtual_loop


def wait(
    broker: MemoryBroker, calls: list[float], missing: int = 1, wait_ms: int = 1000
) -> ReadWaiter:
    return broker.engine.partitions.wait_for_data(
        [broker.engine.partitions.partition("t", index) for index in range(2)],
        missing_bytes=missing,
        wait_ms=wait_ms,
        done=lambda: calls.append(virtual_loop().now),
    )


def watchers(broker: MemoryBroker) -> list[int]:
    return [len(broker.engine.partitions.partition("t", index).watchers) for index in range(2)]


async def test_the_wait_ends_once_when_its_time_is_over() -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=2)
        calls: list[float] = []
        start = virtual_loop().now
        wait(broker, calls, wait_ms=250)
        await asyncio.sleep(10)
        assert [round(call - start, 3) for call in calls] == [0.25]
        assert watchers(broker) == [0, 0]


async def test_bytes_are_counted_over_all_partitions_and_the_call_comes_after_the_append() -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=2)
        calls: list[float] = []
        size = len(batch(b"v"))
        wait(broker, calls, missing=2 * size)
        broker.engine.partitions.append("t", 0, bytearray(batch(b"v")))
        await asyncio.sleep(0)
        assert calls == []
        broker.engine.partitions.append("t", 1, bytearray(batch(b"v")))
        broker.engine.partitions.append("t", 1, bytearray(batch(b"v")))
        assert calls == []  # not from within the append
        await asyncio.sleep(0)
        assert len(calls) == 1
        assert watchers(broker) == [0, 0]
        await asyncio.sleep(10)
        assert len(calls) == 1


async def test_a_cancelled_wait_is_forgotten() -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=2)
        calls: list[float] = []
        waiter = wait(broker, calls)
        broker.engine.partitions.append("t", 0, bytearray(batch(b"v")))  # wakes it
        waiter.cancel()  # before its turn
        await asyncio.sleep(10)
        assert calls == []
        assert watchers(broker) == [0, 0]


async def test_a_duplicate_batch_wakes_nobody() -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=2)
        records = batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0)
        broker.engine.partitions.append("t", 0, bytearray(records))
        calls: list[float] = []
        wait(broker, calls, wait_ms=60_000)
        broker.engine.partitions.append("t", 0, bytearray(records))
        await asyncio.sleep(1)
        assert calls == []
