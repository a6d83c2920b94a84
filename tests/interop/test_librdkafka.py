"""librdkafka (confluent-kafka) against a broker process: administration, writing, reading."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.interop.clients import CODECS
from tests.interop.peers import Peer
from tests.interop.topics import MORNING_MS, create_topic
from tests.support.processes.ports import wait_until

TIMEOUT_S = 60


@pytest.fixture
def admin(broker: Peer) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


# Administration


def test_creates_lists_describes_and_deletes_topics(admin: AdminClient, topic: str) -> None:
    wait(admin.create_topics([NewTopic(topic, num_partitions=3, replication_factor=1)]))

    listed = admin.list_topics(timeout=TIMEOUT_S)
    assert sorted(listed.topics[topic].partitions) == [0, 1, 2]
    (node,) = listed.brokers
    described = wait(admin.describe_topics(TopicCollection([topic])))[topic]
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert {partition.leader.id for partition in described.partitions} == {node}
    assert [[replica.id for replica in p.replicas] for p in described.partitions] == [[node]] * 3
    assert [[replica.id for replica in p.isr] for p in described.partitions] == [[node]] * 3
    assert not described.is_internal

    wait(admin.delete_topics([topic], operation_timeout=TIMEOUT_S))
    # The controller has agreed; a broker hears of it a moment later.
    wait_until(
        lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics,
        timeout_s=TIMEOUT_S,
        what="the topic is gone",
    )


def test_a_deleted_topic_made_again_is_empty_and_has_a_new_id(
    admin: AdminClient, broker: Peer, topic: str
) -> None:
    create_topic(broker, topic)
    write(broker, topic, [b"old"])
    first_id = wait(admin.describe_topics(TopicCollection([topic])))[topic].topic_id

    wait(admin.delete_topics([topic], operation_timeout=TIMEOUT_S))
    create_topic(broker, topic)

    assert wait(admin.describe_topics(TopicCollection([topic])))[topic].topic_id != first_id
    assert watermarks(broker, topic) == (0, 0)
    write(broker, topic, [b"new"])
    assert [message.value() for message in read(broker, topic, 1)] == [b"new"]


def test_refuses_topics_that_cannot_be(admin: AdminClient, broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    refusals = {
        topic: (NewTopic(topic, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        "no/slash": (NewTopic("no/slash", 1, 1), KafkaError.TOPIC_EXCEPTION),
        "x" * 250: (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        f"{topic}-a": (NewTopic(f"{topic}-a", 0, 1), KafkaError.INVALID_PARTITIONS),
        f"{topic}-b": (NewTopic(f"{topic}-b", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        f"{topic}-c": (
            NewTopic(f"{topic}-c", 1, 1, config={"retention.ms": "soon"}),
            KafkaError.INVALID_CONFIG,
        ),
        f"{topic}-d": (
            NewTopic(f"{topic}-d", 1, 1, config={"no.such.setting": "1"}),
            KafkaError.INVALID_CONFIG,
        ),
    }
    answers = admin.create_topics([new for new, _ in refusals.values()])
    found = {name: error_of(answer) for name, answer in answers.items()}
    assert found == {name: code for name, (_, code) in refusals.items()}


def test_a_dry_run_creates_nothing(admin: AdminClient, topic: str) -> None:
    wait(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_adds_partitions_and_refuses_to_take_them_away(
    admin: AdminClient, broker: Peer, topic: str
) -> None:
    create_topic(broker, topic, partitions=2)
    wait(admin.create_partitions([NewPartitions(topic, 4)]))
    assert sorted(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == [
        0,
        1,
        2,
        3,
    ]
    write(broker, topic, [b"into a new one"], partition=3)

    (refused,) = admin.create_partitions([NewPartitions(topic, 1)]).values()
    assert error_of(refused) == KafkaError.INVALID_PARTITIONS


def test_alters_and_describes_topic_settings(admin: AdminClient, broker: Peer, topic: str) -> None:
    create_topic(broker, topic, config={"retention.ms": "3600000"})
    assert settings_of(admin, topic)["retention.ms"] == "3600000"

    alter(admin, topic, "segment.bytes", "2097152", AlterConfigOpType.SET)
    alter(admin, topic, "cleanup.policy", "compact", AlterConfigOpType.APPEND)
    alter(admin, topic, "retention.ms", None, AlterConfigOpType.DELETE)

    settings = settings_of(admin, topic)
    assert settings["segment.bytes"] == "2097152"
    assert set(settings["cleanup.policy"].split(",")) == {"delete", "compact"}
    assert settings["retention.ms"] == "604800000"

    with pytest.raises(KafkaException) as refused:
        alter(admin, topic, "segment.bytes", "plenty", AlterConfigOpType.SET)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert settings_of(admin, topic)["segment.bytes"] == "2097152"


def test_describes_broker_settings_and_the_cluster(admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    (node,) = cluster.nodes
    assert cluster.controller.id == node.id
    assert cluster.cluster_id

    resource = ConfigResource(ConfigResource.Type.BROKER, str(node.id))
    settings = wait(admin.describe_configs([resource]))[resource]
    assert settings["num.partitions"].value == "1"
    assert settings["auto.create.topics.enable"].value == "true"
    assert not settings["message.max.bytes"].is_sensitive


# Writing


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", CODECS)
def test_writes_with_every_codec_and_acks(broker: Peer, topic: str, codec: str, acks: str) -> None:
    create_topic(broker, topic)
    values = [b"%05d " % number + b"grist " * 50 for number in range(500)]
    config: dict[str, Any] = {"compression.codec": codec, "acks": acks, "linger.ms": 5}
    sent = write(broker, topic, values, **config)
    if acks != "0":
        assert [message.offset() for message in sent] == list(range(500))
    found = read(broker, topic, 500)
    assert [(message.offset(), message.value()) for message in found] == list(enumerate(values))


def test_an_idempotent_producer_writes_once_and_in_order(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=3)
    values = [b"%d" % number for number in range(3000)]
    for partition in range(3):
        write(broker, topic, values, partition=partition, **{"enable.idempotence": True})
        assert [m.value() for m in read(broker, topic, 3000, partition=partition)] == values
        assert watermarks(broker, topic, partition=partition) == (0, 3000)


def test_keeps_keys_values_headers_and_timestamps(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    cases: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "timestamp": MORNING_MS},
        {"key": None, "value": b"no key", "timestamp": MORNING_MS + 1},
        {"key": b"tombstone", "value": None, "timestamp": MORNING_MS + 2},
        {"key": b"", "value": b"", "timestamp": MORNING_MS + 3},
        {"key": bytes(range(256)), "value": "Mühle ☸".encode(), "timestamp": MORNING_MS - 1},
        {
            "key": b"headed",
            "value": b"v",
            "timestamp": MORNING_MS + 4,
            "headers": [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("ü", b"\xff")],
        },
    ]
    with producing(broker) as producer:
        for case in cases:
            producer.produce(topic, partition=0, **case)
    for message, case in zip(read(broker, topic, len(cases)), cases, strict=True):
        assert (message.key(), message.value()) == (case["key"], case["value"])
        assert message.headers() == case.get("headers")
        assert message.timestamp() == (TIMESTAMP_CREATE_TIME, case["timestamp"])


def test_stamps_the_time_of_append_when_the_topic_asks(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, config={"message.timestamp.type": "LogAppendTime"})
    with producing(broker) as producer:
        producer.produce(topic, b"v", partition=0, timestamp=MORNING_MS)
    (message,) = read(broker, topic, 1)
    kind, time_ms = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert time_ms > MORNING_MS


def test_takes_a_large_message_and_refuses_one_too_large(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, config={"max.message.bytes": "2000000"})
    generous: dict[str, Any] = {"message.max.bytes": 4_000_000, "compression.codec": "none"}
    large = b"L" * 1_990_000

    write(broker, topic, [large], **generous)
    with pytest.raises(KafkaException) as refused:
        write(broker, topic, [b"X" * 2_000_001], **generous)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    write(broker, topic, [b"after"], **generous)

    assert [m.value() for m in read(broker, topic, 2)] == [large, b"after"]


def test_the_default_limit_is_just_over_a_mebibyte(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    generous: dict[str, Any] = {"message.max.bytes": 4_000_000, "compression.codec": "none"}
    write(broker, topic, [b"L" * (1024 * 1024 - 100)], **generous)
    with pytest.raises(KafkaException) as refused:
        write(broker, topic, [b"X" * (1024 * 1024)], **generous)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert watermarks(broker, topic) == (0, 1)


def test_a_topic_nobody_made_is_made_by_writing_to_it(broker: Peer, topic: str) -> None:
    with producing(broker) as producer:
        producer.produce(topic, b"first")
    assert [message.value() for message in read(broker, topic, 1)] == [b"first"]


def test_compacted_topics_refuse_messages_without_a_key(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, config={"cleanup.policy": "compact"})
    with pytest.raises(KafkaException) as refused:
        write(broker, topic, [b"no key"])
    assert refused.value.args[0].code() == KafkaError.INVALID_RECORD


# Reading


def test_reads_from_the_beginning_an_offset_a_time_and_the_end(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    with producing(broker) as producer:
        for number in range(100):
            time_ms = MORNING_MS + number * 1000
            producer.produce(topic, b"%d" % number, partition=0, timestamp=time_ms)
    assert watermarks(broker, topic) == (0, 100)

    assert read(broker, topic, 1, offset=OFFSET_BEGINNING)[0].offset() == 0
    assert [m.offset() for m in read(broker, topic, 3, offset=97)] == [97, 98, 99]

    with consuming(broker) as consumer:
        asked = [TopicPartition(topic, 0, MORNING_MS + 41_500)]
        (found,) = consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
        assert found.offset == 42
        asked = [TopicPartition(topic, 0, MORNING_MS + 10**9)]
        (found,) = consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
        assert found.offset == OFFSET_END

        consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
        assert consumer.poll(0.3) is None
        write(broker, topic, [b"later"])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert (message.offset(), message.value()) == (100, b"later")


def test_lists_offsets_by_every_kind_of_question(
    admin: AdminClient, broker: Peer, topic: str
) -> None:
    create_topic(broker, topic)
    with producing(broker) as producer:
        for number, time_ms in enumerate((10, 30, 20)):
            producer.produce(topic, b"%d" % number, partition=0, timestamp=MORNING_MS + time_ms)

    def offset(spec: OffsetSpec) -> int:
        (answer,) = wait(admin.list_offsets({TopicPartition(topic, 0): spec})).values()
        return int(answer.offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(MORNING_MS + 15)) == 1
    assert offset(OffsetSpec.for_timestamp(MORNING_MS + 31)) == -1


def test_an_offset_outside_the_log_is_an_error_when_no_reset_is_allowed(
    broker: Peer, topic: str
) -> None:
    create_topic(broker, topic)
    write(broker, topic, [b"only"])
    with consuming(broker, **{"auto.offset.reset": "error"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 17)])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET


def test_an_offset_outside_the_log_falls_back_to_earliest(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    write(broker, topic, [b"only"])
    assert read(broker, topic, 1, offset=17)[0].offset() == 0


def test_deletes_records_before_an_offset(admin: AdminClient, broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    write(broker, topic, [b"%d" % number for number in range(10)])

    (answer,) = wait(admin.delete_records([TopicPartition(topic, 0, 4)])).values()

    assert answer.low_watermark == 4
    assert watermarks(broker, topic) == (4, 10)
    assert [m.offset() for m in read(broker, topic, 6, offset=OFFSET_BEGINNING)] == [
        4,
        5,
        6,
        7,
        8,
        9,
    ]
    (refused,) = admin.delete_records([TopicPartition(topic, 0, 11)]).values()
    assert error_of(refused) == KafkaError.OFFSET_OUT_OF_RANGE


def test_reads_many_partitions_each_in_order(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=12)
    # Idempotent, for a retry of a plain producer may overtake what was sent after it.
    with producing(broker, **{"enable.idempotence": True}) as producer:
        for number in range(6000):
            producer.produce(topic, b"%d" % number, key=b"%d" % (number % 100))
    found: dict[int, list[int]] = {partition: [] for partition in range(12)}
    with consuming(broker) as consumer:
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(12)])
        for _ in range(6000):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert message.error() is None, message.error()
            found[message.partition()].append(int(message.value()))
    for numbers in found.values():
        assert numbers == sorted(numbers)
        assert len({number % 100 for number in numbers}) * 60 == len(numbers), "keys stay together"
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(6000))


# Small words that the stories above use


@contextmanager
def producing(broker: Peer, **config: Any) -> Iterator[Producer]:
    """A producer; at the end everything must have been delivered."""
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "on_delivery": on_delivery,
            "linger.ms": 1,
            **config,
        }
    )
    yield producer
    assert producer.flush(TIMEOUT_S) == 0, "not everything was delivered"
    if failures:
        raise KafkaException(failures[0])


@contextmanager
def consuming(broker: Peer, **config: Any) -> Iterator[Consumer]:
    """A consumer that is given its partitions by hand."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "by-hand",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **config,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def write(
    broker: Peer, topic: str, values: list[bytes], *, partition: int = 0, **config: Any
) -> list[Message]:
    """Write values to one partition and answer the delivered messages in the order of delivery."""
    delivered: list[Message] = []
    refused: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            delivered.append(message)
        else:
            refused.append(error)

    with producing(broker, **config) as producer:
        for value in values:
            producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
    if refused:
        raise KafkaException(refused[0])
    return delivered


def read(
    broker: Peer, topic: str, count: int, *, partition: int = 0, offset: int = OFFSET_BEGINNING
) -> list[Message]:
    """Read so many messages of one partition."""
    found: list[Message] = []
    with consuming(broker) as consumer:
        consumer.assign([TopicPartition(topic, partition, offset)])
        while len(found) < count:
            batch = consumer.consume(count - len(found), timeout=TIMEOUT_S)
            assert batch, f"no more messages after {len(found)} of {count}"
            for message in batch:
                assert message.error() is None, message.error()
            found += batch
    return found


def watermarks(broker: Peer, topic: str, *, partition: int = 0) -> tuple[int, int]:
    """The first offset and the next one."""
    with consuming(broker) as consumer:
        low, high = consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=TIMEOUT_S
        )
        return low, high


def wait(answers: dict[Any, Future[Any]]) -> dict[Any, Any]:
    """The results of admin calls."""
    return {key: answer.result(TIMEOUT_S) for key, answer in answers.items()}


def error_of(answer: Future[Any]) -> int:
    """The error code that an admin call ended with."""
    error = answer.exception(TIMEOUT_S)
    assert isinstance(error, KafkaException), f"expected a refusal, got {error!r}"
    return int(error.args[0].code())


def settings_of(admin: AdminClient, topic: str) -> dict[str, str]:
    """All settings of a topic."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    described = wait(admin.describe_configs([resource]))[resource]
    return {name: entry.value for name, entry in described.items()}


def alter(
    admin: AdminClient, topic: str, name: str, value: str | None, kind: AlterConfigOpType
) -> None:
    """Change one setting of a topic."""
    entry = ConfigEntry(name, value, incremental_operation=kind)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    wait(admin.incremental_alter_configs([resource]))
