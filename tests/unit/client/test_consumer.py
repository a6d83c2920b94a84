"""A consumer against a broker in the same process: handing out, interceptors, take-over, what goes wrong."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest

import millpond
from millpond.client import (
    BlockingConsumer,
    Consumer,
    ConsumerInterceptor,
    ConsumerRecord,
    GroupMetadata,
    NotSerializable,
    OffsetAndMetadata,
    OutOfTime,
    Producer,
    TopicPartition,
    WrongState,
)
from millpond.client._classic_member import ClassicMember

T = TypeVar("T")


@pytest.fixture(scope="module")
def broker() -> Iterator[millpond.Broker]:
    with millpond.Broker(group_min_session_timeout_ms=100) as running:
        yield running


def run(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(story, 90))


async def write(broker: millpond.Broker, topic: str, count: int, partitions: int = 1) -> None:
    broker.create_topic(topic, partitions=partitions)
    async with Producer(broker.bootstrap) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)


def test_the_iterator_commits_what_was_asked_beyond(broker: millpond.Broker) -> None:
    """The record in hand when the loop is left is not read yet: somebody may have to read it again."""

    async def story() -> None:
        await write(broker, "iterate", 10)
        settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap,
            "group_id": "iterate",
        }
        async with Consumer("iterate", auto_offset_reset="earliest", **settings) as consumer:
            async for record in consumer:
                if record.offset == 4:
                    break
        async with Consumer(**settings) as consumer:
            place = TopicPartition("iterate", 0)
            assert (await consumer.committed(place))[place].offset == 4

    run(story())


def test_poll_hands_out_so_many_and_goes_on_there(broker: millpond.Broker) -> None:
    async def story() -> None:
        await write(broker, "poll", 10)
        place = TopicPartition("poll", 0)
        async with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            consumer.assign([place])
            await consumer.seek_to_beginning()
            first = await consumer.poll(5000, max_records=3)
            assert [record.offset for record in first[place]] == [0, 1, 2]
            assert await consumer.position(place) == 3
            consumer.seek(place, 8)
            rest = await consumer.poll(60_000)
            assert [record.offset for record in rest[place]] == [8, 9]
            consumer.seek(place, 5)
            [batch] = await consumer.poll_batches(5000)
            assert [record.offset for record in batch.records()] == [5, 6, 7, 8, 9]
            assert await consumer.position(place) == 10

    run(story())


def test_interceptors_see_what_is_handed_out_and_what_is_committed(broker: millpond.Broker) -> None:
    committed: list[dict[TopicPartition, OffsetAndMetadata]] = []

    class Odd(ConsumerInterceptor):
        def on_consume(
            self, records: dict[TopicPartition, list[ConsumerRecord]]
        ) -> dict[TopicPartition, list[ConsumerRecord]]:
            return {
                place: [record for record in found if int(record.value) % 2]
                for place, found in records.items()
            }

        def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
            committed.append(dict(offsets))

    async def story() -> None:
        await write(broker, "odd", 6)
        async with Consumer(
            "odd",
            bootstrap_servers=broker.bootstrap,
            group_id="odd",
            auto_offset_reset="earliest",
            interceptors=[Odd],
        ) as consumer:
            seen = []
            async for record in consumer:
                seen.append(int(record.value))
                if record.offset == 5:
                    break
            assert seen == [1, 3, 5]
            await consumer.commit({TopicPartition("odd", 0): 6})
        assert committed[0] == {TopicPartition("odd", 0): OffsetAndMetadata(6)}

    run(story())


def test_a_crash_is_found_by_the_session_and_the_partitions_go_to_the_other(
    broker: millpond.Broker,
) -> None:
    async def story() -> None:
        await write(broker, "crash", 0, partitions=2)
        settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap,
            "group_id": "crash",
            "session_timeout_ms": 2_000,
            "heartbeat_interval_ms": 50,
        }
        one, two = Consumer("crash", **settings), Consumer("crash", **settings)
        while not (one.assignment() and two.assignment()):
            await one.poll(50)
            await two.poll(50)
        await one._reading.close()
        await one._cluster.close()  # it is gone, and has said nothing
        assert one._member is not None
        one._member._beating.cancel()  # type: ignore[union-attr]
        while len(two.assignment()) != 2:
            await two.poll(50)
        await two.close()

    run(story())


def test_what_cannot_be_deserialized_is_named_and_can_be_passed(broker: millpond.Broker) -> None:
    async def story() -> None:
        broker.create_topic("broken")
        async with Producer(broker.bootstrap) as producer:
            await producer.send_and_wait("broken", b"{not json")
            await producer.send_and_wait("broken", b'{"a": 1}')
        place = TopicPartition("broken", 0)
        async with Consumer(
            bootstrap_servers=broker.bootstrap, value_deserializer="json"
        ) as consumer:
            consumer.assign([place])
            await consumer.seek_to_beginning()
            with pytest.raises(NotSerializable, match="broken-0@0"):
                await consumer.poll(60_000)
            consumer.seek(place, 1)
            assert (await consumer.poll(60_000))[place][0].value == {"a": 1}

    run(story())


def test_calls_that_do_not_fit_say_what_to_do() -> None:
    async def story() -> None:
        async with Consumer() as consumer:
            with pytest.raises(WrongState, match="group_id"):
                consumer.subscribe(["t"])
            with pytest.raises(WrongState, match="subscribe"):
                await consumer.poll()
            with pytest.raises(WrongState, match="group_id"):
                await consumer.commit({TopicPartition("t", 0): 1})

    run(story())


async def write_batches(broker: millpond.Broker, topic: str, count: int) -> None:
    broker.create_topic(topic, partitions=1)
    async with Producer(broker.bootstrap) as producer:
        for number in range(count):
            await producer.send_batch(topic, 0, [(1, None, b"%d" % number, ())])


async def committed(broker: millpond.Broker, group: str, place: TopicPartition) -> int:
    async with Consumer(bootstrap_servers=broker.bootstrap, group_id=group) as consumer:
        return (await consumer.committed(place))[place].offset


def test_batches_are_committed_when_the_next_one_is_asked_for(broker: millpond.Broker) -> None:
    """One fetch brings several; those that the loop never saw must not count as read."""

    async def story() -> None:
        await write_batches(broker, "batchwise", 5)
        async with Consumer(
            "batchwise",
            bootstrap_servers=broker.bootstrap,
            group_id="batchwise",
            auto_offset_reset="earliest",
        ) as consumer:
            async for batch in consumer.batches():
                if batch.header.base_offset == 2:
                    break
        assert await committed(broker, "batchwise", TopicPartition("batchwise", 0)) == 2

    run(story())


@pytest.mark.parametrize("by_batch", [False, True])
def test_a_commit_in_a_loops_body_covers_what_the_body_has(
    broker: millpond.Broker, by_batch: bool
) -> None:
    topic = f"plain-{by_batch}"
    place = TopicPartition(topic, 0)
    run(write_batches(broker, topic, 5) if by_batch else write(broker, topic, 5))
    with BlockingConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        loop: Iterator[Any] = consumer.batches() if by_batch else iter(consumer)
        for _ in range(3):
            next(loop)
        consumer.commit()
        assert run(committed(broker, topic, place)) == 3
        assert consumer.position(place) == 3
        if not by_batch:
            assert next(loop).offset == 3, "a commit does not disturb the loop"
        rest = consumer.poll(60_000)[place]
        assert [record.offset for record in rest] == [3, 4]


def test_a_loop_after_a_poll_and_a_poll_after_a_loop(broker: millpond.Broker) -> None:
    async def story() -> None:
        await write(broker, "mixed", 10)
        place = TopicPartition("mixed", 0)
        async with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            consumer.assign([place])
            await consumer.seek_to_beginning()
            first = await consumer.poll(5000, max_records=3)
            assert [record.offset for record in first[place]] == [0, 1, 2]
            async for record in consumer:
                if record.offset == 5:
                    break
            rest = await consumer.poll(60_000)
            assert [record.offset for record in rest[place]] == [5, 6, 7, 8, 9]

    run(story())


@pytest.mark.parametrize("whole", [False, True])
def test_from_behind_the_end_everything_is_read_again(broker: millpond.Broker, whole: bool) -> None:
    """As after a topic was made anew: the reset goes back, and what is there is all new."""

    async def story() -> None:
        topic = f"reset-{whole}"
        await write(broker, topic, 10)
        place = TopicPartition(topic, 0)
        async with Consumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([place])
            consumer.seek(place, 1000)
            found: list[int] = []
            while not found:
                if whole:
                    for batch in await consumer.poll_batches(5000):
                        found += [record.offset for record in batch.records()]
                else:
                    polled = await consumer.poll(60_000)
                    found += [record.offset for record in polled.get(place, [])]
            assert found == list(range(10))
            assert await consumer.position(place) == 10

    run(story())


def test_a_reset_to_the_end_is_a_position(broker: millpond.Broker) -> None:
    async def story() -> None:
        await write(broker, "latest", 10)
        place = TopicPartition("latest", 0)
        async with Consumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset="latest"
        ) as consumer:
            consumer.assign([place])
            consumer.seek(place, 1000)
            while await consumer.position(place) == 1000:
                assert await consumer.poll(100) == {}
            assert await consumer.position(place) == 10

    run(story())


def test_an_epoch_that_grew_while_offsets_were_asked_for(
    broker: millpond.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat may be answered while the question is under way; poll is not the place to fail for that."""

    async def story() -> None:
        await write(broker, "grown", 3)
        async with Consumer(
            "grown",
            bootstrap_servers=broker.bootstrap,
            group_id="grown",
            group_protocol="consumer",
            auto_offset_reset="earliest",
        ) as consumer:
            asked: list[int] = []
            metadata_of = Consumer.group_metadata

            def late(self: Consumer) -> GroupMetadata:
                now = metadata_of(self)
                asked.append(now.generation_id)
                return now if len(asked) > 1 else replace(now, generation_id=now.generation_id - 1)

            monkeypatch.setattr(Consumer, "group_metadata", late)
            found: list[ConsumerRecord] = []
            while not found:
                found += (await consumer.poll(500)).get(TopicPartition("grown", 0), [])
            assert [record.offset for record in found] == [0, 1, 2]
            assert len(asked) > 1

    run(story())


def test_a_member_that_could_not_join_in_time_tries_again(
    broker: millpond.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        await write(broker, "rejoin", 3)
        join_once = ClassicMember._join_once
        tries: list[str] = []

        async def stumble(self: ClassicMember, reason: str) -> Any:
            tries.append(reason)
            if len(tries) == 1:
                raise OutOfTime("nobody answers")
            return await join_once(self, reason)

        monkeypatch.setattr(ClassicMember, "_join_once", stumble)
        async with Consumer(
            "rejoin",
            bootstrap_servers=broker.bootstrap,
            group_id="rejoin",
            auto_offset_reset="earliest",
        ) as consumer:
            with pytest.raises(OutOfTime):
                await consumer.poll(60_000)
            found: list[ConsumerRecord] = []
            while not found:
                found += (await consumer.poll(500)).get(TopicPartition("rejoin", 0), [])
            assert [record.offset for record in found] == [0, 1, 2]

    run(story())
