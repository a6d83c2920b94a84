"""Delayed records from a producer's request to what consumers read: once, in order, when they are due."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from millpond.base.limits import DEFERRED_BATCHES_WAITING_MAX, TIMER_DELAY_MS_MAX
from millpond.engine.timers import forwarding
from millpond.metadata.controller import TIMERS_TOPIC
from millpond.metadata.records import (
    RESOURCE_TOPIC,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from millpond.record.batch import iter_batches
from millpond.record.builder import NewRecord, build_batch
from millpond.record.compression import Compression
from millpond.record.records import Record, decode_batch
from millpond.replication.partition import Partition
from millpond.timer.facts import Target
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.cluster.leadership import commit_all, give, take
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    MemoryClient,
    memory_broker,
    produce,
    produced,
)
from tests.support.cluster.replica_nodes import TOPIC_ID, ReplicaNodes, replica_nodes
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import LoopClock, run

Story = Callable[[MemoryBroker], Awaitable[None]]
NOW_MS = LoopClock.EPOCH_MS
DELAYS: dict[str, Any] = {"millpond_delay_enable": "true"}


def with_broker(story: Story, **settings: Any) -> None:
    async def whole() -> None:
        async with memory_broker(**settings) as broker:
            await broker.create("t", **DELAYS)
            await asyncio.sleep(1)
            await story(broker)

    run(whole())


def record(value: bytes, **headers: int | bytes) -> NewRecord:
    """A record with headers of ours: ``delay``, ``deliver_at``, ``cancel``."""
    named = tuple(
        (
            f"millpond.{name.replace('_', '-')}",
            content if isinstance(content, bytes) else b"%d" % content,
        )
        for name, content in headers.items()
    )
    return NOW_MS, b"k", value, named


async def send(
    client: MemoryClient, *records: NewRecord, acks: int = -1, topic: str = "t", **fields: Any
) -> Any:
    data = bytes(build_batch(list(records), **fields))
    return produced(
        await client.ask(
            ApiKey.PRODUCE, 12, produce(data, topic=topic, acks=acks, timeout_ms=9_000)
        )
    )


async def send_until_taken(client: MemoryClient, *records: NewRecord, **fields: Any) -> Any:
    """Send as a producer does that tries again."""
    while True:
        answer = await send(client, *records, **fields)
        if answer.error_code != ErrorCode.NOT_ENOUGH_REPLICAS:
            return answer
        await asyncio.sleep(0.1)


def consumed(partition: Partition) -> list[Record]:
    """What a consumer is given: records that are no control records, below the high watermark."""
    log = partition.log
    found: list[Record] = []
    data = log.read(log.start_offset, 1 << 26, upto=partition.high_watermark).data
    for at, header in iter_batches(data):
        if not header.is_control:
            found += decode_batch(data, at)
    return found


def values(broker: MemoryBroker, topic: str = "t") -> list[bytes | None]:
    return [one.value for one in consumed(broker.engine.partitions.partition(topic, 0))]


def test_records_are_appended_when_they_are_due_in_that_order() -> None:
    async def story(broker: MemoryBroker) -> None:
        client = broker.client()
        now_ms = broker.clock.now_ms()
        first = await send(client, record(b"late", delay=60_000), record(b"soon", delay=5_000))
        second = await send(client, record(b"first", deliver_at=now_ms + 2_000))
        assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
        await send(client, record(b"now"))
        await asyncio.sleep(1)
        assert values(broker) == [b"now"]
        await asyncio.sleep(9)
        assert values(broker) == [b"now", b"first", b"soon"]
        await asyncio.sleep(60)
        assert values(broker) == [b"now", b"first", b"soon", b"late"]
        headers = dict(consumed(broker.engine.partitions.partition("t", 0))[1].headers)
        assert headers == {
            "millpond.due-at": b"%d" % (now_ms + 2_000),
            "millpond.created-at": b"%d" % NOW_MS,
        }

    with_broker(story)


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("count", [3, 900])
def test_records_without_a_delay_in_the_same_batch_are_there_at_once(
    codec: Compression, count: int
) -> None:
    async def story(broker: MemoryBroker) -> None:
        records = [
            record(b"d%d" % n, delay=5_000) if n % 3 == 1 else record(b"p%d" % n)
            for n in range(count)
        ]
        plain = [one[2] for n, one in enumerate(records) if n % 3 != 1]
        delayed = [one[2] for n, one in enumerate(records) if n % 3 == 1]
        answer = await send(broker.client(), *records, compression=codec)
        assert answer.error_code == 0
        assert values(broker) == plain
        await asyncio.sleep(8)
        assert values(broker) == plain + delayed

    with_broker(story)


def test_a_topic_without_the_setting_keeps_the_headers_and_delays_nothing() -> None:
    async def story(broker: MemoryBroker) -> None:
        await broker.create("plain")
        await send(broker.client(), record(b"a", delay=60_000), topic="plain")
        assert values(broker, "plain") == [b"a"]
        assert TIMERS_TOPIC in broker.engine.metadata.image.topics  # because of topic t

    with_broker(story)


async def test_the_internal_topic_is_made_with_the_first_topic_that_has_delays() -> None:
    async with memory_broker() as broker:
        await broker.create("plain")
        await asyncio.sleep(60)
        assert TIMERS_TOPIC not in broker.engine.metadata.image.topics
        await broker.create("t", **DELAYS)
        await asyncio.sleep(1)
        assert (
            broker.engine.metadata.image.topic_config(TIMERS_TOPIC)["cleanup.policy"] == "compact"
        )


async def test_a_producer_that_is_too_early_is_told_to_try_again_and_nothing_is_lost() -> None:
    async with memory_broker() as broker:
        await broker.create("t", **DELAYS)
        client = broker.client()
        early = await send(
            client, record(b"a", delay=100), producer_id=7, producer_epoch=0, base_sequence=0
        )
        assert early.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        # The next one of the same producer must not overtake it.
        behind = await send(client, record(b"b"), producer_id=7, producer_epoch=0, base_sequence=1)
        assert behind.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        await send_until_taken(
            client, record(b"a", delay=100), producer_id=7, producer_epoch=0, base_sequence=0
        )
        await send(client, record(b"b"), producer_id=7, producer_epoch=0, base_sequence=1)
        await asyncio.sleep(2)
        assert values(broker) == [b"b", b"a"]


def test_a_retry_is_delivered_once_and_the_next_sequence_follows() -> None:
    async def story(broker: MemoryBroker) -> None:
        client = broker.client()
        fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
        batch = [record(b"a", delay=1_000), record(b"b"), record(b"c", delay=500)]
        first = await send(client, *batch, base_sequence=0, **fields)
        await asyncio.sleep(3)
        again = await send(client, *batch, base_sequence=0, **fields)
        assert (again.error_code, again.base_offset) == (0, first.base_offset)
        after = await send(client, record(b"d"), base_sequence=3, **fields)
        assert after.error_code == 0
        await asyncio.sleep(3)
        assert values(broker) == [b"b", b"c", b"a", b"d"]

    with_broker(story)


def test_a_delayed_record_can_be_cancelled_by_its_offset() -> None:
    async def story(broker: MemoryBroker) -> None:
        client = broker.client()
        kept = await send(client, record(b"kept", delay=5_000))
        gone = await send(client, record(b"gone", delay=5_000))
        assert kept.base_offset != gone.base_offset
        await send(client, record(b"", cancel=gone.base_offset))
        await send(client, record(b"", cancel=4_711))  # of nothing
        await asyncio.sleep(8)
        assert values(broker) == [b"kept"]

    with_broker(story)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"delay": b"soon"}, "decimal digits"),
        ({"delay": b"-1"}, "decimal digits"),
        ({"delay": b"1.5"}, "decimal digits"),
        ({"delay": b""}, "decimal digits"),
        ({"deliver_at": b"99999999999999999999"}, "decimal digits"),
        ({"delay": TIMER_DELAY_MS_MAX + 1}, "more than"),
        ({"deliver_at": NOW_MS * 1000}, "since the epoch"),
        ({"delay": 1, "deliver_at": 1}, "one of them"),
    ],
)
def test_what_no_delay_can_be_is_refused_with_the_record_named(
    headers: dict[str, Any], words: str
) -> None:
    async def story(broker: MemoryBroker) -> None:
        answer = await send(broker.client(), record(b"fine"), record(b"wrong", **headers))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert words in answer.error_message
        assert [one.batch_index for one in answer.record_errors] == [1]
        assert values(broker) == []

    with_broker(story)


def test_a_transaction_cannot_delay_records() -> None:
    async def story(broker: MemoryBroker) -> None:
        answer = await send(
            broker.client(),
            record(b"a", delay=5),
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert "transaction" in answer.error_message

    with_broker(story)


def test_a_record_that_could_not_be_appended_later_is_refused() -> None:
    async def story(broker: MemoryBroker) -> None:
        await broker.create("small", max_message_bytes="1000", **DELAYS)
        await asyncio.sleep(1)
        client = broker.client()
        zeros = record(bytes(2_000), delay=10)
        too_large = await send(client, zeros, topic="small", compression=Compression.GZIP)
        assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
        plain = await send(
            client, record(bytes(2_000)), topic="small", compression=Compression.GZIP
        )
        assert plain.error_code == 0
        fits = await send(client, record(bytes(700), delay=10), topic="small")
        assert fits.error_code == 0
        await asyncio.sleep(2)
        assert len(values(broker, "small")) == 2

    with_broker(story)


async def test_a_topic_that_the_broker_compacts_delays_nothing() -> None:
    async with memory_broker(log_cleanup_policy="compact") as broker:
        await broker.create("t", **DELAYS)
        await asyncio.sleep(1)
        answer = await send(broker.client(), record(b"a", delay=5))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert "compacted" in answer.error_message


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_clock_that_steps_delivers_once(step_ms: int) -> None:
    async def story(broker: MemoryBroker) -> None:
        client = broker.client()
        await send(client, record(b"a", delay=100), record(b"b", delay=1_800_000))
        await asyncio.sleep(1)
        assert values(broker) == [b"a"]
        broker.clock.EPOCH_MS = LoopClock.EPOCH_MS + step_ms
        await asyncio.sleep(2)
        assert values(broker) == ([b"a", b"b"] if step_ms > 0 else [b"a"])
        await asyncio.sleep(2 * 3_600)
        assert values(broker) == [b"a", b"b"]

    with_broker(story)


@pytest.mark.parametrize("after_s", [0.0, 0.01, 1.5, 3.0])
async def test_a_killed_node_delivers_the_rest_when_it_is_back(after_s: float) -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t", **DELAYS)
        await asyncio.sleep(1)
        client = broker.client()
        for n in range(30):
            answer = await send(client, record(b"%d" % n, delay=100 * n), record(b"p"))
            assert answer.error_code == 0
        await asyncio.sleep(after_s)
        died = storage.copy()
    died.kill()
    async with memory_broker(died) as broker:
        await asyncio.sleep(8)
        found = values(broker)
        assert found.count(b"p") == 30
        assert [one for one in found if one != b"p"] == [b"%d" % n for n in range(30)]


async def test_a_companion_that_a_crash_cut_off_is_delivered_as_timers() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t", **DELAYS)
        await asyncio.sleep(1)
        partition = give(broker.engine, "t", 0, alone=False)
        await asyncio.sleep(1)
        await send(broker.client(), record(b"later", delay=60_000), record(b"plain"), acks=1)
        # The other replica has the first of the two batches only, and leads then.
        take(broker.engine, "t", 0)
        partition.log.truncate_to(2)
        give(broker.engine, "t", 0)
        await asyncio.sleep(2)
        assert values(broker) == [b"plain"]
        await asyncio.sleep(70)
        assert values(broker) == [b"plain", b"later"]


def test_nothing_becomes_a_timer_before_it_and_its_companion_are_committed() -> None:
    async def story(broker: MemoryBroker) -> None:
        partition = give(broker.engine, "t", 0, alone=False)
        await asyncio.sleep(1)
        await send(broker.client(), record(b"a", delay=10), record(b"p"), acks=1)
        await asyncio.sleep(5)
        assert len(broker.engine.timers) == 0
        partition.advance(2)  # the control batch, not what follows it
        await asyncio.sleep(5)
        assert len(broker.engine.timers) == 0
        commit_all(partition)
        await asyncio.sleep(0.005)
        assert len(broker.engine.timers) == 1

    with_broker(story)


def test_a_leader_whose_log_lost_records_goes_on_at_its_end() -> None:
    async def story(broker: MemoryBroker) -> None:
        client = broker.client()
        for n in range(5):
            await send(client, record(b"old%d" % n, delay=30_000))
        await asyncio.sleep(1)
        partition = take(broker.engine, "t", 0)
        partition.log.truncate_to(2)
        partition.high_watermark = 2
        give(broker.engine, "t", 0)
        await send_until_taken(client, record(b"new", delay=1_000))
        await asyncio.sleep(3)
        assert values(broker) == [b"new"]
        await asyncio.sleep(40)
        assert values(broker) == [b"new", *(b"old%d" % n for n in range(5))]

    with_broker(story)


def test_timers_go_on_after_their_topic_was_deleted() -> None:
    async def story(broker: MemoryBroker) -> None:
        client = broker.client()
        await send(client, record(b"lost", delay=5_000))
        await asyncio.sleep(1)
        await broker.engine.topic_admin.delete_topics([(TIMERS_TOPIC, None)])
        await asyncio.sleep(60)
        await send_until_taken(client, record(b"new", delay=5_000))
        await asyncio.sleep(60)
        assert values(broker) == [b"new"]

    with_broker(story)


async def test_what_was_accepted_is_delivered_after_the_setting_is_off() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t", **DELAYS)
        await asyncio.sleep(1)
        client = broker.client()
        await send(client, record(b"a", delay=5_000))
        await broker.engine.metadata.quorum.propose(
            [
                ConfigRecord(
                    resource_type=RESOURCE_TOPIC,
                    resource_name="t",
                    name="millpond.delay.enable",
                    value="false",
                )
            ]
        )
        await send(client, record(b"b", delay=5_000))
        assert values(broker) == [b"b"]
        await asyncio.sleep(8)
        assert values(broker) == [b"b", b"a"]


def test_a_leader_refuses_more_than_may_wait_for_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DEFERRED_BATCHES_WAITING_MAX >= 1_000
    monkeypatch.setattr(forwarding, "DEFERRED_BATCHES_WAITING_MAX", 3)

    async def story(broker: MemoryBroker) -> None:
        take(broker.engine, TIMERS_TOPIC, 0)
        for index in range(1, len(broker.engine.metadata.image.topics[TIMERS_TOPIC].partitions)):
            take(broker.engine, TIMERS_TOPIC, index)
        client = broker.client()
        codes = [(await send(client, record(b"%d" % n, delay=5))).error_code for n in range(5)]
        assert codes == [0, 0, 0, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS]
        for index in range(len(broker.engine.metadata.image.topics[TIMERS_TOPIC].partitions)):
            give(broker.engine, TIMERS_TOPIC, index)
        await asyncio.sleep(10)
        assert values(broker) == [b"0", b"1", b"2"]
        assert (await send(client, record(b"3", delay=5))).error_code == 0

    with_broker(story)


def test_the_position_moves_without_delayed_records() -> None:
    async def story(broker: MemoryBroker) -> None:
        target = Target(broker.engine.metadata.image.topics["t"].topic_id, 0)
        for n in range(20):
            await send(broker.client(), record(b"%d" % n))
        assert broker.engine.timers.position(target) == 0
        await asyncio.sleep(40)
        assert broker.engine.timers.position(target) == 20

    with_broker(story)


async def test_a_host_whose_disk_takes_no_writes_reads_its_log_once_a_second() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t", **DELAYS)
        await asyncio.sleep(1)
        await send(broker.client(), record(b"a", delay=1_000))
        await asyncio.sleep(0.1)
        turns = 0
        new_state = broker.engine.timers.new_state

        def counted(index: int) -> Any:
            nonlocal turns
            turns += 1
            return new_state(index)

        broker.engine.timers.new_state = counted  # type: ignore[method-assign]
        storage.fail_writes = True
        await asyncio.sleep(20)
        assert 0 < turns <= 25


async def test_timers_wait_for_a_disk_that_cannot_be_read_for_a_while() -> None:
    storage = FaultyStorage()
    async with memory_broker(storage) as broker:
        await broker.create("t", **DELAYS)
        await asyncio.sleep(1)
        client = broker.client()
        for n in range(5):
            await send(client, record(b"%d" % n, delay=1_000 + n))
        await asyncio.sleep(0.5)
        storage.fail_reads = TIMERS_TOPIC
        await asyncio.sleep(3)
        storage.fail_reads = ""
        await asyncio.sleep(10)
        assert values(broker) == [b"%d" % n for n in range(5)]


# --- several nodes -------------------------------------------------------------------------------------

ONE, TWO, THREE = 1, 2, 3
TIMERS_ID = UUID(int=300)


async def make_topics(nodes: ReplicaNodes) -> None:
    """Topic t led by node 1, its timers hosted by node 2."""
    everyone = tuple(nodes.storages)
    await nodes.propose(
        TopicRecord(name=TIMERS_TOPIC, topic_id=TIMERS_ID),
        PartitionRecord(
            partition_id=0, topic_id=TIMERS_ID, replicas=everyone, isr=everyone, leader=TWO
        ),
    )
    await nodes.make_topic(**DELAYS)
    await asyncio.sleep(2)


async def move(nodes: ReplicaNodes, topic_id: UUID, node: int, *isr: int) -> None:
    await nodes.propose(
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=isr or (node,), leader=node)
    )


@pytest.mark.parametrize("wire", [False, True])
async def test_delays_over_several_nodes_survive_the_loss_of_both_leaders(wire: bool) -> None:
    async with replica_nodes(3, wire=wire) as nodes:
        await make_topics(nodes)
        leader = nodes.client(ONE)
        for n in range(20):
            await send_until_taken(leader, record(b"%d" % n, delay=1_000 + 400 * n))
        await asyncio.sleep(3)
        # The target's leader goes, then the host of its timers.
        await move(nodes, TOPIC_ID, THREE, TWO, THREE)
        await nodes.kill(ONE)
        leader = nodes.client(THREE)
        for n in range(20, 25):
            await send_until_taken(leader, record(b"%d" % n, delay=7_000 + 100 * n))
        await asyncio.sleep(2)
        await move(nodes, TIMERS_ID, THREE)
        await move(nodes, TOPIC_ID, THREE, THREE)
        await nodes.kill(TWO)
        await asyncio.sleep(30)
        partition = nodes.replica(THREE)
        assert partition.is_leader
        found = [one.value for one in consumed(partition)]
        assert found == [b"%d" % n for n in range(25)]


@pytest.mark.parametrize("wire", [False, True])
async def test_what_the_old_leader_did_not_pass_on_the_new_one_does(wire: bool) -> None:
    async with replica_nodes(3, wire=wire) as nodes:
        await make_topics(nodes)
        await send_until_taken(nodes.client(ONE), record(b"a", delay=100))
        await asyncio.sleep(10)
        nodes.cut.add(frozenset({ONE, TWO}))  # the host is not reached; node 3 still follows
        await nodes.change(isr=(ONE, THREE))
        await move(nodes, TIMERS_ID, TWO, TWO, THREE)
        answer = await send(nodes.client(ONE), record(b"b", delay=100), record(b"p"))
        assert answer.error_code == 0
        await asyncio.sleep(5)
        assert [one.value for one in consumed(nodes.replica(ONE))] == [b"a", b"p"]
        await move(nodes, TOPIC_ID, THREE, THREE)
        await asyncio.sleep(20)
        assert [one.value for one in consumed(nodes.replica(THREE))] == [b"a", b"p", b"b"]
