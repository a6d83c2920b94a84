"""What the broker does when nobody asks, on a clock that the test moves."""

import asyncio
import threading

import pytest

from millpond.engine.api import RESOURCE_TOPIC, AlterConfigs, AlterOp
from millpond.engine.partitions.maintenance import Maintenance
from millpond.log.compaction import CompactionPlan
from millpond.record.batch import write_crc
from millpond.record.builder import build_batch
from tests.support.cluster.memory_broker import MemoryBroker, batch, memory_broker, records_of
from tests.support.time.virtual_loop import LoopClock, virtual_loop

HOUR_S = 3600.0


def maintenance_of(broker: MemoryBroker) -> Maintenance:
    return broker.engine.maintenance


def write(broker: MemoryBroker, *values: bytes) -> None:
    for value in values:
        records = batch(value, timestamp_ms=broker.clock.now_ms())
        broker.engine.partitions.append("t", 0, bytearray(records))


async def test_old_segments_go_and_their_files_follow_after_a_while() -> None:
    async with memory_broker() as broker:
        await broker.create(
            "t", retention_ms="60000", segment_bytes="1000", file_delete_delay_ms="30000"
        )
        write(broker, *[b"x" * 400] * 6)
        before = set(broker.storage.files())
        virtual_loop().now += HOUR_S
        await maintenance_of(broker).retain()
        log = broker.engine.partitions.partition("t", 0).log
        assert log.start_offset == 6
        virtual_loop().now += 31
        await maintenance_of(broker).purge()
        left = {name for name in broker.storage.files() if name.startswith("data/t-0/")}
        assert not any(".log" in name for name in left & before)
        assert not any(name.endswith(".deleted") for name in left)


async def test_the_files_of_a_deleted_topic_go_after_their_delay() -> None:
    async with memory_broker() as broker:
        await broker.create("t", file_delete_delay_ms="1000")
        write(broker, b"v")
        await broker.engine.topic_admin.delete_topics([("t", None)])
        assert any("-delete/" in name for name in broker.storage.files())
        virtual_loop().now += 2
        await maintenance_of(broker).purge()
        assert not any("-delete/" in name for name in broker.storage.files())


async def test_a_segment_is_closed_by_time_and_flushed() -> None:
    async with memory_broker() as broker:
        await broker.create("t", segment_ms="60000")
        write(broker, b"v")
        log = broker.engine.partitions.partition("t", 0).log
        virtual_loop().now += HOUR_S
        await maintenance_of(broker).roll()
        assert log.active.base_offset == 1
        await broker.engine.flusher.drained()
        assert log.recovery_point == 1


async def test_data_is_flushed_when_it_is_old_enough_or_enough() -> None:
    async with memory_broker() as broker:
        await broker.create("t", flush_ms="5000", flush_messages="3")
        log = broker.engine.partitions.partition("t", 0).log
        write(broker, b"a", b"b")
        await maintenance_of(broker).flush_due()
        await broker.engine.flusher.drained()
        assert log.recovery_point == 0
        virtual_loop().now += 6
        await maintenance_of(broker).flush_due()
        await broker.engine.flusher.drained()
        assert log.recovery_point == 2
        write(broker, b"c", b"d", b"e")
        await maintenance_of(broker).flush_due()
        await broker.engine.flusher.drained()
        assert log.recovery_point == 5


async def test_a_closed_segment_is_flushed_soon() -> None:
    async with memory_broker() as broker:
        await broker.create("t", segment_bytes="1000")
        write(broker, *[b"x" * 400] * 4)
        await maintenance_of(broker).flush_due()
        await broker.engine.flusher.drained()
        assert broker.engine.partitions.partition("t", 0).log.recovery_point == 4


async def test_a_compacted_topic_keeps_the_latest_of_each_key() -> None:
    async with memory_broker() as broker:
        await broker.create(
            "t",
            cleanup_policy="compact",
            segment_bytes="1000",
            min_cleanable_dirty_ratio="0.01",
        )
        for number in range(20):
            key, value = b"key%d" % (number % 3), b"%d" % number + b"." * 100
            made = build_batch([(LoopClock.EPOCH_MS, key, value, ())])
            broker.engine.partitions.append("t", 0, made)
        virtual_loop().busy = lambda: True  # the cleaner's thread is real
        await maintenance_of(broker).compact()
        virtual_loop().busy = lambda: broker.engine.flusher.is_busy
        partition = broker.engine.partitions.partition("t", 0)
        data = bytearray()
        offset = 0
        while offset < partition.high_watermark:
            found = broker.engine.partitions.read_now(partition, offset, bytes_max=1 << 20)
            records = records_of(found.records)
            data += bytes(found.records)
            offset = records[-1].offset + 1
        latest = {}
        for record in records_of(bytes(data)):
            latest[record.key] = record.offset
        assert latest == {b"key0": 18, b"key1": 19, b"key2": 17}
        assert len(records_of(bytes(data))) < 20


async def test_a_topic_deleted_during_its_compaction_stays_deleted() -> None:
    async with memory_broker() as broker:
        await broker.create(
            "t",
            cleanup_policy="compact",
            segment_bytes="1000",
            min_cleanable_dirty_ratio="0.01",
        )
        for number in range(20):
            made = build_batch([(LoopClock.EPOCH_MS, b"k", b"%d" % number + b"." * 100, ())])
            broker.engine.partitions.append("t", 0, made)
        async with asyncio.TaskGroup() as group:
            group.create_task(maintenance_of(broker).compact())
            await broker.engine.topic_admin.delete_topics([("t", None)])
        assert not [name for name in broker.storage.files() if name.startswith("data/t-0/")]


async def test_a_long_compaction_holds_nothing_else_up(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = threading.Event()
    monkeypatch.setattr(CompactionPlan, "run", lambda plan: hours.wait() and None)
    async with memory_broker() as broker:
        await broker.create("t", cleanup_policy="compact", segment_bytes="1000")
        for number in range(20):
            made = build_batch([(LoopClock.EPOCH_MS, b"k", b"%d" % number + b"." * 100, ())])
            broker.engine.partitions.append("t", 0, made)
        await asyncio.sleep(90)
        written = broker.storage.read_all("data/recovery-point-offset-checkpoint")
        hours.set()
        assert written is not None
        assert b"t 0 20" in written


@pytest.mark.parametrize("rotten", [False, True])
async def test_rot_ends_the_compaction_of_its_log_and_nonsense_of_a_producer_does_not(
    rotten: bool,
) -> None:
    async with memory_broker() as broker:
        await broker.create("t", segment_bytes="1000")
        nonsense = build_batch([(LoopClock.EPOCH_MS, b"k", b"." * 100, ())])
        nonsense[-3:] = b"???"
        write_crc(nonsense, 0, len(nonsense))
        for _ in range(20):
            # As releases did that did not read the records before they appended them.
            broker.engine.partitions.append("t", 0, bytearray(nonsense), internal=True)
        if rotten:
            broker.storage.flip("data/t-0/00000000000000000000.log", 100)
        compacts = AlterConfigs(
            resource_type=RESOURCE_TOPIC,
            resource_name="t",
            operations=[("cleanup.policy", AlterOp.SET, "compact")],
        )
        await broker.engine.settings_admin.alter_configs([compacts])
        virtual_loop().busy = lambda: True  # the cleaner's thread is real
        await maintenance_of(broker).compact()
        virtual_loop().busy = lambda: broker.engine.flusher.is_busy
        log = broker.engine.partitions.partition("t", 0).log
        assert (log.uncleanable is not None) == rotten
        assert log.plan_compaction(broker.clock.now_ms()) is None


async def test_checkpoints_are_written_on_their_own() -> None:
    async with memory_broker() as broker:
        await broker.create("t", flush_policy="group")
        appended = broker.engine.partitions.append("t", 0, bytearray(batch(b"v")))
        assert appended.durable is not None
        await appended.durable
        await asyncio.sleep(61)  # virtual: the task itself comes round
        written = broker.storage.read_all("data/recovery-point-offset-checkpoint")
        assert written is not None
        assert b"t 0 1" in written


async def test_files_that_cannot_be_deleted_now_are_later() -> None:
    async with memory_broker() as broker:
        await broker.create(
            "t", retention_ms="60000", segment_bytes="1000", file_delete_delay_ms="1000"
        )
        await broker.create("gone", file_delete_delay_ms="1000")
        write(broker, *[b"x" * 400] * 6)
        virtual_loop().now += HOUR_S
        await maintenance_of(broker).retain()
        await broker.engine.topic_admin.delete_topics([("gone", None)])
        broker.storage.fail_deletes = "data/"
        virtual_loop().now += 2
        await maintenance_of(broker).purge()
        assert any(name.endswith(".deleted") for name in broker.storage.files())
        assert any("-delete/" in name for name in broker.storage.files())
        broker.storage.fail_deletes = ""
        virtual_loop().now += 70
        await maintenance_of(broker).purge()
        assert not any(name.endswith(".deleted") for name in broker.storage.files())
        assert not any("-delete/" in name for name in broker.storage.files())
