"""Whatever goes wrong on the way, an idempotent producer's records are in the log once and in order."""

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest

from millpond.client import ClientError, NotSerializable, OutOfTime, Producer
from millpond.client.records import RecordMetadata
from millpond.record import decode_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.kafka.fake_kafka import DROP, DROP_AFTER, SILENCE, FakeKafka, Trouble
from tests.unit.client.test_cluster import cluster_of, run
from tests.unit.client.test_producer import stored

FAST: dict[str, Any] = {
    "linger_ms": 0,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 4,
    "request_timeout_ms": 100,
    "batch_size": 60,  # about three records
}


def values(kafka: FakeKafka, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in stored(kafka, topic, partition)]


async def write(kafka: FakeKafka, count: int, **settings: Any) -> None:
    """Write numbers to one partition, with several requests in flight."""
    async with cluster_of(kafka) as cluster, Producer(cluster, **(FAST | settings)) as producer:
        for number in range(count):
            await producer.send("t", b"%05d" % number, partition=0)


def numbers(count: int) -> list[bytes]:
    return [b"%05d" % number for number in range(count)]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param([DROP], id="the connection breaks before the append"),
        pytest.param([DROP_AFTER], id="the connection breaks after the append"),
        pytest.param([ErrorCode.NONE, DROP_AFTER, DROP, DROP_AFTER], id="again and again"),
        pytest.param([ErrorCode.NOT_LEADER_OR_FOLLOWER], id="another leader"),
        pytest.param(
            [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE], id="slow replicas"
        ),
        pytest.param([SILENCE], id="no answer"),
        pytest.param([ErrorCode.NOT_ENOUGH_REPLICAS] * 7, id="nothing for a while"),
    ],
)
def test_records_arrive_once_and_in_order(trouble: list[Any]) -> None:
    async def story() -> None:
        async with FakeKafka() as kafka:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, *trouble)
            await write(kafka, 200)
            assert values(kafka) == numbers(200)

    run(story())


def test_with_several_requests_in_flight_one_that_fails_takes_those_behind_it_along() -> None:
    """The second request comes too early for the leader once the first has failed."""

    async def story() -> None:
        async with FakeKafka() as kafka:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            await write(kafka, 60)
            assert values(kafka) == numbers(60)
            assert {epoch for _, epoch, _ in kafka.sequences} == {0}  # nothing was given up

    run(story())


@pytest.mark.parametrize("seed", range(6))
def test_any_mixture_of_trouble(seed: int) -> None:
    chance = random.Random(seed)
    kinds: list[ErrorCode | Trouble] = [
        DROP,
        DROP_AFTER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]

    async def story() -> None:
        async with FakeKafka(nodes=2) as kafka:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, *(chance.choice(kinds) for _ in range(40)))
            async with asyncio.TaskGroup() as tasks:
                moving = tasks.create_task(_move_leader(kafka, chance))
                await write(kafka, 150)
                moving.cancel()
            assert values(kafka) == numbers(150)

    run(story())


async def _move_leader(kafka: FakeKafka, chance: random.Random) -> None:
    while True:
        await asyncio.sleep(0.01)
        kafka.partition("t").leader = chance.choice([1, 2])


def test_a_batch_that_is_given_up_leaves_no_hole_and_no_duplicate() -> None:
    """The first batch runs out of tries; nobody knows whether it is there. Those behind it arrive once."""

    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, DROP)
            async with Producer(cluster, **(FAST | {"retries": 1})) as producer:
                first = [await producer.send("t", b"lost", partition=0) for _ in range(4)]
                kafka.trouble(ApiKey.PRODUCE, DROP)
                with pytest.raises(ClientError):
                    await first[0]
                for number in range(30):
                    await producer.send("t", b"%05d" % number, partition=0)
                await producer.flush()
                lost = 0
                for delivery in first:
                    try:
                        delivery.result()
                    except ClientError:
                        lost += 1
            assert lost
            kept = [value for value in values(kafka) if value != b"lost"]
            assert kept == numbers(30)
            assert len(values(kafka)) == 30 + 4 - lost

    run(story())


def test_a_delivery_that_expires_while_its_request_is_out() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, SILENCE)
            settings = FAST | {"delivery_timeout_ms": 50, "request_timeout_ms": 200}
            async with Producer(cluster, **settings) as producer:
                delivery = await producer.send("t", b"late")
                with pytest.raises(OutOfTime, match=r"delivery\.timeout\.ms"):
                    await delivery
                assert (await producer.partitions_for("t")) == 1

    run(story())


def test_a_leader_that_lost_our_past_gets_a_new_epoch() -> None:
    """Retention may remove all that a leader knew of a producer; Kafka then refuses the next sequence."""

    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, **FAST) as producer:
                await producer.send_and_wait("t", b"a")
                kafka.trouble(ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
                await producer.send_and_wait("t", b"b")
                await producer.send_and_wait("t", b"c")
            assert values(kafka) == [b"a", b"b", b"c"]
            assert [entry[1:] for entry in kafka.sequences] == [(0, 0), (1, 0), (1, 1)]

    run(story())


def test_a_batch_that_is_too_large_is_split() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
            async with Producer(cluster, linger_ms=5000, retry_backoff_ms=1) as producer:
                deliveries = [await producer.send("t", b"%05d" % n) for n in range(7)]
                heard: list[RecordMetadata | None] = []
                await producer.send(
                    "t", b"%05d" % 7, on_delivery=lambda meta, error: heard.append(meta)
                )
                await producer.flush()
                assert [(await delivery).offset for delivery in deliveries] == list(range(7))
                assert [meta and meta.offset for meta in heard] == [7]
            assert values(kafka) == numbers(8)
            assert [len(decode_batch(batch)) for batch in kafka.partition("t").batches] == [4, 4]

    run(story())


def test_without_idempotence_one_in_flight_keeps_the_order() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER, DROP_AFTER)
            await write(
                kafka, 60, enable_idempotence=False, max_in_flight_requests_per_connection=1
            )
            seen = values(kafka)
            assert sorted(set(seen)) == numbers(60)  # type: ignore[type-var]
            first = {value: seen.index(value) for value in seen}
            assert all(first[a] < first[b] for a, b in pairwise(numbers(60)))

    run(story())


def test_a_batch_that_cannot_be_written_is_told_and_the_others_go_on() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", partitions=2)
            async with Producer(cluster, **FAST) as producer:
                wrong: Any = [(1, "text", b"x", ())]
                bad = asyncio.ensure_future(producer.send_batch("t", 0, wrong))
                good = asyncio.ensure_future(producer.send_batch("t", 1, [(1, None, b"y", ())]))
                with pytest.raises(NotSerializable, match="t-0"):
                    await bad
                await good
                await producer.send_batch("t", 0, [(1, None, b"z", ())])
            assert (values(kafka), values(kafka, partition=1)) == ([b"z"], [b"y"])

    run(story())


@pytest.mark.parametrize(
    "wrong", [{"timestamp_ms": 2**63}, {"timestamp_ms": -1}, {"headers": [("n", 5)]}]
)
def test_one_record_that_cannot_be_written_spoils_no_batch(wrong: dict[str, Any]) -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, linger_ms=50) as producer:
                await producer.send("t", b"1")
                with pytest.raises(NotSerializable):
                    await producer.send("t", b"2", **wrong)
                await producer.send("t", b"3")
            assert values(kafka) == [b"1", b"3"]

    run(story())
