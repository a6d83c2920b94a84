"""Fetch, through a real session and a real engine: sizes, waiting, positions and what is refused."""

import pytest

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.cluster.memory_broker import (
    MemoryBroker,
    batch,
    fetch,
    fetched,
    memory_broker,
    produce,
    produced,
    values_of,
)
from tests.support.time.virtual_loop import virtual_loop


async def _write(broker: MemoryBroker, *values: bytes, partition: int = 0) -> None:
    """One batch for each value."""
    client = broker.client()
    for value in values:
        client.send(ApiKey.PRODUCE, 9, produce(batch(value), partition=partition))
        assert produced(client.answer()).error_code == 0


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_is_answered(version: int) -> None:
    async with memory_broker() as broker:
        topic_id = await broker.create("t")
        await _write(broker, b"a")
        client = broker.client()
        request = fetch(0)
        request.topics[0].topic_id = topic_id
        client.send(ApiKey.FETCH, version, request)
        answer = client.answer()
        one = fetched(answer)
        assert values_of(one.records) == [b"a"]
        assert (one.high_watermark, one.last_stable_offset) == (1, 1)
        if version >= 13:
            assert answer.responses[0].topic_id == topic_id
        if version >= 11:
            assert one.preferred_read_replica == -1


async def test_data_that_is_there_is_answered_at_once_from_the_offset_asked_for() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, b"a", b"b", b"c")
        client = broker.client()
        client.send(ApiKey.FETCH, 12, fetch(1, wait_ms=30_000))
        assert values_of(fetched(client.answer()).records) == [b"b", b"c"]


async def test_a_reader_at_the_end_waits_until_the_time_is_over() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        before = virtual_loop().now
        answer = await client.ask(ApiKey.FETCH, 12, fetch(0, wait_ms=60_000))
        assert virtual_loop().now - before == pytest.approx(60, abs=0.01)
        assert fetched(answer).error_code == 0
        assert values_of(fetched(answer).records) == []


async def test_a_waiting_reader_gets_what_comes_as_soon_as_it_comes() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        client.send(ApiKey.FETCH, 12, fetch(0, wait_ms=60_000))
        assert client.answers() == []
        before = virtual_loop().now
        await _write(broker, b"news")
        answer = await client.receive()
        assert values_of(fetched(answer).records) == [b"news"]
        assert virtual_loop().now - before < 0.1


async def test_min_bytes_holds_the_answer_until_that_much_is_there() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        size = len(batch(b"x" * 100))
        await _write(broker, b"x" * 100)
        client.send(ApiKey.FETCH, 12, fetch(0, wait_ms=60_000, bytes_min=3 * size))
        for _ in range(2):
            assert client.answers() == []
            await _write(broker, b"x" * 100)
        answer = await client.receive()
        assert len(values_of(fetched(answer).records)) == 3


async def test_what_came_by_the_end_of_the_wait_is_given_though_it_is_too_little() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        client.send(ApiKey.FETCH, 12, fetch(0, wait_ms=1_000, bytes_min=1_000_000))
        await _write(broker, b"little")
        assert client.answers() == []
        assert values_of(fetched(await client.receive()).records) == [b"little"]


async def test_a_reader_waits_for_the_flush_of_a_topic_that_is_flushed_first() -> None:
    async with memory_broker() as broker:
        await broker.create("t", flush_policy="group")
        reader, writer = broker.client(), broker.client()
        reader.send(ApiKey.FETCH, 12, fetch(0, wait_ms=60_000))
        writer.send(ApiKey.PRODUCE, 9, produce(batch(b"durable")))
        assert reader.answers() == []
        assert values_of(fetched(await reader.receive()).records) == [b"durable"]


async def test_the_first_batch_is_given_whole_however_small_the_limits() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, b"x" * 5000, b"y" * 5000)
        client = broker.client()
        client.send(ApiKey.FETCH, 12, fetch(0, bytes_max=10, partition_bytes_max=10))
        assert values_of(fetched(client.answer()).records) == [b"x" * 5000]


async def test_the_budget_of_the_request_is_shared_by_its_partitions() -> None:
    async with memory_broker() as broker:
        await broker.create("t", partitions=3)
        size = len(batch(b"x" * 1000))
        for partition in range(3):
            await _write(broker, b"x" * 1000, b"x" * 1000, partition=partition)
        wanted = [
            FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20)
            for n in range(3)
        ]
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=3 * size,
            topics=[FetchTopic(topic="t", partitions=wanted)],
        )
        client = broker.client()
        client.send(ApiKey.FETCH, 12, request)
        sizes = [len(one.records or b"") for one in client.answer().responses[0].partitions]
        assert sizes == [2 * size, size, 0]


async def test_a_partition_limit_may_cut_the_last_batch_but_not_the_first() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, b"a" * 100, b"b" * 100)
        client = broker.client()
        limit = len(batch(b"a" * 100)) + 20
        client.send(ApiKey.FETCH, 12, fetch(0, partition_bytes_max=limit))
        records = fetched(client.answer()).records
        assert len(records) <= limit
        assert values_of(records) == [b"a" * 100]


async def test_an_offset_beyond_the_end_is_refused_at_once() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, b"a")
        client = broker.client()
        client.send(ApiKey.FETCH, 12, fetch(7, wait_ms=60_000))
        one = fetched(client.answer())
        assert one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (one.high_watermark, one.log_start_offset) == (-1, -1)


async def test_an_unknown_partition_does_not_hasten_an_answer_that_can_wait() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        wanted = [
            FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1000) for n in (0, 9)
        ]
        request = FetchRequest(
            max_wait_ms=700, min_bytes=1, topics=[FetchTopic(topic="t", partitions=wanted)]
        )
        client = broker.client()
        before = virtual_loop().now
        answer = await client.ask(ApiKey.FETCH, 12, request)
        codes = [one.error_code for one in answer.responses[0].partitions]
        assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert virtual_loop().now - before == pytest.approx(0.7, abs=0.01)


async def test_a_request_for_unknown_partitions_only_is_answered_at_once() -> None:
    async with memory_broker() as broker:
        client = broker.client()
        client.send(ApiKey.FETCH, 12, fetch(0, topic="nowhere", wait_ms=60_000))
        assert fetched(client.answer()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        client.send(ApiKey.FETCH, 13, fetch(0, wait_ms=60_000))
        assert fetched(client.answer()).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, 0), (-1, 0), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_a_reader_says_which_leader_it_knows(epoch: int, code: int) -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, b"a")
        client = broker.client()
        request = fetch(0)
        request.topics[0].partitions[0].current_leader_epoch = epoch
        client.send(ApiKey.FETCH, 12, request)
        assert fetched(client.answer()).error_code == code


async def test_a_reader_that_knows_an_old_leader_is_told_the_new_one() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
    broker.storage.delete("data/.kafka_cleanshutdown")  # as after a crash
    async with memory_broker(broker.storage) as again:
        client = again.client()
        request = fetch(0)
        request.topics[0].topic_id = again.engine.metadata.image.topics["t"].topic_id
        request.topics[0].partitions[0].current_leader_epoch = 0
        client.send(ApiKey.FETCH, 17, request)
        answer = client.answer()
        one = fetched(answer)
        assert one.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == (1, 1)
        (node,) = answer.node_endpoints
        assert (node.node_id, node.host, node.port) == (1, "broker.test", 9092)


async def test_a_deleted_topic_wakes_its_waiting_readers() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        client.send(ApiKey.FETCH, 12, fetch(0, wait_ms=60_000))
        before = virtual_loop().now
        await broker.engine.topic_admin.delete_topics([("t", None)])
        answer = await client.receive()
        assert fetched(answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert virtual_loop().now - before < 1


async def test_a_client_that_leaves_leaves_no_waiter_behind() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        client.send(ApiKey.FETCH, 12, fetch(0, wait_ms=60_000))
        partition = broker.engine.partitions.partition("t", 0)
        assert len(partition.watchers) == 1
        client.session.connection_lost()
        assert len(partition.watchers) == 0


async def test_readers_of_committed_data_get_an_empty_list_of_aborted_transactions() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, b"a")
        client = broker.client()
        client.send(ApiKey.FETCH, 12, fetch(0, isolation_level=1))
        client.send(ApiKey.FETCH, 12, fetch(0, isolation_level=0))
        committed, uncommitted = (fetched(answer) for answer in client.answers())
        assert committed.aborted_transactions == []
        assert uncommitted.aborted_transactions is None


async def test_a_reader_whose_last_record_is_of_an_unknown_epoch_is_refused() -> None:
    async with memory_broker() as broker:
        await broker.create("t")
        await _write(broker, b"a", b"b")
        client = broker.client()
        request = fetch(2, wait_ms=60_000)
        request.topics[0].partitions[0].last_fetched_epoch = 0
        client.send(ApiKey.FETCH, 12, request)
        assert client.answers() == []  # it is up to date, and waits
        request.topics[0].partitions[0].fetch_offset = 5
        other = broker.client()
        other.send(ApiKey.FETCH, 12, request)
        one = fetched(other.answer())
        assert one.error_code == 0
        assert (one.diverging_epoch.epoch, one.diverging_epoch.end_offset) == (0, 2)
