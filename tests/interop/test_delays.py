"""Delayed records with clients that know nothing of them: librdkafka and Kafka's console consumer."""

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.interop.peers import Peer
from tests.interop.topics import create_topic
from tests.support.processes.java_tools import run_tool

TIMEOUT_S = 60


def send(broker: Peer, topic: str, *records: tuple[bytes, dict[str, bytes]]) -> list[Message]:
    """Produce in one batch if the client likes to; what it was told of each record."""
    told: list[Message] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 50}
    )
    for value, headers in records:
        producer.produce(
            topic,
            value,
            headers=headers,
            on_delivery=lambda error, message: told.append(error or message),
        )
    assert producer.flush(TIMEOUT_S) == 0
    return told


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_librdkafka_delays_and_reads(broker: Peer, topic: str, isolation: str) -> None:
    create_topic(broker, topic, config={"millpond.delay.enable": "true"})
    told = send(
        broker,
        topic,
        (b"late", {"millpond.delay": b"1500"}),
        (b"now", {}),
        (b"soon", {"millpond.delay": b"700", "trace": b"1"}),
        (b"past", {"millpond.deliver-at": b"1"}),
    )
    assert all(isinstance(one, Message) for one in told), told
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        found: list[Message] = []
        while len(found) < 4:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert message.error() is None
            found.append(message)
    finally:
        consumer.close()
    assert [one.value() for one in found] == [b"now", b"past", b"soon", b"late"]
    soon = dict(found[2].headers() or ())
    assert soon["trace"] == b"1"
    assert int(soon["millpond.due-at"]) >= int(soon["millpond.created-at"])
    assert found[2].timestamp()[1] >= int(soon["millpond.due-at"])


def test_librdkafka_is_told_what_is_wrong(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, config={"millpond.delay.enable": "true"})
    (told,) = send(broker, topic, (b"wrong", {"millpond.delay": b"soon"}))
    assert isinstance(told, KafkaError)
    assert told.code() == KafkaError.INVALID_RECORD


@pytest.mark.usefixtures("java")
def test_kafkas_console_consumer_reads_over_the_gaps(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, config={"millpond.delay.enable": "true"})
    send(broker, topic, *((b"%d" % n, {"millpond.delay": b"%d" % (300 * n)}) for n in range(4)))
    shown = run_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", "4", "--timeout-ms", "60000"),
        *("--formatter-property", "print.headers=true"),
    ).check()
    lines = shown.out.splitlines()
    assert [line.rpartition("\t")[2] for line in lines] == ["0", "1", "2", "3"]
    assert all("millpond.due-at:" in line for line in lines)
