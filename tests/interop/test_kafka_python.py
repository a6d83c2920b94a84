"""kafka-python against a broker process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import (
    InvalidPartitionsError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.interop.peers import Peer
from tests.interop.topics import MORNING_MS, create_topic
from tests.support.processes.ports import wait_until

TIMEOUT_S = 60


def test_administers_topics(broker: Peer, topic: str) -> None:
    with administering(broker) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
        assert topic in admin.list_topics()
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])

        admin.create_partitions({topic: NewPartitions(4)})
        # Apache Kafka tells its brokers a moment after it has agreed.
        wait_until(
            lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 4,
            timeout_s=TIMEOUT_S,
            what="the topic has four partitions",
        )
        with pytest.raises(InvalidPartitionsError):
            admin.create_partitions({topic: NewPartitions(1)})

        admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1234567"})]
        )
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        wait_until(
            lambda: "1234567" in str(admin.describe_configs([resource])),
            timeout_s=TIMEOUT_S,
            what="the setting is altered",
        )

        admin.delete_topics([topic])
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics([topic])


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_writes_and_reads(broker: Peer, topic: str, codec: str | None, acks: int | str) -> None:
    create_topic(broker, topic)
    values = [b"%04d " % number + b"barley " * 30 for number in range(200)]
    idempotent = acks == "all"
    with producing(
        broker, compression_type=codec, acks=acks, enable_idempotence=idempotent
    ) as producer:
        answers = [producer.send(topic, value, partition=0) for value in values]
        done = [answer.get(TIMEOUT_S) for answer in answers]
    if acks != 0:
        assert [answer.offset for answer in done] == list(range(200))
    found = read(broker, topic, 200)
    assert [(m.offset, m.value) for m in found] == list(enumerate(values))


def test_keeps_keys_headers_and_timestamps(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    headers = [("a", b"1"), ("a", b""), ("ü", b"\x00\xff")]
    with producing(broker) as producer:
        producer.send(
            topic, b"v", key=b"k", headers=headers, partition=0, timestamp_ms=MORNING_MS
        ).get(TIMEOUT_S)
        producer.send(topic, None, key=b"tombstone", partition=0).get(TIMEOUT_S)
    first, second = read(broker, topic, 2)
    assert (first.key, first.value, first.timestamp) == (b"k", b"v", MORNING_MS)
    assert list(first.headers) == headers
    assert (second.key, second.value) == (b"tombstone", None)


def test_seeks_by_offset_time_and_ends(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    partition = kafka.TopicPartition(topic, 0)
    with producing(broker) as producer:
        for number in range(50):
            time_ms = MORNING_MS + number * 1000
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=time_ms)
    with consuming(broker) as consumer:
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 50}
        found = consumer.offsets_for_times({partition: MORNING_MS + 6_500})
        assert (found[partition].offset, found[partition].timestamp) == (7, MORNING_MS + 7_000)

        consumer.seek(partition, 30)
        assert next(consumer).value == b"30"
        consumer.seek_to_beginning(partition)
        assert next(consumer).value == b"0"
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 50


def test_refuses_a_message_too_large(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, config={"max.message.bytes": "10000"})
    with producing(broker, max_request_size=10_000_000) as producer:
        producer.send(topic, b"x" * 9_000, partition=0).get(TIMEOUT_S)
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, b"x" * 10_001, partition=0).get(TIMEOUT_S)


@contextmanager
def administering(broker: Peer) -> Iterator[Any]:
    """An admin client."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        yield admin
    finally:
        admin.close()


@contextmanager
def producing(broker: Peer, **config: Any) -> Iterator[Any]:
    """A producer; at the end everything has been sent."""
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, **config)
    try:
        yield producer
        producer.flush(TIMEOUT_S)
    finally:
        producer.close(TIMEOUT_S)


@contextmanager
def consuming(broker: Peer, **config: Any) -> Iterator[Any]:
    """A consumer without a group."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        consumer_timeout_ms=TIMEOUT_S * 1000,
        **config,
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read(broker: Peer, topic: str, count: int) -> list[Any]:
    """Read so many messages of partition 0 from its start."""
    partition = kafka.TopicPartition(topic, 0)
    with consuming(broker) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        return [next(consumer) for _ in range(count)]
