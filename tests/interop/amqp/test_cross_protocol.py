"""One record, two protocols: what AMQP wrote Kafka reads, and the other way round (docs/envelope.md)."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.interop.amqp.brokers import Broker
from tests.interop.conftest import require_java, unique_name
from tests.support.processes.java_host import JavaHost

TIMEOUT_S = 60


@pytest.fixture
def channel(amqp_broker: Broker) -> Iterator[BlockingChannel]:
    with amqp_broker.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A queue's name that is a topic's, too, and that no other test uses."""
    return unique_name(request.node.name)


@pytest.fixture
def kafka(amqp_broker: Broker) -> Callable[[str, int], list[Any]]:
    """Reads so many records of a topic from its beginning."""

    def read(topic: str, count: int) -> list[Any]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": amqp_broker.process.bootstrap,
                "group.id": unique_name("reader"),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.subscribe([topic])
            found: list[Any] = []
            deadline = time.perf_counter() + TIMEOUT_S
            while len(found) < count:
                assert time.perf_counter() < deadline, f"only {len(found)} of {count} came"
                record = consumer.poll(1)
                if record is not None:
                    assert record.error() is None
                    found.append(record)
            return found
        finally:
            consumer.close()

    return read


@pytest.fixture
def producer(amqp_broker: Broker) -> confluent_kafka.Producer:
    return confluent_kafka.Producer({"bootstrap.servers": amqp_broker.process.bootstrap})


def take(channel: BlockingChannel, queue: str, count: int) -> list[tuple[Any, Any, bytes]]:
    """So many messages; they are not acknowledged."""
    found: list[tuple[Any, Any, bytes]] = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=TIMEOUT_S):
        assert method is not None, f"only {len(found)} of {count} came"
        found.append((method, properties, body))
        if len(found) == count:
            channel.cancel()
            return found
    raise AssertionError("the consumer was cancelled")


def test_kafka_reads_what_amqp_wrote(
    channel: BlockingChannel, kafka: Callable[[str, int], list[Any]], name: str
) -> None:
    headers = {
        "colour": "röd",
        "size": 4,
        "big": 2**40,
        "sold": True,
        "nothing": None,
        "raw": b"\x00\xff",
        "deep": {"list": [1, "two"]},
    }
    full = pika.BasicProperties(
        delivery_mode=2,
        content_type="text/plain",
        priority=3,
        correlation_id="c",
        reply_to="r",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
        headers=headers,
    )
    channel.exchange_declare(name, "topic", durable=True)
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, name, "order.*")
    before_ms = time.time() * 1000  # noqa: TID251 - compared with the broker's
    channel.basic_publish(name, "order.new", b"with everything", full)
    channel.basic_publish(name, "order.bare", b"", pika.BasicProperties(delivery_mode=2))
    first, second = kafka(name, 2)
    assert (first.key(), first.value()) == (b"order.new", b"with everything")
    assert first.timestamp() == (confluent_kafka.TIMESTAMP_CREATE_TIME, 1_700_000_000_000)
    shown = {key: value for key, value in first.headers() if not key.startswith("millpond.")}
    assert list(shown) == list(headers)
    assert json.loads(shown.pop("deep")) == headers["deep"]
    assert shown == {
        "colour": "röd".encode(),
        "size": b"4",
        "big": b"1099511627776",
        "sold": b"true",
        "nothing": None,
        "raw": b"\x00\xff",
    }
    assert dict(first.headers())["millpond.amqp.exchange"] == name.encode()
    assert (second.key(), second.value() or b"") == (b"order.bare", b"")
    assert before_ms - 1 <= second.timestamp()[1] <= time.time() * 1000 + 1  # noqa: TID251
    # And an AMQP consumer still gets what was published, to the last property.
    (method, found, body), _second = take(channel, name, 2)
    assert (method.exchange, method.routing_key, body) == (name, "order.new", b"with everything")
    assert {key: getattr(found, key) for key in vars(full)} == vars(full)


def test_amqp_reads_what_kafka_wrote(
    channel: BlockingChannel, producer: confluent_kafka.Producer, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    stamp_ms = 1_700_000_123_456
    producer.produce(
        name,
        b"value",
        b"key",
        headers=[("a", b"1"), ("b", None), ("a", b"2")],
        timestamp=stamp_ms,
    )
    producer.produce(name, None, None)
    producer.produce(name, b"long key", b"k" * 300)
    assert producer.flush(TIMEOUT_S) == 0
    (full, empty, long) = take(channel, name, 3)
    method, properties, body = full
    assert (method.exchange, method.routing_key, body) == ("", "key", b"value")
    assert not method.redelivered
    assert properties.headers["a"] == "2"
    assert (properties.timestamp, properties.delivery_mode) == (stamp_ms // 1000, 2)
    assert (empty[0].routing_key, empty[2]) == ("", b"")
    assert long[0].routing_key == "k" * 255


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_messages_one_by_one(
    amqp_broker: Broker, channel: BlockingChannel, name: str, codec: str
) -> None:
    channel.queue_declare(name, durable=True)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": amqp_broker.process.bootstrap,
            "compression.type": codec,
            "linger.ms": 50,
        }
    )
    bodies = [b"%d " % n * 20 for n in range(100)]
    for body in bodies:
        producer.produce(name, body)
    assert producer.flush(TIMEOUT_S) == 0
    found = take(channel, name, 100)
    assert [body for _method, _properties, body in found] == bodies
    # One of them is acknowledged, the others are still there.
    channel.basic_ack(found[50][0].delivery_tag)
    channel.basic_recover(requeue=True)
    assert channel.queue_declare(name, passive=True).method.message_count == 99


def test_a_transaction_of_kafka_is_in_the_queue_when_it_commits(
    amqp_broker: Broker, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": amqp_broker.process.bootstrap, "transactional.id": name}
    )
    producer.init_transactions(TIMEOUT_S)
    for body, end in ((b"taken back", producer.abort_transaction), (b"kept", None)):
        producer.begin_transaction()
        producer.produce(name, body)
        producer.flush(TIMEOUT_S)
        if end is not None:
            end(TIMEOUT_S)
    assert channel.queue_declare(name, passive=True).method.message_count == 0
    producer.commit_transaction(TIMEOUT_S)
    ((_method, _properties, body),) = take(channel, name, 1)
    assert body == b"kept"


def test_one_publish_many_topics(
    channel: BlockingChannel, kafka: Callable[[str, int], list[Any]], name: str
) -> None:
    channel.exchange_declare(name, "fanout", durable=True)
    for number in range(3):
        channel.queue_declare(f"{name}-{number}", durable=True)
        channel.queue_bind(f"{name}-{number}", name)
    channel.basic_publish(name, "k", b"to all", pika.BasicProperties(delivery_mode=2))
    for number in range(3):
        (record,) = kafka(f"{name}-{number}", 1)
        assert (record.key(), record.value()) == (b"k", b"to all")


def test_priorities_are_partitions(
    channel: BlockingChannel, kafka: Callable[[str, int], list[Any]], name: str
) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-max-priority": 2})
    for priority in (0, 1, 2, 9):
        properties = pika.BasicProperties(delivery_mode=2, priority=priority)
        channel.basic_publish("", name, b"%d" % priority, properties)
    records = kafka(name, 4)
    assert sorted((record.partition(), record.value()) for record in records) == [
        *((0, b"0"), (1, b"1"), (2, b"2"), (2, b"9"))
    ]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaHost]:
    require_java()
    with JavaHost(tmp_path_factory.mktemp("java") / "host.log") as host:
        yield host


def test_a_group_of_java_consumers_over_a_queue(
    amqp_broker: Broker, channel: BlockingChannel, java: JavaHost, name: str
) -> None:
    """Members join, share, read, leave and go on over the topic of a queue with four priorities; what they
    wrote are messages, each of them for the queue's consumers, too."""
    channel.queue_declare(name, durable=True, arguments={"x-max-priority": 3})
    lines = java.run("Consumers.life", amqp_broker.process.bootstrap, name, "consumer", "uniform")
    assert lines[3] == "read: 100, distinct 100, each 50"
    assert lines[-2:] == ["eve goes on with [100, 101, 102, 103]", "committed: [25, 25, 25, 25]"]
    assert len({body for _method, _properties, body in take(channel, name, 104)}) == 104


def test_kafka_tools_show_what_amqp_wrote(
    amqp_broker: Broker, channel: BlockingChannel, java: JavaHost, name: str
) -> None:
    channel.queue_declare(name, durable=True)
    for number in range(3):
        properties = pika.BasicProperties(delivery_mode=2, headers={"n": number})
        channel.basic_publish("", name, b"message %d" % number, properties)
    asked = ("--bootstrap-server", amqp_broker.process.bootstrap)
    shown = java.tool(
        "kafka-console-consumer",
        *(*asked, "--topic", name, "--from-beginning", "--group", f"{name}-tool"),
        *("--max-messages", "3", "--timeout-ms", "60000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
    ).check()
    lines = shown.out.splitlines()
    assert [line.split("\t")[1:] for line in lines] == [[name, f"message {n}"] for n in range(3)]
    assert [line.split(",")[0] for line in lines] == [f"n:{n}" for n in range(3)]
    described = java.tool(
        "kafka-consumer-groups", *asked, "--describe", "--group", f"{name}-tool"
    ).check()
    assert name in described.out
