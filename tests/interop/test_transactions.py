"""Transactions with librdkafka, aiokafka and kafka-python; Java has files of its own."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.interop.peers import Peer
from tests.interop.topics import create_topic

TIMEOUT_S = 50


@contextmanager
def consumer(broker: Peer, group: str, **settings: Any) -> Iterator[Consumer]:
    one = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **settings,
        }
    )
    try:
        yield one
    finally:
        one.close()


def producer(broker: Peer, transactional_id: str, **settings: Any) -> Producer:
    one = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, **settings}
    )
    one.init_transactions(TIMEOUT_S)
    return one


def is_end(message: Message) -> bool:
    """Of the partition; other words of librdkafka's, as of a connection that was made again, are no end."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def read_all(broker: Peer, topic: str, partitions: int = 1, **settings: Any) -> list[bytes]:
    """Every value up to the end that the reader may see, partition by partition."""
    found: list[bytes] = []
    for partition in range(partitions):
        with consumer(broker, f"{topic}-unused", **settings) as reader:
            reader.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = reader.poll(TIMEOUT_S)
                assert message is not None, "the end of the partition never came"
                if is_end(message):
                    break
                if message.error() is None:
                    found.append(message.value())
    return found


def test_librdkafka_commits_and_aborts(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=2)
    writer = producer(broker, topic)
    for number in range(10):
        writer.begin_transaction()
        for partition in (0, 1):
            writer.produce(topic, b"%d" % number, partition=partition)
        writer.flush(TIMEOUT_S)
        if number % 3 == 2:
            writer.abort_transaction(TIMEOUT_S)
        else:
            writer.commit_transaction(TIMEOUT_S)
    kept = [b"%d" % number for number in range(10) if number % 3 != 2]
    assert read_all(broker, topic, 2) == kept * 2
    everything = [b"%d" % number for number in range(10)]
    assert read_all(broker, topic, 2, **{"isolation.level": "read_uncommitted"}) == everything * 2


def test_librdkafka_fences_its_older_incarnation(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    old = producer(broker, topic)
    old.begin_transaction()
    old.produce(topic, b"old")
    old.flush(TIMEOUT_S)

    new = producer(broker, topic)

    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(TIMEOUT_S)
    assert caught.value.args[0].fatal()
    new.begin_transaction()
    new.produce(topic, b"new")
    new.commit_transaction(TIMEOUT_S)
    assert read_all(broker, topic) == [b"new"]


def test_librdkafka_copies_exactly_once(broker: Peer, topic: str) -> None:
    """Consume, transform, produce, with a crash of the copier in the middle of every third transaction."""
    source, target = f"{topic}-in", f"{topic}-out"
    create_topic(broker, source)
    create_topic(broker, target)
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(300):
        plain.produce(source, b"%d" % number, partition=0)
    plain.flush(TIMEOUT_S)

    copied = 0
    for round_ in range(100):
        copied += copy_some(broker, source, target, crash=round_ % 3 == 2)
        if copied >= 300:
            break
    assert copied == 300
    assert read_all(broker, target) == [b"copy of %d" % number for number in range(300)]


def copy_some(broker: Peer, source: str, target: str, *, crash: bool) -> int:
    with consumer(broker, f"{source}-copiers") as reader:
        writer = producer(broker, f"{source}-copier")
        reader.subscribe([source])
        messages: list[Message] = []
        while len(messages) < 37:
            message = reader.poll(TIMEOUT_S)
            assert message is not None, "nothing more came, not even the end"
            if is_end(message):
                break
            if message.error() is None:
                messages.append(message)
        writer.begin_transaction()
        for message in messages:
            writer.produce(target, b"copy of " + message.value(), partition=0)
        writer.send_offsets_to_transaction(
            reader.position(reader.assignment()), reader.consumer_group_metadata(), TIMEOUT_S
        )
        if crash:
            writer.flush(TIMEOUT_S)  # written, and never ended: the next copier takes over
            return 0
        writer.commit_transaction(TIMEOUT_S)
        return len(messages)


def test_aiokafka_commits_and_aborts(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)

    async def story() -> None:
        writer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, transactional_id=topic
        )
        await writer.start()
        try:
            for number in range(6):
                await writer.begin_transaction()
                await writer.send_and_wait(topic, b"%d" % number, partition=0)
                await writer.send_offsets_to_transaction(
                    {aiokafka.TopicPartition(topic, 0): number}, f"{topic}-group"
                )
                if number % 2:
                    await writer.abort_transaction()
                else:
                    await writer.commit_transaction()
        finally:
            await writer.stop()
        reader = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=f"{topic}-group",
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await reader.start()
        try:
            place = aiokafka.TopicPartition(topic, 0)
            while place not in reader.assignment():
                await reader.getmany(timeout_ms=100)
            assert await reader.committed(place) == 4
            await reader.seek_to_beginning(place)
            values: list[bytes | None] = []
            while len(values) < 3:
                for messages in (await reader.getmany(timeout_ms=1000)).values():
                    values += [message.value for message in messages]
            assert values == [b"0", b"2", b"4"]
        finally:
            await reader.stop()

    asyncio.run(asyncio.wait_for(story(), TIMEOUT_S * 2))


def test_kafka_python_commits_and_aborts(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    writer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap, transactional_id=topic, enable_idempotence=True
    )
    try:
        writer.init_transactions()
        for number in range(6):
            writer.begin_transaction()
            writer.send(topic, b"%d" % number, partition=0).get(TIMEOUT_S)
            if number % 2:
                writer.abort_transaction()
            else:
                writer.commit_transaction()
    finally:
        writer.close()
    assert read_all(broker, topic) == [b"0", b"2", b"4"]
