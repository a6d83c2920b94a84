"""Partitions that could not be opened, at the start or when they were made: they come back by themselves."""

import asyncio
import logging

import pytest

from millpond.base.errors import StorageFailure
from millpond.base.ids import TopicPartition
from tests.support.cluster.memory_broker import MemoryBroker, batch, memory_broker, records_of
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run

# Longer than any pause between two attempts.
_WHILE_S = 70.0


async def killed_with(storage: FaultyStorage, *values: bytes, **settings: str) -> None:
    """A broker that wrote these to two topics and was killed: its logs have to be recovered."""
    async with memory_broker(storage, **settings) as broker:
        for name in ("t", "other"):
            await broker.create(name)
            for value in values:
                broker.engine.partitions.append(name, 0, bytearray(batch(value)))
            broker.engine.partitions.partition(name, 0).log.flush()
        before = storage.copy()
    # What the clean stop wrote did not happen.
    storage._names, storage._dirs = before._names, before._dirs


def values_in(broker: MemoryBroker, topic: str) -> list[bytes | None]:
    log = broker.engine.partitions.partition(topic, 0).log
    return [one.value for one in records_of(log.read(0, 1 << 20, upto=log.end_offset).data)]


@pytest.mark.parametrize("policy", ["os", "group"])
def test_a_partition_whose_disk_cannot_be_read_at_the_start_is_there_when_it_can(
    policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        storage = FaultyStorage()
        await killed_with(storage, b"a", b"b", log_flush_policy=policy)
        storage.fail_reads = "data/t-0/"
        async with memory_broker(storage, log_flush_policy=policy) as broker:
            assert values_in(broker, "other") == [b"a", b"b"]
            with pytest.raises(StorageFailure, match=r"could not be opened .*tried again"):
                broker.engine.partitions.partition("t", 0)
            assert broker.engine.replicas.report().failed == (TopicPartition("t", 0),)
            # An administrator sees that the node does not have it.
            for asked in (None, [("t", 0), ("other", 0)]):
                described = broker.engine.disk_view.describe(asked)[0].partitions
                assert "t" not in {one.topic for one in described}
                assert "other" in {one.topic for one in described}
            await asyncio.sleep(_WHILE_S)
            assert len([line for line in caplog.messages if "t-0: cannot be opened" in line]) == 1
            storage.fail_reads = ""
            await asyncio.sleep(_WHILE_S)
            assert values_in(broker, "t") == [b"a", b"b"]
            assert broker.engine.replicas.report().failed == ()
            partition = broker.engine.partitions.partition("t", 0)
            broker.engine.partitions.append("t", 0, bytearray(batch(b"c")))
            await broker.engine.flusher.drained()
            assert partition.high_watermark == partition.log.end_offset == 3

    with caplog.at_level(logging.ERROR, "millpond.engine.partitions.topic_table"):
        run(story())


async def test_what_is_recovered_late_is_there_after_the_next_start() -> None:
    storage = FaultyStorage()
    await killed_with(storage, b"a", b"b")
    storage.fail_reads = "data/t-0/"
    async with memory_broker(storage) as broker:
        storage.fail_reads = ""
        broker.engine.replicas.retry_unopened()
        await asyncio.sleep(0)
        assert values_in(broker, "t") == [b"a", b"b"]
        broker.engine.partitions.append("t", 0, bytearray(batch(b"c")))
    async with memory_broker(storage) as broker:
        assert values_in(broker, "t") == [b"a", b"b", b"c"]
        assert broker.engine.log_dirs.reports == []


async def test_a_partition_of_a_full_disk_is_made_when_there_is_space() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("first")
        # Enough for the fact, too little for the directory.
        storage.capacity = storage.used + 170
        await broker.create("t")
        await asyncio.sleep(0.1)
        assert broker.engine.topics.failed_to_open.keys() == {TopicPartition("t", 0)}
        await asyncio.sleep(_WHILE_S)
        storage.capacity = None
        await asyncio.sleep(_WHILE_S)
        # Without a client that asks for it.
        assert broker.engine.topics.failed_to_open == {}
        assert storage.exists("data/t-0")


async def test_a_topic_that_was_deleted_meanwhile_is_not_tried_again() -> None:
    storage = FaultyStorage()
    await killed_with(storage, b"a")
    storage.fail_reads = "data/t-0/"
    async with memory_broker(storage) as broker:
        await broker.engine.topic_admin.delete_topics([("t", None)])
        assert broker.engine.topics.failed_to_open == {}
        storage.fail_reads = ""
        # The next topic of that name, with another id, is not given the old one's records.
        await broker.create("another")
        await broker.create("t")
        await asyncio.sleep(_WHILE_S)
        assert values_in(broker, "t") == []
        # They are deleted with their topic, though they could not be read.
        assert not any("-stray" in name or "-delete" in name for name in storage.files())
