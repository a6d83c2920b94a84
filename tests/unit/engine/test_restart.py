"""What a broker knows again after its process or its machine died at a bad moment."""

import contextlib

import pytest

from millpond.base.errors import StorageFailure
from millpond.log.storage import Names
from millpond.record.builder import build_batch
from tests.support.cluster.memory_broker import MemoryBroker, memory_broker
from tests.support.storage.faulty_storage import Crash, FaultyStorage
from tests.support.time.virtual_loop import LoopClock


def write_keys(broker: MemoryBroker, count: int) -> None:
    for number in range(count):
        key, value = b"key%d" % (number % 3), b"%d" % number + b"." * 100
        broker.engine.partitions.append("t", 0, build_batch([(LoopClock.EPOCH_MS, key, value, ())]))


@pytest.mark.parametrize("changes", range(0, 120, 4))
async def test_a_crash_in_the_middle_of_a_compaction_takes_no_record(changes: int) -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t", cleanup_policy="compact", segment_bytes="1000")
        write_keys(broker, 40)
        log = broker.engine.partitions.partition("t", 0).log
        plan = log.plan_compaction(broker.clock.now_ms())
        assert plan is not None
        result = plan.run()
        died = storage.copy()
        log.storage = died
        died.crash_at = changes
        with contextlib.suppress(Crash):
            log.install_compaction(result)
        log.storage = storage
    died.kill()
    async with memory_broker(died) as broker:
        log = broker.engine.partitions.partition("t", 0).log
        assert log.end_offset == 40
        assert log.damage == []


class UnlistableStorage(FaultyStorage):
    """Has too many files open, for a moment, when a certain directory is looked into."""

    unlistable = ""

    def list(self, path: str) -> Names:
        if path == self.unlistable:
            raise StorageFailure(f"cannot list {path}: too many open files")
        return super().list(path)


async def test_a_partition_that_cannot_be_listed_is_left_out_and_not_begun_anew() -> None:
    storage = UnlistableStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t")
        write_keys(broker, 3)
    storage.unlistable = "data/t-0"
    async with memory_broker(storage) as broker:
        with pytest.raises(StorageFailure):
            broker.engine.partitions.partition("t", 0)
    storage.unlistable = ""
    async with memory_broker(storage) as broker:
        assert broker.engine.partitions.partition("t", 0).log.end_offset == 3


async def test_metadata_that_cannot_be_read_stops_the_start_and_is_not_begun_anew() -> None:
    storage = UnlistableStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t", retention_ms="77")
    storage.unlistable = "data/__cluster_metadata-0"
    with pytest.raises(StorageFailure):
        async with memory_broker(storage):
            pass
    storage.unlistable = ""
    async with memory_broker(storage) as broker:
        assert broker.engine.partitions.config_of("t").retention_ms == 77


async def test_what_was_written_down_about_an_unreadable_partition_is_kept() -> None:
    storage = UnlistableStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t")
        write_keys(broker, 9)
        broker.engine.partitions.delete_records("t", 0, 4)
    storage.unlistable = "data/t-0"
    async with memory_broker(storage):
        pass
    storage.unlistable = ""
    async with memory_broker(storage) as broker:
        log = broker.engine.partitions.partition("t", 0).log
        assert (log.start_offset, log.recovery_point) == (4, 9)


async def test_a_topic_that_could_not_be_made_durable_is_not_made_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        metadata = broker.engine.metadata.quorum.log.log

        def refuse() -> None:
            raise StorageFailure("cannot duplicate: too many open files")

        with monkeypatch.context() as patch:
            patch.setattr(metadata, "begin_flush", refuse)
            with pytest.raises(StorageFailure):
                await broker.create("t")
        # The fact stands in the log, durable or not; a second one would contradict it.
        with pytest.raises(StorageFailure):
            await broker.create("t")
    async with memory_broker(storage) as broker:
        assert list(broker.engine.metadata.image.topics) == ["t"]
