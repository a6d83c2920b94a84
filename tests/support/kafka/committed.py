"""What a reader of committed data sees in a topic, by a client that is not ours (librdkafka)."""

import uuid

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

TIMEOUT_S = 60


def read_committed(bootstrap: str, topic: str) -> list[Message]:
    """Every committed message of a topic, partition by partition, up to the last stable offset."""
    return _read(bootstrap, topic, "read_committed")


def read_uncommitted(bootstrap: str, topic: str) -> list[Message]:
    """Every message of a topic, whatever became of its transaction."""
    return _read(bootstrap, topic, "read_uncommitted")


def values(messages: list[Message]) -> list[bytes]:
    """The values of messages, none of which is null."""
    found = [message.value() for message in messages]
    assert all(isinstance(value, bytes) for value in found)
    return found


def _read(bootstrap: str, topic: str, isolation: str) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"judge-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        left = set(partitions)
        found: list[Message] = []
        while left:
            batch = consumer.consume(1000, timeout=0.05) or [consumer.poll(TIMEOUT_S)]
            for message in batch:
                assert message is not None, f"{topic}: no end in sight of {left}"
                error = message.error()
                if error is None:
                    found.append(message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(message.partition())
        return found
    finally:
        consumer.close()
