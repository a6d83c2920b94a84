"""Millpond's own Python client against the broker under test: Millpond, or Apache Kafka."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from millpond.base.murmur2 import partition_for_key
from millpond.client import (
    Admin,
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    Cluster,
    CommitRefused,
    Consumer,
    NoOffset,
    Producer,
    ProducerFenced,
    RawFetch,
    RebalanceListener,
    TopicPartition,
    fetch_raw,
    produce_raw,
)
from millpond.record import build_batch, decode_batch
from tests.interop.peers import Peer
from tests.interop.topics import MORNING_MS
from tests.support.processes.broker_process import MillpondProcess

T = TypeVar("T")


def run(story: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(90):
            return await story

    return asyncio.run(bounded())


def create(broker: Peer, topic: str, partitions: int = 1, **configs: str) -> None:
    with BlockingAdmin(broker.bootstrap) as admin:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topic(topic, partitions=partitions, configs=named)


async def everything(broker: Peer, topic: str, **settings: Any) -> list[Any]:
    """All records of a topic up to its present end, in the order of reading."""
    found: list[Any] = []
    async with Consumer(bootstrap_servers=broker.bootstrap, **settings) as consumer:
        async with Cluster(broker.bootstrap) as cluster:
            count = len((await cluster.topic(topic)).partitions)
        places = [TopicPartition(topic, number) for number in range(count)]
        consumer.assign(places)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(places)
        while any([await consumer.position(place) < ends[place] for place in places]):
            for records in (await consumer.poll(1000)).values():
                found += records
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_come_back_as_they_were(broker: Peer, topic: str, codec: str, acks: Any) -> None:
    create(broker, topic, 3)

    async def story() -> None:
        async with Producer(broker.bootstrap) as producer:
            for partition in range(
                3
            ):  # with acks=0 nobody hears that a new topic has no leader yet
                await producer.send_and_wait(topic, b"", partition=partition)
        settings = {"compression.type": codec, "acks": acks, "batch.size": 500}
        async with Producer(broker.bootstrap, **settings) as producer:
            for number in range(100):
                await producer.send(
                    topic, f"value {number}", key=f"key {number}", headers=[("n", b"%d" % number)]
                )
        while len(records := await everything(broker, topic)) < 103:
            assert acks == 0  # nobody said when they would be there
        assert len(records) == 103
        for record in [record for record in records if record.headers]:
            number = int(record.headers[0][1])
            assert (record.key, record.value) == (b"key %d" % number, b"value %d" % number)
            assert record.partition == partition_for_key(record.key, 3)

    run(story())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_shares_its_partitions_and_takes_over(
    broker: Peer, topic: str, protocol: str
) -> None:
    create(broker, topic, 4)
    settings: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "group_protocol": protocol,
        "heartbeat_interval_ms": 200,
    }
    seen: list[int] = []

    async def read(consumer: Consumer, until: int) -> None:
        while len(seen) < until:
            for records in (await consumer.poll(200)).values():
                seen.extend(int(record.value) for record in records)

    async def story() -> None:
        async with Producer(broker.bootstrap) as producer:
            for number in range(400):
                await producer.send(topic, b"%d" % number)
        async with Consumer(topic, **settings) as one:
            await read(one, 400)
            assert len(one.assignment()) == 4
            async with Consumer(topic, **settings) as two:
                while len(two.assignment()) != 2 or len(one.assignment()) != 2:
                    await one.poll(100)
                    await two.poll(100)
                assert not one.assignment() & two.assignment()
            async with Producer(broker.bootstrap) as producer:
                for number in range(400, 500):
                    await producer.send(topic, b"%d" % number, partition=number % 4)
            await read(one, 500)
            assert len(one.assignment()) == 4
        assert sorted(seen) == list(range(500))
        async with Consumer(**settings) as other:
            committed = await other.committed(*(TopicPartition(topic, n) for n in range(4)))
            assert sum(at.offset for at in committed.values()) == 500

    run(story())


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_every_assignor(broker: Peer, topic: str, assignor: str) -> None:
    create(broker, topic, 6)
    heard: list[tuple[str, int]] = []

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions: Any) -> None:
            heard.append(("revoked", len(partitions)))

        async def on_partitions_assigned(self, partitions: Any) -> None:
            heard.append(("assigned", len(partitions)))

    async def story() -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap,
            "group_id": topic,
            "partition_assignment_strategy": [assignor],
            "heartbeat_interval_ms": 100,
        }
        async with Consumer(**settings) as one, Consumer(topic, **settings) as two:
            one.subscribe([topic], listener=Listener())
            while len(one.assignment()) != 6:
                await one.poll(100)
            while len(two.assignment()) != 3 or len(one.assignment()) != 3:
                await one.poll(50)
                await two.poll(50)
            assert one.assignment() | two.assignment() == {
                TopicPartition(topic, number) for number in range(6)
            }
        if assignor == "cooperative-sticky":
            assert heard[:2] == [("assigned", 6), ("revoked", 3)]  # three were never let go
        else:
            assert heard[:3] == [("assigned", 6), ("revoked", 6), ("assigned", 3)]

    run(story())


def test_a_static_member_comes_back_to_its_partitions(broker: Peer, topic: str) -> None:
    create(broker, topic, 2)

    async def story() -> None:
        settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap,
            "group_id": topic,
            "group_instance_id": "only",
        }
        async with Consumer(topic, **settings) as first:
            while not first.assignment():
                await first.poll(100)
            generation = first.group_metadata().generation_id
        async with Consumer(topic, **settings) as second:
            while not second.assignment():
                await second.poll(100)
            assert second.group_metadata().generation_id == generation

    run(story())


def test_a_pattern_finds_topics_that_come_later(broker: Peer, topic: str) -> None:
    create(broker, f"{topic}.a")

    async def story() -> None:
        async with Consumer(
            bootstrap_servers=broker.bootstrap, group_id=topic, metadata_max_age_ms=200
        ) as consumer:
            consumer.subscribe(pattern=rf"{topic}\..*")
            while len(consumer.assignment()) != 1:
                await consumer.poll(100)
            async with Admin(broker.bootstrap) as admin:
                await admin.create_topic(f"{topic}.b")
            while len(consumer.assignment()) != 2:
                await consumer.poll(100)
            assert consumer.subscription() == {f"{topic}.a", f"{topic}.b"}

    run(story())


@pytest.mark.parametrize("generation", [1, 2])
def test_a_transaction_shows_all_or_nothing(broker: Peer, topic: str, generation: int) -> None:
    create(broker, topic, 2)
    group = f"{topic}-group"

    async def story() -> None:
        async with Producer(broker.bootstrap, transactional_id=topic) as producer:
            await producer.init_transactions()
            assert producer._transaction is not None
            assert (
                producer._transaction.second_generation
            )  # both brokers have it; speak the older one too
            producer._transaction.second_generation = generation == 2
            async with producer.transaction():
                for number in range(10):
                    await producer.send(topic, b"%d" % number, partition=number % 2)
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 3}, group)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"taken back", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"10", partition=0)
        committed = await everything(broker, topic, isolation_level="read_committed")
        assert sorted(int(record.value) for record in committed) == list(range(11))
        every = await everything(broker, topic)
        assert b"taken back" in {record.value for record in every}
        async with Consumer(bootstrap_servers=broker.bootstrap, group_id=group) as consumer:
            found = await consumer.committed(TopicPartition(topic, 0))
            assert found[TopicPartition(topic, 0)].offset == 3

    run(story())


def test_a_second_producer_with_the_same_id_fences_the_first(broker: Peer, topic: str) -> None:
    create(broker, topic)

    async def story() -> None:
        async with Producer(broker.bootstrap, transactional_id=topic) as second:
            first = Producer(broker.bootstrap, transactional_id=topic)
            await first.init_transactions()
            await first.begin_transaction()
            await first.send_and_wait(topic, b"old")
            await second.init_transactions()
            with pytest.raises(ProducerFenced, match="another producer"):
                await first.commit_transaction()
            await first.abort()
            async with second.transaction():
                await second.send(topic, b"new")
        committed = await everything(broker, topic, isolation_level="read_committed")
        assert [record.value for record in committed] == [b"new"]

    run(story())


def test_positions_by_hand_and_by_time(broker: Peer, topic: str) -> None:
    create(broker, topic)
    place = TopicPartition(topic, 0)

    async def story() -> None:
        async with Producer(broker.bootstrap) as producer:
            for number in range(20):
                await producer.send(topic, b"%d" % number, timestamp_ms=MORNING_MS + number)
        async with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            consumer.assign([place])
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 20}
            found = await consumer.offsets_for_times({place: MORNING_MS + 7})
            assert found[place] is not None
            assert found[place].offset == 7  # type: ignore[union-attr]
            assert await consumer.offsets_for_times({place: MORNING_MS + 1_000}) == {place: None}
            consumer.seek(place, 15)
            first = await anext(aiter(consumer))
            assert first.offset == 15
            consumer.pause(place)
            assert await consumer.poll(300) == {}
            consumer.resume(place)
            records = (await consumer.poll(60_000))[place]
            assert records[0].offset == 15  # the iterator was left before it asked for the next one
            await consumer.seek_to_end()
            assert await consumer.position(place) == 20

    run(story())


def test_without_an_offset_and_without_a_reset(broker: Peer, topic: str) -> None:
    create(broker, topic)

    async def story() -> None:
        async with Consumer(
            topic, bootstrap_servers=broker.bootstrap, group_id=topic, auto_offset_reset="none"
        ) as consumer:
            with pytest.raises(NoOffset, match=r"auto\.offset\.reset"):
                await consumer.poll(60_000)

    run(story())


def test_who_was_put_out_cannot_commit(broker: Peer, topic: str) -> None:
    create(broker, topic)

    async def story() -> None:
        settings: dict[str, Any] = {"bootstrap_servers": broker.bootstrap, "group_id": topic}
        async with Consumer(topic, enable_auto_commit=False, **settings) as consumer:
            while not consumer.assignment():
                await consumer.poll(100)
            member = consumer._member
            assert member is not None
            await member._send_leave("as an administrator removes a member")  # type: ignore[union-attr]
            with pytest.raises(CommitRefused, match="gone on without"):
                await consumer.commit({TopicPartition(topic, 0): 1})

    run(story())


def test_blocking_code(broker: Peer, topic: str) -> None:
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.create_topic(topic, partitions=2)
        with BlockingProducer(broker.bootstrap, value_serializer="json") as producer:
            deliveries = [producer.send(topic, {"n": number}) for number in range(50)]
            producer.flush()
            assert min(item.result(60).offset for item in deliveries) == 0
        with BlockingConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            value_deserializer="json",
        ) as consumer:
            seen: list[int] = []
            for record in consumer:
                seen.append(record.value["n"])
                if len(seen) == 50:
                    break
            consumer.commit()
        assert sorted(seen) == list(range(50))
        assert sum(admin.list_group_offsets(topic).values()) == 50
        assert admin.delete_groups(topic) == {topic: None}


def test_raw_batches_in_and_out(broker: Peer, topic: str) -> None:
    create(broker, topic)
    place = TopicPartition(topic, 0)

    async def story() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            batch = build_batch([(MORNING_MS, b"k", b"v%d" % n, ()) for n in range(5)])
            written = await produce_raw(cluster, {place: batch})
            assert written[place].base_offset == 0  # type: ignore[union-attr]
            found = (await fetch_raw(cluster, {place: 0}))[place]
            assert isinstance(found, RawFetch)
            assert found.high_watermark == 5
            assert [record.value for record in decode_batch(found.data)] == [
                b"v%d" % n for n in range(5)
            ]

    run(story())


def test_a_restart_of_the_broker_loses_and_repeats_nothing(tmp_path: Any) -> None:
    """Killed in the middle of writing, started again on the same port: every record is there once."""

    async def story(process: MillpondProcess) -> None:
        async with Producer(process.bootstrap, batch_size=200, retry_backoff_ms=50) as producer:
            for number in range(2000):
                await producer.send("t", b"%d" % number, partition=0)
                if number == 1000:
                    await asyncio.to_thread(process.kill)
                    await asyncio.to_thread(process.start)
        found: list[int] = []
        async with Consumer(bootstrap_servers=process.bootstrap) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            await consumer.seek_to_beginning()
            while len(found) < 2000:
                for records in (await consumer.poll(1000)).values():
                    found += [int(record.value) for record in records]
        assert found == list(range(2000))

    with MillpondProcess(tmp_path, properties={"num.partitions": "1"}) as process:
        run(story(process))
