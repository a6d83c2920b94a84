"""kombu, which Celery stands on: its own AMQP library (py-amqp), simple queues, pools, retries, mailboxes."""

import socket
import time
from typing import Any

import amqp.exceptions
import kombu
import kombu.pools
from kombu.mixins import ConsumerMixin
from kombu.simple import SimpleQueue

import amqp
from tests.interop.amqp.brokers import AmqpPeer
from tests.interop.amqp.conftest import Alike

TIMEOUT_S = 60


def connected(peer: AmqpPeer) -> kombu.Connection:
    return kombu.Connection(
        peer.url, transport_options={"confirm_publish": True}, connect_timeout=TIMEOUT_S
    )


def kombu_topics_and_settling(peer: AmqpPeer) -> list[str]:
    """Topic routing, serializers, compression; ack, requeue and reject, as kombu's consumer offers them."""
    lines: list[str] = []
    news = kombu.Exchange("kombu.news", "topic", durable=True)
    sport = kombu.Queue("kombu.sport", news, "*.sport", queue_arguments={"x-max-priority": 5})
    everything = kombu.Queue("kombu.all", news, "#")
    with connected(peer) as connection:
        producer = connection.Producer()
        for declared in (sport, everything):
            declared(connection.default_channel).declare()
        published: tuple[tuple[str, dict[str, Any]], ...] = (
            ("uk.sport", {"serializer": "json"}),
            ("uk.money", {"serializer": "json", "compression": "zlib"}),
            ("fr.sport", {"serializer": "pickle", "priority": 3}),
            ("sport", {"serializer": "json", "headers": {"deep": {"list": [1, "two", None]}}}),
        )
        for number, (key, how) in enumerate(published):
            producer.publish(
                {"number": number}, key, exchange=news, retry=True, delivery_mode=2, **how
            )
        seen: list[str] = []

        def on_message(body: Any, message: kombu.Message) -> None:
            info = message.delivery_info
            seen.append(
                f"{info['routing_key']} {body} {message.content_type} redelivered="
                f"{info['redelivered']} priority={message.properties.get('priority')} "
                f"{message.headers}"
            )
            if body == {"number": 1} and not info["redelivered"]:
                message.requeue()
            elif body == {"number": 3}:
                message.reject()
            else:
                message.ack()

        for queue, count in ((sport, 2), (everything, 5)):
            seen.clear()
            with connection.Consumer(
                queue, callbacks=[on_message], prefetch_count=1, accept=["json", "pickle"]
            ):
                while len(seen) < count:
                    connection.drain_events(timeout=TIMEOUT_S)
            lines += [f"{queue.name}: {line}" for line in seen]
            left = queue(connection.default_channel).queue_declare(passive=True)
            lines.append(f"{queue.name}: {left.message_count} left")
    return lines


def test_topics_and_settling(alike: Alike) -> None:
    lines = alike(kombu_topics_and_settling)
    assert [line.split()[1] for line in lines] == [
        *("fr.sport", "uk.sport", "0"),
        *("uk.sport", "uk.money", "uk.money", "fr.sport", "sport", "0"),
    ]


def kombu_deleting_what_is_consumed(peer: AmqpPeer) -> list[str]:
    """Deleting the queue of one's own consumer is answered; that the consumer is gone is heard later."""
    lines = []
    with connected(peer) as connection, connection.channel() as channel:
        queue = kombu.Queue("kombu.consumed", channel=channel)
        queue.declare()
        channel.basic_consume(queue.name, callback=print)
        lines.append(f"deleted, it had {queue.delete()} messages")
        try:
            connection.drain_events(timeout=TIMEOUT_S)
        except amqp.exceptions.ConsumerCancelled:
            lines.append("then the consumer is gone")
    return lines


def test_deleting_what_is_consumed(alike: Alike) -> None:
    assert alike(kombu_deleting_what_is_consumed) == [
        "deleted, it had 0 messages",
        "then the consumer is gone",
    ]


def kombu_simple_queues(peer: AmqpPeer) -> list[str]:
    lines: list[str] = []
    with connected(peer) as connection:
        with connection.SimpleQueue("kombu.simple") as queue:
            assert isinstance(queue, SimpleQueue)
            for number in range(3):
                queue.put({"n": number})
            lines.append(f"size {queue.qsize()}")
            first = queue.get(timeout=TIMEOUT_S)
            first.requeue()
            # It was fetched before: what else was fetched comes first.
            bodies = []
            for _ in range(3):
                message = queue.get(timeout=TIMEOUT_S)
                bodies.append(message.payload["n"])
                message.ack()
            lines.append(f"bodies {sorted(bodies)}, cleared {queue.clear()}")
            try:
                queue.get(timeout=0.2)
            except queue.Empty:
                lines.append("empty")
        with connection.SimpleBuffer("kombu.buffer") as buffer:
            buffer.put("gone soon")
            lines.append(f"buffer {buffer.get(timeout=TIMEOUT_S).payload}")
    return lines


def test_simple_queues(alike: Alike) -> None:
    assert alike(kombu_simple_queues) == [
        "size 3",
        "bodies [0, 1, 2], cleared 0",
        "empty",
        "buffer gone soon",
    ]


def kombu_errors(peer: AmqpPeer) -> list[str]:
    lines: list[str] = []
    with connected(peer) as connection:
        acts = (
            lambda channel: kombu.Queue("kombu.none")(channel).queue_declare(passive=True),
            lambda channel: channel.exchange_declare("amq.topic", "direct", durable=True),
            lambda channel: kombu.Queue("amq.mine")(channel).declare(),
            lambda channel: channel.basic_publish(amqp.Message("x"), "kombu.no-exchange", "k"),
            lambda channel: channel.basic_qos(1, 1, a_global=False),
        )
        for act in acts:
            channel = connection.channel()
            try:
                act(channel)
            except amqp.exceptions.AMQPError as error:
                lines.append(f"{type(error).__name__} {error}")
            if not connection.connected:
                connection.ensure_connection(max_retries=3)
    for wrong in ("amqp://guest:wrong@", "amqp://nobody:guest@"):
        address = f"{wrong}127.0.0.1:{peer.port}//"
        try:
            kombu.Connection(address, connect_timeout=TIMEOUT_S).connect()
        except amqp.exceptions.AMQPError as error:
            lines.append(f"{type(error).__name__} {error}")
    try:
        kombu.Connection(f"{peer.url}no-such-vhost", connect_timeout=TIMEOUT_S).connect()
    except amqp.exceptions.AMQPError as error:
        lines.append(f"{type(error).__name__} {error}")
    return lines


def test_errors(alike: Alike) -> None:
    lines = alike(kombu_errors)
    assert [line.split()[0] for line in lines[:3]] == [
        *("NotFound", "PreconditionFailed", "AccessRefused")
    ]


class Mixed(ConsumerMixin):  # type: ignore[misc]
    """A consumer that gets over a connection that breaks."""

    def __init__(self, connection: kombu.Connection, queue: kombu.Queue) -> None:
        self.connection = connection
        self.queue = queue
        self.seen: list[str] = []
        self.deadline = time.perf_counter() + TIMEOUT_S

    def get_consumers(self, Consumer: Any, channel: Any) -> list[Any]:  # noqa: N803 - kombu's name
        return [Consumer(self.queue, callbacks=[self.on_message], prefetch_count=1)]

    def on_message(self, body: str, message: kombu.Message) -> None:
        again = message.delivery_info["redelivered"]
        self.seen.append(f"{body}{'*' * again}")
        if body == "breaks it" and not again:
            self.connection.transport_options["max_retries"] = 5
            cable = self.connection.connection.transport.sock
            cable.shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError("the cable was pulled")
        message.ack()
        self.should_stop = body == "last"

    def on_iteration(self) -> None:
        assert time.perf_counter() < self.deadline, f"only {self.seen}"


def kombu_mends_itself(peer: AmqpPeer) -> list[str]:
    queue = kombu.Queue("kombu.mixed", durable=True)
    with connected(peer) as connection:
        with connection.Producer() as producer:
            for body in ("first", "breaks it", "last"):
                producer.publish(body, "kombu.mixed", declare=[queue], delivery_mode=2)
        with connection.clone() as other:
            mixed = Mixed(other, queue)
            mixed.run()
    return mixed.seen


def test_a_consumer_that_mends_itself(alike: Alike) -> None:
    assert alike(kombu_mends_itself) == ["first", "breaks it", "breaks it*", "last"]
