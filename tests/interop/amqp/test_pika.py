"""pika, unchanged, against a broker process: publish, confirm, consume, acknowledge, and what survives."""

import socket
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.interop.amqp.brokers import AmqpPeer, Broker
from tests.support.processes import rabbitmq_server

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(params=["millpond", "rabbitmq"])
def broker(
    request: pytest.FixtureRequest, amqp_broker: Broker, rabbitmq: AmqpPeer | None
) -> AmqpPeer:
    """Millpond, and RabbitMQ: the same test for both."""
    peer = amqp_broker.peer if request.param == "millpond" else rabbitmq
    if peer is None:
        pytest.skip(str(rabbitmq_server.missing_reason()))
    return peer


def take(channel: BlockingChannel, queue: str, count: int) -> list[tuple[bytes, bool, int]]:
    """Body, whether redelivered, and tag of so many messages; they are not acknowledged."""
    found: list[tuple[bytes, bool, int]] = []
    for method, _properties, body in channel.consume(queue, inactivity_timeout=60):
        assert method is not None, f"only {len(found)} of {count} came"
        found.append((body, method.redelivered, method.delivery_tag))
        if len(found) == count:
            return found
    raise AssertionError("the consumer was cancelled")


def test_work_is_confirmed_shared_and_acknowledged(broker: AmqpPeer) -> None:
    with broker.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("work", durable=True)
        for number in range(100):
            channel.basic_publish("", "work", b"%d" % number, PERSISTENT, mandatory=True)
        taken = take(channel, "work", 100)
        assert [body for body, _again, _tag in taken] == [b"%d" % n for n in range(100)]
        channel.basic_ack(taken[-1][2], multiple=True)
        channel.cancel()
        assert channel.queue_declare("work", passive=True).method.message_count == 0


def test_what_a_dropped_connection_held_comes_again(broker: AmqpPeer) -> None:
    first = broker.connect()
    channel = first.channel()
    channel.queue_declare("again", durable=True)
    channel.confirm_delivery()
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", "again", body, PERSISTENT)
    taken = take(channel, "again", 3)
    channel.basic_ack(taken[0][2])
    channel.queue_declare("again", passive=True)  # the ack has arrived
    cable = first._impl._transport._sock
    cable.shutdown(socket.SHUT_RDWR)
    with pytest.raises(pika.exceptions.AMQPError):
        channel.queue_declare("again", passive=True)
    cable.close()
    with broker.connect() as second:
        found = take(second.channel(), "again", 2)
        assert [(body, again) for body, again, _tag in found] == [(b"b", True), (b"c", True)]


def test_rejected_messages_become_letters(broker: AmqpPeer) -> None:
    with broker.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("dead", "fanout", durable=True)
        channel.queue_declare("graves", durable=True)
        channel.queue_bind("graves", "dead")
        arguments = {"x-dead-letter-exchange": "dead"}
        channel.queue_declare("trials", durable=True, arguments=arguments)
        channel.confirm_delivery()
        channel.basic_publish("", "trials", b"guilty", PERSISTENT)
        ((_body, _again, tag),) = take(channel, "trials", 1)
        channel.basic_reject(tag, requeue=False)
        channel.cancel()
        method, properties, body = next(channel.consume("graves", inactivity_timeout=60))
        assert method is not None
        assert body == b"guilty"
        assert properties.headers["x-death"][0]["queue"] == "trials"
        assert properties.headers["x-death"][0]["reason"] == "rejected"


def test_nobody_wants_it_and_it_comes_back(broker: AmqpPeer) -> None:
    with broker.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nowhere", b"lost", mandatory=True)


def test_large_messages_pass(broker: AmqpPeer) -> None:
    body = bytes(range(256)) * 12_000
    with broker.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("large", durable=True)
        channel.basic_publish("", "large", body, PERSISTENT)
        ((found, _again, _tag),) = take(channel, "large", 1)
        assert found == body


def test_a_stop_keeps_what_lasts(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    with broker.process:
        with broker.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.exchange_declare("news", "topic", durable=True)
            channel.queue_declare("kept", durable=True)
            channel.queue_declare("passing")
            channel.queue_bind("kept", "news", "a.#")
            for body in (b"1", b"2", b"3"):
                channel.basic_publish("news", "a.b", body, PERSISTENT)
            taken = take(channel, "kept", 3)
            channel.basic_ack(taken[0][2])
        assert broker.process.stop() == 0
        broker.process.start()
        with broker.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("news", "a.c", b"4", PERSISTENT)
            found = take(channel, "kept", 3)
            assert [body for body, _again, _tag in found] == [b"2", b"3", b"4"]
            assert [again for _body, again, _tag in found] == [True, True, False]
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
                channel.queue_declare("passing", passive=True)


def test_kill_keeps_every_confirmed_message(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    confirmed: list[bytes] = []
    acknowledged: set[bytes] = set()
    seen: set[bytes] = set()
    with broker.process:
        for life in range(3):
            with broker.connect() as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare("crash", durable=True)
                for number in range(60):
                    body = b"%d.%d" % (life, number)
                    channel.basic_publish("", "crash", body, PERSISTENT)
                    confirmed.append(body)
                for body, again, tag in take(channel, "crash", 40):
                    assert body not in acknowledged
                    assert again or body not in seen
                    seen.add(body)
                    channel.basic_ack(tag)
                    acknowledged.add(body)
                channel.queue_declare("crash", passive=True)  # the acks have arrived
                broker.process.kill()
                with pytest.raises(pika.exceptions.AMQPError):
                    channel.queue_declare("crash", passive=True)
            broker.process.start()
        with broker.connect() as connection:
            rest = take(connection.channel(), "crash", len(confirmed) - len(acknowledged))
            assert sorted(body for body, _again, _tag in rest) == sorted(
                set(confirmed) - acknowledged
            )
