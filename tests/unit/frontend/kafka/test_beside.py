"""Batches that take long to check go beside the loop: order is kept, and no other client waits for it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from millpond.base import limits
from millpond.base.errors import MillpondError, NotLeader, UnknownTopicId
from millpond.base.ids import TopicPartition
from millpond.engine.peers import AppendBatch
from millpond.engine.runtime.threads import Done, RealThreads, WorkThread
from millpond.record.batch import read_header
from millpond.record.builder import build_batch
from millpond.record.compression import Compression, compress
from millpond.record.records import decode_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from millpond.wire.kafka.messages.metadata import MetadataRequest
from millpond.wire.kafka.messages.push_telemetry import PushTelemetryRequest
from tests.support.cluster.memory_broker import MemoryBroker, batch, fetch, memory_broker, produce
from tests.support.kafka.txn_writer import Writer
from tests.support.storage.poison import POISON, bomb, poisoned
from tests.support.time.virtual_loop import LoopClock, run

LARGE = 2 * limits.LOOP_DECOMPRESSED_BYTES_MAX


class HeldThreads:
    """Threads whose jobs beside the loop are done when the test lets them; the others are real."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], object], Done]] = []
        self._real = RealThreads()

    def one(self, name: str) -> WorkThread:
        return _HeldThread(self) if "beside" in name else self._real.one(name)

    async def run_all(self, jobs: Sequence[Callable[[], None]]) -> list[BaseException | None]:
        return await self._real.run_all(jobs)

    def release(self) -> None:
        """Do the oldest job."""
        job, done = self.jobs.pop(0)
        try:
            result = job()
        except BaseException as error:  # noqa: BLE001 - as a thread reports it
            done(None, error)
        else:
            done(result, None)


class _HeldThread:
    def __init__(self, threads: HeldThreads) -> None:
        self._threads = threads

    def submit(self, job: Callable[[], object], done: Done) -> None:
        self._threads.jobs.append((job, done))

    def stop(self, *, wait: bool) -> None:
        pass


def large(value: bytes = b"", **fields: Any) -> bytes:
    """A small request that grows; with ``fields`` of a producer, in its transaction."""
    value += bytes(LARGE - len(value))
    records = [(LoopClock.EPOCH_MS, None, value, ())]
    if fields:
        fields = {"base_sequence": 0, "transactional": True} | fields
    return bytes(build_batch(records, compression=Compression.ZSTD, **fields))


def story_with(story: Callable[[MemoryBroker, HeldThreads], Any], **settings: str) -> None:
    async def whole() -> None:
        threads = HeldThreads()
        async with memory_broker(None, threads) as broker:
            await broker.create("t", 2, **settings)
            await story(broker, threads)

    run(whole())


async def turns() -> None:
    """Let the loop do what is ready."""
    for _ in range(20):
        await asyncio.sleep(0)


def codes(answer: Any) -> list[int]:
    return [one.error_code for topic in answer.responses for one in topic.partition_responses]


def offsets(answer: Any) -> list[int]:
    return [one.base_offset for topic in answer.responses for one in topic.partition_responses]


def test_other_connections_are_served_while_a_batch_is_checked() -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        slow, other = broker.client(), broker.client()
        slow.send(ApiKey.PRODUCE, 9, produce(large(b"slow")))
        slow.send(ApiKey.PRODUCE, 9, produce(batch(b"behind it")))
        slow.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        await turns()
        assert slow.answers() == []
        assert offsets(await other.ask(ApiKey.PRODUCE, 9, produce(batch(b"first")))) == [0]
        assert (await other.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))).brokers

        threads.release()
        await turns()
        assert [offsets(one) for one in slow.answers()[:2]] == [[1], [2]]
        read = await other.ask(ApiKey.FETCH, 12, fetch())
        records = bytes(read.responses[0].partitions[0].records)
        assert [one.value for one in decode_batch(records)] == [b"first"]

    story_with(story)


def test_what_waits_for_a_client_that_has_gone_is_dropped() -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        clients = [broker.client() for _ in range(limits.CHECKING_THREADS_MAX + 3)]
        for client in clients:
            client.send(ApiKey.PRODUCE, 9, produce(large()))
        await turns()
        assert len(threads.jobs) == limits.CHECKING_THREADS_MAX
        assert broker.engine.runtime.offload.waiting == 3

        for client in clients[1:]:
            client.session.connection_lost()
        await turns()
        assert broker.engine.runtime.offload.waiting == 0
        while threads.jobs:
            threads.release()
        await turns()
        assert offsets(clients[0].answer()) == [0]
        assert broker.engine.partitions.partition("t", 0).log.end_offset == 1, (
            "the others appended nothing"
        )

    story_with(story)


def test_the_requests_behind_a_checked_batch_do_not_wait_for_its_replicas() -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(large()))
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"behind")))
        await turns()
        threads.release()
        await turns()
        assert broker.engine.partitions.partition("t", 0).log.end_offset == 2
        assert [offsets(await client.receive()) for _ in "ab"] == [[0], [1]]

    story_with(story, flush_policy="group")


@pytest.mark.parametrize("acks", [1, -1, 0])
def test_a_poisoned_batch_that_takes_long_is_refused(acks: int) -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        client = broker.client()
        count, payload = POISON["count 1 of 3"]()
        poison = poisoned((count, payload + bytes(LARGE)), Compression.ZSTD)
        client.send(ApiKey.PRODUCE, 9, produce(poison, acks=acks), expect_response=acks != 0)
        await turns()
        threads.release()
        await turns()
        assert broker.engine.partitions.partition("t", 0).log.end_offset == 0
        if acks:
            assert codes(client.answer()) == [ErrorCode.INVALID_RECORD]
        else:
            assert client.is_closed

    story_with(story)


async def end_lease(broker: MemoryBroker) -> None:
    """As when the controller has not answered for too long."""
    broker.engine.membership._session.end(broker.clock.monotonic_ms())


async def delete(broker: MemoryBroker) -> None:
    await broker.engine.topic_admin.delete_topics([("t", None)])


async def delete_and_create(broker: MemoryBroker) -> None:
    await delete(broker)
    await broker.create("t", 2)


# What may become of a partition while a batch for it is checked, and what its producer is told.
CHANGES = pytest.mark.parametrize(
    ("change", "code"),
    [
        (end_lease, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (delete, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (delete_and_create, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
Change = Callable[[MemoryBroker], Awaitable[None]]


@CHANGES
@pytest.mark.parametrize("acks", [1, -1, 0])
def test_a_checked_batch_is_refused_if_its_partition_is_not_led_here_any_more(
    change: Change, code: int, acks: int
) -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        client = broker.client()
        before = broker.engine.partitions.partition("t", 0)
        client.send(ApiKey.PRODUCE, 9, produce(large(), acks=acks), expect_response=acks != 0)
        await turns()
        assert len(threads.jobs) == 1
        await change(broker)
        threads.release()
        await turns()
        assert before.log.end_offset == 0
        if acks:
            assert codes(client.answer()) == [code]
        else:
            assert client.is_closed
        if "t" in broker.engine.metadata.image.topics:
            assert broker.engine.topics.partition("t", 0).log.end_offset == 0

    story_with(story)


@CHANGES
def test_a_checked_batch_for_a_topic_id_is_refused_alike(change: Change, code: int) -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        client = broker.client()
        request = produce(large(), acks=1)
        request.topic_data[0].topic_id = broker.engine.metadata.image.topics["t"].topic_id
        client.send(ApiKey.PRODUCE, 13, request)
        await turns()
        await change(broker)
        threads.release()
        await turns()
        expected = code if change is end_lease else ErrorCode.UNKNOWN_TOPIC_ID
        assert codes(client.answer()) == [expected]

    story_with(story)


@pytest.mark.parametrize(
    ("change", "error"),
    [(end_lease, NotLeader), (delete, UnknownTopicId), (delete_and_create, UnknownTopicId)],
)
def test_a_checked_batch_of_this_node_itself_is_refused_alike(
    change: Change, error: type[MillpondError]
) -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        before = broker.engine.partitions.partition("t", 0)
        question = AppendBatch(
            partition=TopicPartition("t", 0),
            topic_id=before.topic_id,
            records=large(),
            timeout_ms=1000,
        )
        answer = asyncio.ensure_future(broker.engine.peer_handlers.answer(question))
        await turns()
        assert len(threads.jobs) == 1
        await change(broker)
        threads.release()
        with pytest.raises(error):
            await answer
        assert before.log.end_offset == 0

    story_with(story)


def test_a_batch_of_this_node_itself_is_for_the_topic_that_was_there_when_it_was_made() -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        before = broker.engine.partitions.partition("t", 0)
        question = AppendBatch(
            partition=TopicPartition("t", 0),
            topic_id=before.topic_id,
            records=batch(b"small"),
            timeout_ms=1000,
        )
        await delete_and_create(broker)
        with pytest.raises(UnknownTopicId):
            await broker.engine.peer_handlers.answer(question)
        assert broker.engine.partitions.partition("t", 0).log.end_offset == 0

    story_with(story)


@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
@CHANGES
def test_a_checked_batch_that_is_refused_is_no_part_of_a_transaction(
    change: Change, code: int, second: bool
) -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        writer = Writer(broker, "tx", second_generation=second)
        await writer.find()
        assert await writer.init() == 0
        before = broker.engine.partitions.partition("t", 0)
        if not second:
            assert await writer.announce("t", 0) == 0
        records = large(producer_id=writer.producer_id, producer_epoch=writer.epoch)
        request = produce(records)
        request.transactional_id = "tx"
        writer.client.send(ApiKey.PRODUCE, 12 if second else 10, request)
        await turns()
        assert len(threads.jobs) == 1
        await change(broker)
        threads.release()
        await turns()
        assert codes(writer.client.answer()) == [code]
        assert before.log.end_offset == 0
        (transaction,) = broker.engine.transactions.list()
        assert bool(transaction.partitions) is not second, "one that was announced stays so"

    story_with(story)


def test_a_checked_batch_of_a_transaction_that_ended_meanwhile_is_refused() -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        writer = Writer(broker, "tx", second_generation=False)
        await writer.find()
        assert await writer.init() == 0
        assert await writer.send(b"small") == 0
        request = produce(
            large(producer_id=writer.producer_id, producer_epoch=writer.epoch, base_sequence=1)
        )
        request.transactional_id = "tx"
        other = broker.client()
        other.send(ApiKey.PRODUCE, 10, request)
        await turns()
        assert len(threads.jobs) == 1
        assert await writer.end(commit=True) == 0
        end = broker.engine.partitions.partition("t", 0).log.end_offset
        threads.release()
        await turns()
        assert codes(other.answer()) == [ErrorCode.INVALID_TXN_STATE]
        assert broker.engine.partitions.partition("t", 0).log.end_offset == end

    story_with(story)


def test_a_topic_compresses_large_batches_beside_the_loop() -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        client = broker.client()
        value = bytes(2 * limits.LOOP_RECOMPRESSED_BYTES_MAX)
        client.send(ApiKey.PRODUCE, 9, produce(batch(value)))
        await turns()
        assert len(threads.jobs) == 1
        threads.release()
        await turns()
        assert offsets(client.answer()) == [0]
        read = await client.ask(ApiKey.FETCH, 12, fetch())
        records = bytes(read.responses[0].partitions[0].records)
        assert read_header(records).compression == Compression.GZIP
        assert decode_batch(records)[0].value == value

    story_with(story, compression_type="gzip")


def test_small_compressed_batches_stay_on_the_loop() -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        client = broker.client()
        for codec in Compression:
            client.send(ApiKey.PRODUCE, 9, produce(batch(b"x" * 16_000, compression=codec)))
        assert [offsets(one) for one in client.answers()] == [[n] for n in range(len(Compression))]
        assert threads.jobs == []

    story_with(story)


def test_pushed_metrics_are_unpacked_beside_the_loop() -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        client, other = broker.client(), broker.client()
        asked = await client.ask(
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, GetTelemetrySubscriptionsRequest(UUID(int=0))
        )
        pushed = PushTelemetryRequest(
            asked.client_instance_id,
            asked.subscription_id,
            False,
            int(Compression.ZSTD),
            compress(Compression.ZSTD, bytes(1_000_000)),
        )
        client.send(ApiKey.PUSH_TELEMETRY, 0, pushed)
        await turns()
        assert client.answers() == []
        assert (await other.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))).brokers
        threads.release()
        await turns()
        assert client.answer().error_code == 0
        assert broker.engine.telemetry.pushed_bytes == 1_000_000

    story_with(story)


async def test_many_batches_that_grow_are_checked_one_by_one_and_stored() -> None:
    """With real threads: what took half a minute of the loop."""

    async with memory_broker() as broker:
        await broker.create("t")
        client = broker.client()
        frames = [client.frame(ApiKey.PRODUCE, 9, produce(bomb(3 << 20))) for _ in range(20)]
        client.session.data_received(b"".join(frames))
        answers = [await client.receive() for _ in frames]
        assert [offsets(one) for one in answers] == [[n] for n in range(20)]
