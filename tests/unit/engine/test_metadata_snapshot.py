"""Snapshots of the metadata: nothing is lost by forgetting how it came about."""

import asyncio

import pytest

from millpond.base.errors import CorruptLog
from millpond.engine.quorum import snapshotting
from millpond.engine.quorum.metadata_snapshot import read_snapshot, write_snapshot
from millpond.metadata.families import NO_FAMILIES
from millpond.metadata.image import Image, apply
from millpond.metadata.image_records import image_records
from tests.support.cluster.memory_broker import MemoryBroker, memory_broker
from tests.support.storage.faulty_storage import FaultyStorage

DIRECTORY = "data/__cluster_metadata-0"
ENOUGH = 10_000_000


def checkpoints(storage: FaultyStorage) -> list[str]:
    return [name for name in storage.files() if name.endswith(".checkpoint")]


async def shorten(broker: MemoryBroker) -> None:
    await broker.engine.metadata.quorum.take_snapshot()


async def eventful() -> MemoryBroker:
    """A stopped broker with some history."""
    async with memory_broker() as broker:
        await broker.create("gone")
        await broker.create("kept", partitions=3, retention_ms="77")
        await broker.engine.topic_admin.delete_topics([("gone", None)])
        await broker.engine.producer_ids.first_identity()
        await shorten(broker)
        await broker.create("later")
        await shorten(broker)
        await broker.create("latest")
    return broker


async def test_an_image_and_its_facts_are_the_same() -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=2, retention_ms="77")
        await broker.engine.producer_ids.first_identity()
        image = broker.engine.metadata.image
        assert apply(Image(), image_records(image)) == image


async def test_a_start_from_a_snapshot_and_the_log_behind_it() -> None:
    before = await eventful()
    assert len(checkpoints(before.storage)) == 2
    logs = [name for name in before.storage.files() if name.endswith(".log")]
    assert f"{DIRECTORY}/00000000000000000000.log" not in logs
    async with memory_broker(before.storage) as again:
        assert again.engine.metadata.image == before.engine.metadata.image
        assert (await again.engine.producer_ids.first_identity())[0] == 1000
        assert again.engine.metadata.quorum.log.start_offset > 0


async def test_a_newer_snapshot_takes_the_place_of_the_older() -> None:
    before = await eventful()
    async with memory_broker(before.storage) as again:
        oldest = checkpoints(again.storage)[0]
        await shorten(again)
        assert len(checkpoints(again.storage)) == 2
        assert oldest not in checkpoints(again.storage)
    async with memory_broker(before.storage) as third:
        assert third.engine.metadata.image == again.engine.metadata.image


async def test_a_damaged_snapshot_that_the_log_does_not_need_is_passed_over() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t")
        image = broker.engine.metadata.image
        write_snapshot(storage, DIRECTORY, image, end_offset=3, epoch=1, now_ms=5)
    (name,) = checkpoints(storage)
    storage.flip(name, 100)
    async with memory_broker(storage) as again:
        assert set(again.engine.metadata.image.topics) == {"t"}


async def test_a_start_is_refused_when_the_snapshot_that_the_log_needs_is_damaged() -> None:
    before = await eventful()
    for name in checkpoints(before.storage):
        before.storage.cut(name, before.storage.files()[name] - 10)
    with pytest.raises(CorruptLog):
        await MemoryBroker(before.storage, {}).start()
    # Nothing is held by the failed start.
    with pytest.raises(CorruptLog):
        await MemoryBroker(before.storage, {}).start()


async def test_offsets_go_on_behind_a_snapshot_whose_log_is_gone() -> None:
    before = await eventful()
    for name in [one for one in before.storage.files() if one.startswith(DIRECTORY)]:
        if not name.endswith((".checkpoint", "quorum-state")):
            before.storage.delete(name)
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        before.storage.delete(f"data/{name}")
    async with memory_broker(before.storage) as again:
        assert "kept" in again.engine.metadata.image.topics
        await again.create("new")
    async with memory_broker(before.storage) as third:
        assert {"kept", "new"} <= set(third.engine.metadata.image.topics)


async def test_a_damaged_snapshot_is_passed_over_for_the_one_before_it() -> None:
    before = await eventful()
    before.storage.flip(checkpoints(before.storage)[-1], 100)
    async with memory_broker(before.storage) as again:
        assert again.engine.metadata.image == before.engine.metadata.image


async def test_a_log_that_is_mostly_history_is_replaced_while_the_broker_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshotting, "FACTS_MIN", 40)

    async with memory_broker() as broker:
        for _ in range(60):
            await broker.create("t")
            await broker.engine.topic_admin.delete_topics([("t", None)])
        await broker.create("kept")
        while len(checkpoints(broker.storage)) < 2:
            await asyncio.sleep(0.001)
        host = broker.engine.metadata.quorum
        assert host.log.start_offset > 0
        assert host.end_offset - host.log.start_offset < 150
    async with memory_broker(broker.storage) as again:
        assert set(again.engine.metadata.image.topics) == {"kept"}


async def test_a_short_log_is_left_alone() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        assert checkpoints(broker.storage) == []


async def test_any_flip_of_a_bit_is_noticed() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        image = broker.engine.metadata.image
    storage = FaultyStorage()
    storage.make_dir("d")
    write_snapshot(storage, "d", image, end_offset=9, epoch=1, now_ms=5)
    (name,) = checkpoints(storage)
    good = read_snapshot(storage, "d", log_start=0, families=NO_FAMILIES)
    for position in range(storage.files()[name]):
        storage.flip(name, position)
        assert read_snapshot(storage, "d", log_start=0, families=NO_FAMILIES) in (None, good)
        storage.flip(name, position)
