"""The producer of plain code: threads, results, back-pressure, the end."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import millpond
from millpond.client import (
    BlockingConsumer,
    BlockingProducer,
    BrokerRefused,
    ClientError,
    NotSerializable,
    TopicPartition,
    TransactionBroken,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[millpond.Broker]:
    with millpond.Broker(auto_create_topics_enable=False) as running:
        yield running


def values(broker: millpond.Broker, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with BlockingConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        while len(found) < count:
            for records in consumer.poll(1000).values():
                found += [record.value for record in records]
    return found


def test_records_keep_the_order_of_their_thread(broker: millpond.Broker) -> None:
    broker.create_topic("threads")
    with BlockingProducer(broker.bootstrap, batch_size=500) as producer:

        def write(name: str) -> None:
            for number in range(200):
                producer.send("threads", f"{name} {number:03}")

        threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = values(broker, "threads", 600)
    for name in (b"a", b"b", b"c"):
        mine = [value for value in found if value.startswith(name)]
        assert mine == sorted(mine)
        assert len(mine) == 200


def test_results_and_callbacks_tell_where_it_went(broker: millpond.Broker) -> None:
    broker.create_topic("results")
    heard: list[int] = []
    with BlockingProducer(broker.bootstrap) as producer:
        first = producer.send("results", b"1")
        second = producer.send(
            "results",
            b"2",
            on_delivery=lambda meta, error: heard.append(meta.offset if meta else -1),
        )
        assert (first.result(10).offset, second.result(10).offset) == (0, 1)
        assert first.done()
    assert heard == [1]


def test_what_cannot_be_sent_is_raised_where_it_belongs(broker: millpond.Broker) -> None:
    producer = BlockingProducer(broker.bootstrap)
    with pytest.raises(NotSerializable, match="value_serializer"):
        producer.send("results", 5)
    delivery = producer.send("nowhere", b"v")
    with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC"):
        delivery.result(10)
    producer.flush()  # that was heard of
    producer.send("nowhere", b"v")
    with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC"):
        producer.flush()
    producer.close()
    with pytest.raises(ClientError, match="closed"):
        producer.send("results", b"v")


def test_a_transaction(broker: millpond.Broker) -> None:
    broker.create_topic("txn")
    with BlockingProducer(broker.bootstrap, transactional_id="plain") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("txn", b"kept")
        producer.begin_transaction()
        producer.send("txn", b"dropped")
        producer.abort_transaction()
        with producer.transaction():
            producer.send("txn", b"kept too")
    with BlockingConsumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition("txn", 0)])
        consumer.seek_to_beginning()
        found: list[bytes] = []
        while len(found) < 2:
            for records in consumer.poll(1000).values():
                found += [record.value for record in records]
    assert found == [b"kept", b"kept too"]


def test_buffers_are_bounded_and_waited_for(broker: millpond.Broker) -> None:
    broker.create_topic("bounded")
    with BlockingProducer(broker.bootstrap, buffer_memory=20_000, batch_size=2_000) as producer:
        for number in range(500):
            producer.send("bounded", b"%0500d" % number)
    assert len(values(broker, "bounded", 500)) == 500


def test_what_the_broker_refuses_is_raised_on_leaving(broker: millpond.Broker) -> None:
    broker.create_topic("refused")
    with (
        pytest.raises(BrokerRefused, match="MESSAGE_TOO_LARGE"),
        BlockingProducer(broker.bootstrap, max_request_size=5_000_000) as producer,
    ):
        producer.send("refused", b"x" * 2_000_000)


def test_a_callback_is_enough_to_have_heard(broker: millpond.Broker) -> None:
    broker.create_topic("told")
    told: list[BaseException | None] = []
    with BlockingProducer(broker.bootstrap, max_request_size=5_000_000) as producer:
        large = b"x" * 2_000_000
        producer.send("told", large, on_delivery=lambda _metadata, error: told.append(error))
    assert [type(error) for error in told] == [BrokerRefused]


def test_a_transaction_is_not_committed_without_a_record_that_found_no_place(
    broker: millpond.Broker,
) -> None:
    """The caller of send has gone on by then; the commit is where it is told, and all is taken back."""
    broker.create_topic("whole")
    settings: dict[str, Any] = {"transactional_id": "whole", "partitioner_class": Stumbling()}
    with BlockingProducer(broker.bootstrap, **settings) as producer:
        producer.init_transactions()
        with pytest.raises(TransactionBroken, match="stumbles"), producer.transaction():
            send_both(producer)
        with producer.transaction():
            producer.send("whole", b"next")
    with BlockingConsumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition("whole", 0)])
        consumer.seek_to_beginning()
        assert next(iter(consumer)).value == b"next"


def send_both(producer: BlockingProducer) -> None:
    producer.send("whole", b"good")
    producer.send("whole", b"bad")


class Stumbling:
    """A partitioner that fails."""

    def configure(self, config: Any) -> None:
        """Nothing to set."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        if value == b"bad":
            raise ValueError("stumbles")
        return 0

    def close(self) -> None:
        """Nothing to close."""
