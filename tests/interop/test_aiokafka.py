"""aiokafka against a broker process."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
)

from tests.interop.peers import Peer
from tests.interop.topics import MORNING_MS, create_topic

TIMEOUT_S = 45


def test_administers_topics(broker: Peer, topic: str) -> None:
    async def story() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            made = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert [answer[:2] for answer in made.topic_errors] == [(topic, 0)]
            again = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert [answer[1] for answer in again.topic_errors] == [36]  # exists already

            await admin.create_partitions({topic: NewPartitions(5)})
            # Apache Kafka tells its brokers a moment after it has agreed.
            partitions: list[int] = []
            while len(partitions) < 5:
                (described,) = await admin.describe_topics([topic])
                partitions = sorted(one["partition"] for one in described["partitions"])
            assert partitions == [0, 1, 2, 3, 4]

            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            (answer,) = await admin.describe_configs([resource])
            settings = {entry[0]: entry[1] for entry in answer.resources[0][4]}
            assert settings["cleanup.policy"] == "delete"
            assert settings["retention.ms"] == "604800000"

            gone = await admin.delete_topics([topic])
            assert list(gone.topic_error_codes) == [(topic, 0)]
        finally:
            await admin.close()

    run(story)


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_writes_and_reads(broker: Peer, topic: str, codec: str | None, acks: int | str) -> None:
    create_topic(broker, topic)
    values = [b"%04d " % number + b"flour " * 30 for number in range(200)]

    async def story() -> None:
        async with producer(broker, compression_type=codec, acks=acks) as writer:
            answers = [await writer.send(topic, value, partition=0) for value in values]
            done = [await answer for answer in answers]
        if acks != 0:
            assert [answer.offset for answer in done] == list(range(200))
        found = await read(broker, topic, 200)
        assert [(m.offset, m.value) for m in found] == list(enumerate(values))

    run(story)


def test_writes_idempotently(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)

    async def story() -> None:
        async with producer(broker, enable_idempotence=True) as writer:
            answers = [await writer.send(topic, b"%d" % n, partition=0) for n in range(1000)]
            assert [(await answer).offset for answer in answers] == list(range(1000))
        found = await read(broker, topic, 1000)
        assert [m.value for m in found] == [b"%d" % n for n in range(1000)]

    run(story)


def test_keeps_keys_headers_and_timestamps(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)

    async def story() -> None:
        async with producer(broker) as writer:
            await writer.send_and_wait(
                topic,
                b"v",
                key=b"k",
                partition=0,
                timestamp_ms=MORNING_MS,
                headers=[("a", b"1"), ("a", b""), ("ü", b"\x00\xff")],
            )
            await writer.send_and_wait(topic, None, key=b"tombstone", partition=0)
        first, second = await read(broker, topic, 2)
        assert (first.key, first.value, first.timestamp) == (b"k", b"v", MORNING_MS)
        assert first.timestamp_type == 0
        assert first.headers == (("a", b"1"), ("a", b""), ("ü", b"\x00\xff"))
        assert (second.key, second.value, second.headers) == (b"tombstone", None, ())

    run(story)


def test_seeks_by_offset_time_and_ends(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    partition = aiokafka.TopicPartition(topic, 0)

    async def story() -> None:
        async with producer(broker) as writer:
            for number in range(50):
                time_ms = MORNING_MS + number * 1000
                await writer.send(topic, b"%d" % number, partition=0, timestamp_ms=time_ms)
        async with consumer(broker) as reader:
            reader.assign([partition])
            assert await reader.beginning_offsets([partition]) == {partition: 0}
            assert await reader.end_offsets([partition]) == {partition: 50}
            found = await reader.offsets_for_times({partition: MORNING_MS + 6_500})
            assert found[partition].offset == 7
            assert found[partition].timestamp == MORNING_MS + 7_000
            assert await reader.offsets_for_times({partition: MORNING_MS * 2}) == {partition: None}

            reader.seek(partition, 30)
            assert (await reader.getone()).value == b"30"
            await reader.seek_to_beginning(partition)
            assert (await reader.getone()).value == b"0"
            await reader.seek_to_end(partition)
            assert await reader.position(partition) == 50

            reader.seek(partition, 5000)
            with pytest.raises(OffsetOutOfRangeError):
                await reader.getone()

    run(story)


def test_waits_for_new_messages_without_asking_again_and_again(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    partition = aiokafka.TopicPartition(topic, 0)

    async def story() -> None:
        async with (
            consumer(broker, fetch_max_wait_ms=80_000, request_timeout_ms=100_000) as reader,
            producer(broker, linger_ms=0) as writer,
        ):
            reader.assign([partition])
            reader.seek(partition, 0)
            for number in range(20):
                waiting = asyncio.ensure_future(reader.getone())
                await writer.send_and_wait(topic, b"%d" % number, partition=0)
                # Far below what the long poll may last: the append must end it.
                assert (await asyncio.wait_for(waiting, 40)).value == b"%d" % number

    run(story)


def test_refuses_a_message_too_large(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, config={"max.message.bytes": "10000"})

    async def story() -> None:
        async with producer(broker, max_request_size=10_000_000) as writer:
            await writer.send_and_wait(topic, b"x" * 9_000, partition=0)
            with pytest.raises((MessageSizeTooLargeError, KafkaError)) as refused:
                await writer.send_and_wait(topic, b"x" * 10_001, partition=0)
            assert refused.value.errno == MessageSizeTooLargeError.errno
        assert len(await read(broker, topic, 1)) == 1

    run(story)


def run(story: Callable[[], Awaitable[None]]) -> None:
    """Run the story of a test, for a bounded time."""

    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT_S * 2):
            await story()

    asyncio.run(bounded())


def producer(broker: Peer, **config: Any) -> aiokafka.AIOKafkaProducer:
    """A producer, to be used by `async with`."""
    return aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **config)


def consumer(broker: Peer, **config: Any) -> aiokafka.AIOKafkaConsumer:
    """A consumer that is given its partitions by hand, to be used by `async with`."""
    return aiokafka.AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="none",
        **config,
    )


async def read(broker: Peer, topic: str, count: int) -> list[Any]:
    """Read so many messages of partition 0 from its start."""
    partition = aiokafka.TopicPartition(topic, 0)
    async with consumer(broker) as reader:
        reader.assign([partition])
        reader.seek(partition, 0)
        return [await reader.getone() for _ in range(count)]
