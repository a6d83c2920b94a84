"""Quotas at work: what an answer says of them, how long a connection is mute, what a fetch gets."""

from typing import Any

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from millpond.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from millpond.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from millpond.wire.kafka.messages.delete_topics import DeleteTopicsRequest
from millpond.wire.kafka.messages.metadata import MetadataRequest
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    MemoryClient,
    batch,
    fetch,
    memory_broker,
    produce,
    values_of,
)


async def _limit(
    broker: MemoryBroker, key: str, value: float | None, user: str = "ANONYMOUS"
) -> None:
    entry = EntryData([EntityData("user", user)], [OpData(key, value or 0.0, value is None)])
    request = AlterClientQuotasRequest([entry])
    answer = await broker.client().ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    assert answer.entries[0].error_code == 0


async def _answered_ms(broker: MemoryBroker, client: MemoryClient) -> int:
    """How long the client's next request takes to be answered."""
    before = broker.engine.runtime.clock.monotonic_ms()
    await client.ask(ApiKey.METADATA, 12, MetadataRequest([]))
    return broker.engine.runtime.clock.monotonic_ms() - before


async def test_a_producer_over_its_quota_is_told_and_not_read_for_that_long() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _limit(broker, "producer_byte_rate", 1000)
        client, other = broker.client(), broker.client()
        small = await client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x")))
        assert small.throttle_time_ms == 0
        large = await client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x" * 20_000)))
        assert large.responses[0].partition_responses[0].error_code == 0
        assert 10_000 < large.throttle_time_ms < 11_000
        assert await _answered_ms(broker, other) == 0
        waited = await _answered_ms(broker, client)
        assert abs(waited - large.throttle_time_ms) <= 1


async def test_a_producer_without_answers_is_muted_too() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _limit(broker, "producer_byte_rate", 1000)
        client = broker.client()
        request = produce(batch(b"x" * 20_000), acks=0)
        client.send(ApiKey.PRODUCE, 9, request, expect_response=False)
        assert 10_000 < await _answered_ms(broker, client) < 11_000


async def test_a_fetch_over_its_quota_is_answered_without_records_and_later_with_them() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        await client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x" * 8_000)))
        await _limit(broker, "consumer_byte_rate", 1000)
        first = await client.ask(ApiKey.FETCH, 12, fetch())
        assert first.throttle_time_ms == 0
        second = await client.ask(ApiKey.FETCH, 12, fetch())
        assert second.throttle_time_ms > 0
        assert second.responses == []
        third: Any = None
        for _ in range(20):
            third = await client.ask(ApiKey.FETCH, 12, fetch())
            if third.responses:
                break
        assert len(third.responses[0].partitions[0].records) > 8_000


async def test_a_fetch_asks_for_no_more_than_its_quota_can_ever_give() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        for _ in range(5):
            await client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x" * 3_000)))
        await _limit(broker, "consumer_byte_rate", 1000)
        answer = await client.ask(ApiKey.FETCH, 12, fetch())
        assert answer.throttle_time_ms == 0
        assert 9_000 <= len(answer.responses[0].partitions[0].records) <= 10_000


async def test_a_client_that_takes_too_much_time_waits_a_window() -> None:
    async with memory_broker() as broker:
        moments = iter(range(1, 10**15, 500_000_000))
        broker.frontend.counter_ns = lambda: next(moments)
        client = broker.client()
        await _limit(broker, "request_percentage", 1)
        answer = await client.ask(ApiKey.METADATA, 12, MetadataRequest([]))
        assert answer.throttle_time_ms == 1000
        assert await _answered_ms(broker, client) == 1000


async def test_topics_over_the_mutation_quota_are_refused_to_clients_that_know_it() -> None:
    async with memory_broker() as broker:
        await _limit(broker, "controller_mutation_rate", 1)
        topics = [
            CreatableTopic("a", 20, 1),
            CreatableTopic("b", 1, 1),
            CreatableTopic("", 1, 1),
        ]
        client = broker.client()
        made = await client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, 9000))
        codes = {one.name: one.error_code for one in made.topics}
        assert codes == {
            "a": 0,
            "b": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            "": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        assert made.throttle_time_ms == 9000
        assert "b" not in broker.engine.metadata.image.topics
        grown = await broker.client().ask(
            ApiKey.CREATE_PARTITIONS,
            3,
            CreatePartitionsRequest([CreatePartitionsTopic("a", 21, None)]),
        )
        assert grown.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        gone = await broker.client().ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest([], ["a"]))
        assert gone.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_older_clients_get_their_topics_and_wait_afterwards() -> None:
    async with memory_broker() as broker:
        await _limit(broker, "controller_mutation_rate", 1)
        topics = [CreatableTopic("a", 20, 1), CreatableTopic("b", 1, 1)]
        made = await broker.client().ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics, 9000))
        assert [one.error_code for one in made.topics] == [0, 0]
        assert made.throttle_time_ms == 10_000


async def test_a_quota_that_is_removed_holds_nobody_up() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _limit(broker, "producer_byte_rate", 1)
        await _limit(broker, "producer_byte_rate", None)
        assert not broker.engine.quotas.active
        client = broker.client()
        answer = await client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x" * 20_000)))
        assert answer.throttle_time_ms == 0
        assert await _answered_ms(broker, client) == 0


async def test_somebody_elses_quota_holds_nobody_up() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _limit(broker, "producer_byte_rate", 1, user="alice")
        answer = await broker.client().ask(ApiKey.PRODUCE, 9, produce(batch(b"x" * 20_000)))
        assert answer.throttle_time_ms == 0


async def test_a_wait_is_never_longer_than_an_answer_can_say() -> None:
    """A quota of next to nothing is how operators stop a client; its connections must not break by that."""

    async with memory_broker() as broker:
        await broker.create("t")
        await _limit(broker, "producer_byte_rate", 1)
        waits = []
        for _ in range(3):
            answer = await broker.client().ask(ApiKey.PRODUCE, 9, produce(batch(b"x" * 900_000)))
            assert answer.responses[0].partition_responses[0].error_code == 0
            waits.append(answer.throttle_time_ms)
        assert waits[0] < waits[1] < waits[2] == 2**31 - 1


async def test_a_fetch_that_took_too_much_time_has_its_records_and_the_wait() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        await client.ask(ApiKey.PRODUCE, 9, produce(batch(b"x")))
        moments = iter(range(1, 10**15, 500_000_000))
        broker.frontend.counter_ns = lambda: next(moments)
        await _limit(broker, "request_percentage", 1)
        answer = await client.ask(ApiKey.FETCH, 12, fetch())
        assert answer.throttle_time_ms == 1000
        assert values_of(answer.responses[0].partitions[0].records) == [b"x"]
