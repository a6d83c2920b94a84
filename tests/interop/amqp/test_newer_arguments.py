"""Arguments that RabbitMQ took up after 3.10, asked for by pika: no such server is here to compare with."""

import time
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.interop.amqp.brokers import Broker

PATIENCE_S = 60


def test_delayed_retries_a_consumer_that_is_too_slow_and_a_filtered_stream(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    with broker.process, broker.connect() as connection:
        a_returned_message_waits(connection)
        a_silent_consumer_loses_its_channel(connection)
        a_stream_is_filtered(connection)


def a_returned_message_waits(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    arguments = {
        "x-queue-type": "quorum",
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 1_000,
        "x-delayed-retry-max": 5_000,
    }
    channel.queue_declare("retries", durable=True, arguments=arguments)
    channel.basic_publish("", "retries", b"work")
    deliveries = channel.consume("retries", inactivity_timeout=PATIENCE_S)
    first, _, _ = next(deliveries)
    assert first is not None
    returned = time.perf_counter()
    channel.basic_nack(first.delivery_tag, requeue=True)
    again, _, body = next(deliveries)
    assert again is not None
    assert (body, again.redelivered) == (b"work", True)
    assert time.perf_counter() - returned > 0.9  # it was not handed out at once
    channel.basic_ack(again.delivery_tag)
    channel.close()


def a_silent_consumer_loses_its_channel(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    arguments = {"x-queue-type": "quorum", "x-consumer-timeout": 1_000}
    channel.queue_declare("patience", durable=True, arguments=arguments)
    channel.basic_publish("", "patience", b"work")
    deliveries = channel.consume("patience", inactivity_timeout=PATIENCE_S)
    assert next(deliveries)[2] == b"work"
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="PRECONDITION_FAILED"):
        next(deliveries)
    channel = connection.channel()
    again, _, body = next(channel.consume("patience", inactivity_timeout=PATIENCE_S))
    assert again is not None
    assert (body, again.redelivered) == (b"work", True)
    channel.close()


def a_stream_is_filtered(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("flights", durable=True, arguments={"x-queue-type": "stream"})
    for number, region in enumerate(("asia", "europe", "asia", "africa", "europe")):
        properties = pika.BasicProperties(headers={"x-stream-filter-value": region})
        channel.basic_publish("", "flights", str(number).encode(), properties)
    channel.basic_qos(prefetch_count=10)
    wanted = {"x-stream-offset": "first", "x-stream-filter": ["asia", "africa"]}
    found = []
    for method, _, body in channel.consume(
        "flights", arguments=wanted, inactivity_timeout=PATIENCE_S
    ):
        assert method is not None
        found.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(found) == 3:
            break
    assert found == [b"0", b"2", b"3"]
    channel.close()
