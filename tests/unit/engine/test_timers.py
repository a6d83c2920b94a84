"""Timers on a node: what is due is delivered once, in order, whatever dies or moves meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from millpond.base.errors import NotCoordinator, PeerUnreachable, TimerPositionGap
from millpond.base.ids import TopicPartition
from millpond.metadata.controller import TIMERS_TOPIC
from millpond.metadata.records import PartitionChangeRecord, PartitionRecord, TopicRecord
from millpond.record.batch import iter_batches
from millpond.record.records import Record, decode_batch
from millpond.timer.delayed import Delayed, Kind, encode
from millpond.timer.facts import Target
from millpond.timer.shard import Entry, Schedule
from tests.support.cluster.coordinator_nodes import ONE, THREE, TWO, coordinator_nodes
from tests.support.cluster.leadership import commit_all, give, take
from tests.support.cluster.memory_broker import MemoryBroker, memory_broker
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, run

Story = Callable[[MemoryBroker, Target], Awaitable[None]]


def with_broker(story: Story, **settings: Any) -> None:
    async def whole() -> None:
        async with memory_broker(**settings) as broker:
            await story(broker, await begin(broker))

    run(whole())


async def begin(broker: MemoryBroker) -> Target:
    """The topics, and a target whose timers are known from its beginning on."""
    await broker.create(TIMERS_TOPIC, cleanup_policy="compact")
    target = Target(await broker.create("t"), 0)
    assert await broker.engine.timers.schedule(Schedule(target=target, first=0, upto=0)) == (
        0,
        False,
    )
    return target


def entry(source: int, due_ms: int, value: bytes = b"", kind: Kind = Kind.DELAYED) -> Entry:
    one = Delayed(
        kind=kind,
        due_ms=due_ms,
        created_ms=5,
        key=b"k",
        value=value or b"%d" % source,
        headers=(("h", b"1"),),
    )
    return Entry(source, encode(one))


async def schedule(broker: MemoryBroker, target: Target, *entries: Entry) -> None:
    first, upto = entries[0].source, entries[-1].source + 1
    position = broker.engine.timers.position(target)
    await broker.engine.timers.schedule(
        Schedule(target=target, first=min(first, position), upto=upto, entries=entries)
    )


def found(broker: MemoryBroker, topic: str = "t") -> list[Record]:
    partition = broker.engine.partitions.partition(topic, 0)
    data = partition.log.read(0, 1 << 24, upto=partition.log.end_offset).data
    return [record for at, _ in iter_batches(data) for record in decode_batch(data, at)]


def values(broker: MemoryBroker) -> list[bytes | None]:
    return [record.value for record in found(broker)]


def test_what_is_due_is_delivered_in_order_of_due_time_and_not_before() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        now_ms = broker.clock.now_ms()
        await schedule(
            broker,
            target,
            entry(0, now_ms + 5_000),
            entry(1, now_ms + 60_000),
            entry(2, now_ms + 1_000),
            entry(3, 0),
        )
        await asyncio.sleep(0.9)
        assert values(broker) == [b"3"]
        await asyncio.sleep(8)
        assert values(broker) == [b"3", b"2", b"0"]
        await asyncio.sleep(60)
        assert values(broker) == [b"3", b"2", b"0", b"1"]
        record = found(broker)[1]
        assert record.key == b"k"
        assert now_ms + 1_000 <= record.timestamp < now_ms + 2_000
        assert record.headers == (
            ("h", b"1"),
            ("millpond.due-at", b"%d" % (now_ms + 1_000)),
            ("millpond.created-at", b"5"),
        )

    with_broker(story)


def test_a_timer_can_be_taken_back() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        now_ms = broker.clock.now_ms()
        await schedule(broker, target, entry(0, now_ms + 5_000), entry(1, now_ms + 5_000))
        await schedule(broker, target, entry(2, 0, kind=Kind.CANCEL))
        await asyncio.sleep(6)
        assert values(broker) == [b"1"]

    with_broker(story)


def test_what_comes_twice_is_one_timer_and_a_gap_is_refused() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        one = entry(0, broker.clock.now_ms() + 100)
        await schedule(broker, target, one)
        await schedule(broker, target, one)
        with pytest.raises(TimerPositionGap):
            await broker.engine.timers.schedule(
                Schedule(target=target, first=7, upto=8, entries=[entry(7, 0)])
            )
        await asyncio.sleep(1)
        assert values(broker) == [b"0"]

    with_broker(story)


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_clock_that_steps_delivers_once(step_ms: int) -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        now_ms = broker.clock.now_ms()
        await schedule(broker, target, entry(0, now_ms), entry(1, now_ms + 1_800_000))
        await asyncio.sleep(1)
        assert values(broker) == [b"0"]
        broker.clock.EPOCH_MS = LoopClock.EPOCH_MS + step_ms
        await asyncio.sleep(2)
        assert values(broker) == ([b"0", b"1"] if step_ms > 0 else [b"0"])
        await asyncio.sleep(2 * 3_600)
        assert values(broker) == [b"0", b"1"]

    with_broker(story)


@pytest.mark.parametrize("after_s", [0.0, 1.5, 3.0])
async def test_a_killed_node_delivers_the_rest_when_it_is_back(after_s: float) -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        target = await begin(broker)
        now_ms = broker.clock.now_ms()
        await schedule(broker, target, *(entry(n, now_ms + 100 * n) for n in range(30)))
        await asyncio.sleep(after_s)
        died = storage.copy()
    died.kill()
    async with memory_broker(died) as broker:
        await asyncio.sleep(5)
        assert values(broker) == [b"%d" % n for n in range(30)]
        assert len(broker.engine.timers) == 0


class Lossy:
    """The way to the target's leader; answers are lost while ``loses`` says so, batches arrive."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._append = broker.engine.partition_calls.append
        self.loses = True
        self.sent: list[bytes] = []
        broker.engine.partition_calls.append = self.append  # type: ignore[method-assign]

    async def append(self, partition: TopicPartition, records: bytes) -> int:
        self.sent.append(records)
        offset = await self._append(partition, records)
        if self.loses:
            raise PeerUnreachable("the answer is lost")
        return offset


def test_a_batch_whose_answer_is_lost_is_delivered_once() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        way = Lossy(broker)
        await schedule(broker, target, entry(0, 0), entry(1, 0))
        await asyncio.sleep(4.5)
        assert len(way.sent) > 3
        way.loses = False
        await asyncio.sleep(5)
        assert values(broker) == [b"0", b"1"]
        assert len(broker.engine.timers) == 0

    with_broker(story)


def test_another_host_repeats_an_open_intent_and_the_target_takes_it_once() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        way = Lossy(broker)
        await schedule(broker, target, entry(0, 0), entry(1, 0))
        await asyncio.sleep(0.5)
        assert values(broker) == [b"0", b"1"]
        take(broker.engine, TIMERS_TOPIC, 0)
        give(broker.engine, TIMERS_TOPIC, 0)
        way.loses = False
        await schedule_when_loaded(broker, target, entry(2, 0))
        await asyncio.sleep(5)
        assert values(broker) == [b"0", b"1", b"2"]

    with_broker(story)


async def schedule_when_loaded(broker: MemoryBroker, target: Target, *entries: Entry) -> None:
    await asyncio.sleep(0.1)
    await schedule(broker, target, *entries)


def test_an_intent_that_is_not_committed_is_not_carried_out() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        now_ms = broker.clock.now_ms()
        await schedule(broker, target, entry(0, now_ms + 1_000))
        partition = give(broker.engine, TIMERS_TOPIC, 0, alone=False)
        await asyncio.sleep(5)
        assert values(broker) == []
        commit_all(partition)
        await asyncio.sleep(1)
        assert values(broker) == [b"0"]

    with_broker(story)


def test_a_target_that_lost_its_producers_gets_the_batch_under_a_new_id() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        await schedule(broker, target, entry(0, 0))
        await asyncio.sleep(1)
        log = broker.engine.partitions.partition("t", 0).log
        (producer,) = log.producers
        producer.batches[-1] = producer.batches[-1]._replace(last_sequence=90, first_sequence=90)
        await schedule(broker, target, entry(1, 0))
        await asyncio.sleep(3)
        await schedule(broker, target, entry(2, 0))
        await asyncio.sleep(3)
        assert values(broker) == [b"0", b"1", b"2"]
        assert len({header.producer_id for _, header in _headers(broker)}) == 2

    with_broker(story)


def _headers(broker: MemoryBroker) -> list[tuple[int, Any]]:
    log = broker.engine.partitions.partition("t", 0).log
    return list(iter_batches(log.read(0, 1 << 24, upto=log.end_offset).data))


def test_timers_of_a_deleted_topic_are_over() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        now_ms = broker.clock.now_ms()
        await schedule(broker, target, *(entry(n, now_ms + 500) for n in range(20)))
        await broker.engine.topic_admin.delete_topics([("t", None)])
        await asyncio.sleep(30)
        assert len(broker.engine.timers) == 20
        await asyncio.sleep(60)
        assert len(broker.engine.timers) == 0
        assert broker.engine.timers.position(target) == -1

    with_broker(story)


def test_nothing_stays_of_a_deleted_topic_that_has_nothing_due() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        later = Target(await broker.create("later"), 0)
        await broker.engine.timers.schedule(Schedule(target=later, first=0, upto=0))
        await schedule(broker, later, entry(0, broker.clock.now_ms() + 10**9))
        await broker.engine.topic_admin.delete_topics([("t", None), ("later", None)])
        await asyncio.sleep(30)
        assert broker.engine.timers.position(target) == 0
        await asyncio.sleep(60)
        assert broker.engine.timers.position(target) == -1
        assert broker.engine.timers.position(later) == -1
        assert len(broker.engine.timers) == 0
        assert kept_of(broker) == {}

    with_broker(story)


async def test_nothing_stays_of_a_topic_that_was_deleted_before_a_restart() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        target = await begin(broker)
        await broker.engine.topic_admin.delete_topics([("t", None)])
        await asyncio.sleep(30)
        assert broker.engine.timers.position(target) == 0
        died = storage.copy()
    died.kill()
    async with memory_broker(died) as broker:
        await asyncio.sleep(30)
        assert broker.engine.timers.position(target) == 0
        await asyncio.sleep(60)
        assert broker.engine.timers.position(target) == -1
        assert kept_of(broker) == {}


def kept_of(broker: MemoryBroker) -> dict[bytes | None, bytes | None]:
    """What compaction would leave of ``__timers``."""
    newest = {record.key: record.value for record in found(broker, TIMERS_TOPIC)}
    return {key: value for key, value in newest.items() if value is not None}


def test_many_partitions_of_a_deleted_topic_do_not_hold_up_others() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        topic_id = await broker.create("wide", partitions=100)
        for index in range(100):
            gone = Target(topic_id, index)
            await broker.engine.timers.schedule(Schedule(target=gone, first=0, upto=0))
            await schedule(broker, gone, entry(0, broker.clock.now_ms() + 500))
        await broker.engine.topic_admin.delete_topics([("wide", None)])
        await asyncio.sleep(5)
        await schedule(broker, target, entry(0, 0))
        await asyncio.sleep(1)
        assert values(broker) == [b"0"]
        await asyncio.sleep(90)
        assert len(broker.engine.timers) == 0
        assert all(broker.engine.timers.position(Target(topic_id, n)) == -1 for n in range(100))

    with_broker(story)


def test_large_records_go_in_batches_that_the_topic_takes() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        other = Target(await broker.create("small", max_message_bytes="2000"), 0)
        await broker.engine.timers.schedule(Schedule(target=other, first=0, upto=0))
        await schedule(broker, other, *(entry(n, 0, b"x" * 700) for n in range(9)))
        await asyncio.sleep(2)
        assert len(found(broker, "small")) == 9

    with_broker(story)


def test_many_timers_with_scattered_times_arrive_in_order() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        now_ms = broker.clock.now_ms()
        due = [now_ms + (n * 7_919) % 20_000 for n in range(3_000)]
        for first in range(0, 3_000, 500):
            await schedule(broker, target, *(entry(n, due[n]) for n in range(first, first + 500)))
        await asyncio.sleep(30)
        expected = sorted(range(3_000), key=lambda n: (due[n], n))
        assert values(broker) == [b"%d" % n for n in expected]

    with_broker(story)


def test_timers_of_an_unknown_topic_id_do_not_stop_others() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        nowhere = Target(UUID(int=9), 0)
        await broker.engine.timers.schedule(Schedule(target=nowhere, first=0, upto=0))
        await schedule(broker, nowhere, entry(0, 0))
        await schedule(broker, target, entry(0, 0))
        await asyncio.sleep(1)
        assert values(broker) == [b"0"]

    with_broker(story)


def test_all_timers_are_over_when_their_topic_is_deleted() -> None:
    async def story(broker: MemoryBroker, target: Target) -> None:
        await schedule(broker, target, entry(0, broker.clock.now_ms() + 500))
        await broker.engine.topic_admin.delete_topics([(TIMERS_TOPIC, None)])
        await asyncio.sleep(3)
        assert values(broker) == []
        with pytest.raises(NotCoordinator):
            broker.engine.timers.position(target)

    with_broker(story)


@pytest.mark.parametrize("wire", [False, True])
async def test_another_node_goes_on_where_the_host_of_the_timers_stopped(wire: bool) -> None:
    async with coordinator_nodes(wire=wire) as nodes:
        timers_id, both = UUID(int=300), (ONE, THREE)
        await nodes.propose(
            TopicRecord(name=TIMERS_TOPIC, topic_id=timers_id),
            PartitionRecord(
                partition_id=0, topic_id=timers_id, replicas=both, isr=both, leader=ONE
            ),
        )
        host, next_host = nodes.engines[ONE], nodes.engines[THREE]
        target = Target(host.metadata.image.topics["t"].topic_id, 1)
        await asyncio.sleep(1)
        await host.timers.schedule(Schedule(target=target, first=0, upto=0))
        now_ms = host.runtime.clock.now_ms()
        entries = [entry(n, now_ms + 500 * n) for n in range(20)]
        await host.timers.schedule(Schedule(target=target, first=0, upto=20, entries=entries))
        await asyncio.sleep(4)
        await nodes.propose(
            PartitionChangeRecord(partition_id=0, topic_id=timers_id, isr=(THREE,), leader=THREE)
        )
        await asyncio.sleep(20)
        log = nodes.engines[TWO].partitions.partition("t", 1).log
        data = log.read(0, 1 << 24, upto=log.end_offset).data
        delivered = [one.value for at, _ in iter_batches(data) for one in decode_batch(data, at)]
        assert delivered == [b"%d" % n for n in range(20)]
        assert len({header.producer_id for _, header in iter_batches(data)}) == 2
        assert len(next_host.timers) == 0
        assert len(host.timers) == 0
