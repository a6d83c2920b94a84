"""The engine's life: start, stop, crash, power cut, full disk; metadata and directories in step."""

import asyncio
import logging

import pytest

from millpond.base.errors import (
    DataDirectoryInUse,
    MetadataMissing,
    ShuttingDown,
    StorageFailure,
    TopicExists,
    UnknownTopic,
)
from millpond.engine.api import RESOURCE_BROKER, RESOURCE_TOPIC, AlterConfigs, AlterOp, CreateTopic
from millpond.record.builder import build_batch
from tests.support.cluster.memory_broker import MemoryBroker, batch, memory_broker, values_of
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, run


def write(broker: MemoryBroker, *values: bytes, topic: str = "t") -> None:
    for value in values:
        appended = broker.engine.partitions.append(topic, 0, bytearray(batch(value)))
        assert appended.durable is None


def read_values(broker: MemoryBroker, topic: str = "t") -> list[bytes | None]:
    partition = broker.engine.partitions.partition(topic, 0)
    found = broker.engine.partitions.read_now(
        partition, partition.log.start_offset, bytes_max=1 << 20
    )
    return values_of(found.records)


async def test_topics_settings_and_records_survive_a_clean_restart() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        topic_id = await broker.create("t", partitions=2, retention_ms="1234567")
        write(broker, b"a", b"b")
        cluster_id = broker.engine.info.cluster_id
    async with memory_broker(storage) as again:
        assert again.engine.info.cluster_id == cluster_id
        assert again.engine.metadata.image.topics["t"].topic_id == topic_id
        assert again.engine.partitions.partition("t", 1).log.config.retention_ms == 1234567
        assert again.engine.partitions.partition("t", 0).leader_epoch == 0
        assert read_values(again) == [b"a", b"b"]


async def test_after_a_kill_everything_acknowledged_is_there_and_a_new_epoch_begins() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t")
        write(broker, b"a", b"b")
        dead = storage.copy()
    dead.delete("data/.kafka_cleanshutdown")
    async with memory_broker(dead) as again:
        assert read_values(again) == [b"a", b"b"]
        assert again.engine.partitions.partition("t", 0).leader_epoch == 1
        assert again.engine.metadata.image.topics["t"].partitions[0].leader_epoch == 1


async def test_a_topic_that_was_answered_survives_a_power_cut() -> None:
    storage = FaultyStorage()
    broker = MemoryBroker(storage, {})
    await broker.start()
    topic_id = await broker.create("t", flush_policy="group")
    appended = broker.engine.partitions.append("t", 0, bytearray(batch(b"durable")))
    assert appended.durable is not None
    await appended.durable
    write_unflushed = broker.engine.partitions.append("t", 0, bytearray(batch(b"not yet")))
    assert write_unflushed.durable is not None
    lost = storage.copy_durable()
    await broker.engine.stop()
    async with memory_broker(lost) as again:
        assert again.engine.metadata.image.topics["t"].topic_id == topic_id
        assert read_values(again) == [b"durable"]


async def test_one_directory_one_broker() -> None:
    async with memory_broker() as broker:
        second = MemoryBroker(broker.storage, {})
        with pytest.raises(DataDirectoryInUse):
            await second.start()


async def test_a_directory_that_a_crash_left_out_is_made_at_the_next_start() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t", partitions=2)
    storage.delete_tree("data/t-1")
    async with memory_broker(storage) as again:
        assert again.engine.partitions.partition("t", 1).log.end_offset == 0
        assert any(name.startswith("data/t-1/") for name in storage.files())


def test_a_directory_of_a_deleted_topic_is_removed_at_the_next_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        storage = FaultyStorage()
        async with memory_broker(storage) as broker:
            await broker.create("t")
            write(broker, b"old")
            left = {name: storage.read_all(name) for name in storage.files() if "/t-0/" in name}
            await broker.engine.topic_admin.delete_topics([("t", None)])
        storage.make_dir("data/t-0")
        for name, data in left.items():
            assert data is not None
            storage.write(name, data)
        async with memory_broker(storage) as again:
            with pytest.raises(UnknownTopic):
                again.engine.partitions.partition("t", 0)
            assert not [name for name in storage.files() if name.startswith("data/t-0/")]

    run(story())
    assert "its topic was deleted" in caplog.text


def test_data_that_no_fact_speaks_of_is_set_aside_and_never_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        storage = FaultyStorage()
        async with memory_broker(storage) as broker:
            await broker.create("t")
            write(broker, b"precious")
        kept = storage.read_all("data/t-0/00000000000000000000.log")
        storage.make_dir("data/copied-0")
        for name in [name for name in storage.files() if name.startswith("data/t-0/")]:
            data = storage.read_all(name)
            assert data is not None
            storage.write(name.replace("/t-0/", "/copied-0/"), data)
        for _ in range(2):
            async with memory_broker(storage) as again:
                with pytest.raises(UnknownTopic):
                    again.engine.partitions.partition("copied", 0)
        stray = [name for name in storage.files() if "-stray/" in name and name.endswith(".log")]
        assert [storage.read_all(name) for name in stray] == [kept]

    run(story())
    assert "kept as data/copied-0." in caplog.text


async def test_a_copy_that_is_put_back_does_not_stop_the_start() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t")
        write(broker, b"precious")
    original = {name: storage.read_all(name) for name in storage.files() if "/t-0/" in name}
    for _ in range(2):
        storage.make_dir("data/copied-0")
        for name, data in original.items():
            assert data is not None
            storage.write(name.replace("/t-0/", "/copied-0/"), data)
        async with memory_broker(storage):
            pass
    stray = [name for name in storage.files() if "-stray/" in name and name.endswith(".log")]
    assert len(stray) == 2


def test_who_alters_what_has_no_effect_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with memory_broker() as broker:
            (result,) = await broker.engine.settings_admin.alter_configs(
                [
                    AlterConfigs(
                        resource_type=RESOURCE_BROKER,
                        resource_name="",
                        operations=[
                            ("background.threads", AlterOp.SET, "20"),
                            ("log.retention.ms", AlterOp.SET, "1000"),
                        ],
                    )
                ]
            )
            assert result.error is None
            assert broker.engine.settings.get("background.threads") == 20

    run(story())
    assert "accepted, no effect: background.threads" in caplog.messages


async def test_a_compacted_log_without_metadata_is_not_cut_at_its_gaps() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t", segment_bytes="1000")
        await broker.engine.settings_admin.alter_configs(
            [
                AlterConfigs(
                    resource_type=RESOURCE_TOPIC,
                    resource_name="t",
                    operations=[("cleanup.policy", AlterOp.SET, "compact")],
                )
            ]
        )
        for number in range(60):
            record = (LoopClock.EPOCH_MS, b"k%d" % (number % 3), b"." * 100, ())
            broker.engine.partitions.append("t", 0, build_batch([record]))
        log = broker.engine.partitions.partition("t", 0).log
        plan = log.plan_compaction(broker.clock.now_ms())
        assert plan is not None
        log.install_compaction(plan.run())
        log.flush()
        left = storage.copy()
    left.delete_tree("data/__cluster_metadata-0")
    left.delete("data/cleaner-offset-checkpoint")
    left.delete("data/recovery-point-offset-checkpoint")
    async with memory_broker(left, metadata_log_missing="adopt") as again:
        adopted = again.engine.partitions.partition("t", 0).log
        assert adopted.end_offset == 60
        assert not adopted.damage


async def test_a_directory_of_an_earlier_topic_of_the_same_name_is_not_mistaken_for_it() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t")
        write(broker, b"old")
        left = {name: storage.read_all(name) for name in storage.files() if "/t-0/" in name}
        await broker.engine.topic_admin.delete_topics([("t", None)])
        await broker.create("t")
    storage.delete_tree("data/t-0")
    storage.make_dir("data/t-0")
    for name, data in left.items():
        assert data is not None
        storage.write(name, data)
    async with memory_broker(storage) as again:
        assert read_values(again) == []


async def test_data_without_any_metadata_is_adopted_if_somebody_says_so() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        topic_id = await broker.create("t", partitions=2)
        write(broker, b"kept")
    storage.delete_tree("data/__cluster_metadata-0")
    before = {path: size for path, size in storage.files().items() if path.endswith(".log")}
    with pytest.raises(MetadataMissing, match=r"t-0.*metadata\.log\.missing=adopt"):
        async with memory_broker(storage):
            pass
    assert before.items() <= storage.files().items()
    async with memory_broker(storage, metadata_log_missing="adopt") as again:
        assert again.engine.metadata.image.topics["t"].topic_id == topic_id
        assert len(again.engine.metadata.image.topics["t"].partitions) == 2
        assert read_values(again) == [b"kept"]


async def test_metadata_that_cannot_be_written_changes_nothing() -> None:
    async with memory_broker() as broker:
        await broker.create("before")
        broker.storage.capacity = broker.storage.used
        with pytest.raises(StorageFailure):
            await broker.engine.topic_admin.create_topics([CreateTopic(name="t")])
        assert set(broker.engine.metadata.image.topics) == {"before"}
        broker.storage.capacity = None
        await broker.engine.disk.online()
        await broker.create("t")


async def test_metadata_that_cannot_be_made_durable_is_not_answered_as_if_it_were() -> None:
    async with memory_broker() as broker:
        broker.storage.fail_syncs = True
        with pytest.raises(StorageFailure):
            await broker.engine.topic_admin.create_topics([CreateTopic(name="t")])
        assert not broker.engine.metadata.image.topics
        broker.storage.fail_syncs = False


async def test_a_partition_whose_directory_could_not_be_made_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(path: str) -> None:
        raise StorageFailure(f"cannot make directory {path}: no space left on device")

    async with memory_broker() as broker:
        # Room for the fact, none for the directory.
        with monkeypatch.context() as patch:
            patch.setattr(broker.storage, "make_dir", refuse)
            await broker.create("t")
            with pytest.raises(StorageFailure):
                broker.engine.partitions.partition("t", 0)
        write(broker, b"v")
        assert read_values(broker) == [b"v"]


async def test_decisions_follow_each_other_without_waiting_for_the_disk() -> None:
    async with memory_broker() as broker:
        results = []
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(broker.engine.topic_admin.create_topics([CreateTopic(name="t")]))
                for _ in range(3)
            ]
        for task in tasks:
            (result,) = task.result()
            results.append(type(result.error))
        assert results == [type(None), TopicExists, TopicExists]


async def test_nobody_sees_a_topic_before_it_is_durable() -> None:
    async with memory_broker() as broker:
        async with asyncio.TaskGroup() as group:
            creating = group.create_task(
                broker.engine.topic_admin.create_topics([CreateTopic(name="t")])
            )
            await asyncio.sleep(0)
            assert not creating.done()
            assert "t" not in broker.engine.metadata.image.topics
            with pytest.raises(UnknownTopic):
                broker.engine.partitions.partition("t", 0)
        assert "t" in broker.engine.metadata.image.topics


async def test_observers_are_told_what_changed() -> None:
    async with memory_broker() as broker:
        seen: list[tuple[set[str], set[str]]] = []
        broker.engine.metadata.observe(
            lambda before, after: seen.append((set(before.topics), set(after.topics)))
        )
        await broker.create("t")
        await broker.engine.topic_admin.delete_topics([("t", None)])
        assert seen == [(set(), {"t"}), ({"t"}, set())]


async def test_a_change_of_the_flush_policy_takes_effect_at_once() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        write(broker, b"a")
        for policy, waits in (("group", True), ("os", False)):
            change = ("flush.policy", AlterOp.SET, policy)
            await broker.engine.settings_admin.alter_configs(
                [AlterConfigs(resource_type=RESOURCE_TOPIC, resource_name="t", operations=[change])]
            )
            appended = broker.engine.partitions.append("t", 0, bytearray(batch(b"v")))
            assert (appended.durable is not None) == waits
            if appended.durable is not None:
                await appended.durable
        assert broker.engine.partitions.partition("t", 0).high_watermark == 3


async def test_a_stopped_engine_takes_nothing_more() -> None:
    broker = MemoryBroker(FaultyStorage(), {})
    await broker.start()
    await broker.create("t")
    partition = broker.engine.partitions.partition("t", 0)
    await broker.engine.stop()
    with pytest.raises(ShuttingDown):
        broker.engine.partitions.append_to(partition, bytearray(batch(b"v")), acks=1)
    with pytest.raises(ShuttingDown):
        await broker.engine.topic_admin.create_topics([CreateTopic(name="u")])


def test_a_task_that_fails_is_logged_by_name_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with memory_broker() as broker:

            async def fail() -> None:
                raise ZeroDivisionError

            await asyncio.wait([broker.engine.runtime.tasks.spawn(fail(), name="a bad one")])
            await broker.create("t")

    run(story())
    (record,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert record.getMessage() == "task a bad one failed"


async def test_many_new_partitions_do_not_hold_up_those_who_use_one_of_them() -> None:
    async with memory_broker() as broker:
        async with asyncio.TaskGroup() as group:
            creating = group.create_task(
                broker.engine.topic_admin.create_topics([CreateTopic(name="t", partitions=100)])
            )
            while "t" not in broker.engine.metadata.image.topics:
                await asyncio.sleep(0)
            assert not creating.done()
            broker.engine.partitions.append("t", 99, bytearray(batch(b"early")))
        made = {name.split("/")[1] for name in broker.storage.files() if "/t-" in name}
        assert len(made) == 100
        assert broker.engine.partitions.partition("t", 99).high_watermark == 1
