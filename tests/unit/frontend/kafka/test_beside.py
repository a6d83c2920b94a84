"""Batches that take long to check go beside the loop: order is kept, and no other client waits for it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from millpond.base import limits
from millpond.engine.threads import Done, RealThreads, WorkThread
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
from tests.support.memory_broker import MemoryBroker, batch, fetch, memory_broker, produce
from tests.support.poison import POISON, bomb, poisoned
from tests.support.virtual_loop import LoopClock, run

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


def large(value: bytes = b"") -> bytes:
    """A small request that grows."""
    value += bytes(LARGE - len(value))
    records = [(LoopClock.EPOCH_MS, None, value, ())]
    return bytes(build_batch(records, compression=Compression.ZSTD))


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
        assert broker.engine.beside.waiting == 3

        for client in clients[1:]:
            client.session.connection_lost()
        await turns()
        assert broker.engine.beside.waiting == 0
        while threads.jobs:
            threads.release()
        await turns()
        assert offsets(clients[0].answer()) == [0]
        assert broker.engine.partition("t", 0).log.end_offset == 1, "the others appended nothing"

    story_with(story)


def test_the_requests_behind_a_checked_batch_do_not_wait_for_its_replicas() -> None:
    async def story(broker: MemoryBroker, threads: HeldThreads) -> None:
        client = broker.client()
        client.send(ApiKey.PRODUCE, 9, produce(large()))
        client.send(ApiKey.PRODUCE, 9, produce(batch(b"behind")))
        await turns()
        threads.release()
        await turns()
        assert broker.engine.partition("t", 0).log.end_offset == 2
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
        assert broker.engine.partition("t", 0).log.end_offset == 0
        if acks:
            assert codes(client.answer()) == [ErrorCode.INVALID_RECORD]
        else:
            assert client.is_closed

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


def test_many_batches_that_grow_are_checked_one_by_one_and_stored() -> None:
    """With real threads: what took half a minute of the loop."""

    async def story() -> None:
        async with memory_broker() as broker:
            await broker.create("t")
            client = broker.client()
            frames = [client.frame(ApiKey.PRODUCE, 9, produce(bomb(3 << 20))) for _ in range(20)]
            client.session.data_received(b"".join(frames))
            answers = [await client.receive() for _ in frames]
            assert [offsets(one) for one in answers] == [[n] for n in range(20)]

    run(story())
