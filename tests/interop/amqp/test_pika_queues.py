"""What queues can be asked for, by pika: ages, lengths, priorities, one consumer at a time, short lives."""

import time
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from tests.interop.amqp.brokers import AmqpPeer, Broker
from tests.interop.amqp.conftest import Alike

PERSISTENT = pika.BasicProperties(delivery_mode=2)
TIMEOUT_S = 60


def shown(method: Any, body: bytes) -> str:
    return f"{body.decode()}{'*' * method.redelivered}"


def emptied(channel: BlockingChannel, queue: str) -> list[str]:
    """Everything that is in a queue, one by one."""
    found: list[str] = []
    while True:
        method, _properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(shown(method, body))


def said_in_time(connection: pika.BlockingConnection, heard: list[str], count: int) -> list[str]:
    """What came to consumers, as soon as it is so much; taken out."""
    deadline = time.perf_counter() + TIMEOUT_S
    while len(heard) < count:
        assert time.perf_counter() < deadline, f"only {heard}"
        connection.process_data_events(0.1)
    found = heard[:count]
    del heard[:count]
    return found


def listener(heard: list[str], name: str, *, ack: bool = True) -> Any:
    def on_message(channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        heard.append(f"{name}:{shown(method, body)}")
        if ack:
            channel.basic_ack(method.delivery_tag)

    return on_message


def refusal(peer: AmqpPeer, act: Any) -> str:
    with peer.connect() as connection:
        try:
            act(connection.channel())
        except pika.exceptions.ChannelClosedByBroker as error:
            return f"{error.reply_code} {error.reply_text}"
    return "nothing was refused"


def pika_no_time_at_all(peer: AmqpPeer) -> list[str]:
    """Who may not wait is delivered to somebody who waits for it, or to nobody."""
    lines = []
    with peer.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("hurry.each", exclusive=True)
        channel.queue_declare("hurry.all", exclusive=True, arguments={"x-message-ttl": 0})
        at_once = pika.BasicProperties(expiration="0")
        for queue, properties in (("hurry.each", at_once), ("hurry.all", None)):
            channel.basic_publish("", queue, b"to nobody", properties)
            lines.append(f"{queue} {emptied(channel, queue)}")
            heard: list[str] = []
            tag = channel.basic_consume(queue, listener(heard, queue))
            channel.basic_publish("", queue, b"to somebody", properties)
            lines += said_in_time(connection, heard, 1)
            channel.basic_cancel(tag)
    return lines


def test_no_time_at_all(alike: Alike) -> None:
    assert alike(pika_no_time_at_all) == [
        *("hurry.each []", "hurry.each:to somebody", "hurry.all []", "hurry.all:to somebody")
    ]


def pika_lengths(peer: AmqpPeer) -> list[str]:
    lines = []
    with peer.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("len.dead", exclusive=True)
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "len.dead"}
        for queue, arguments in (
            ("len.head", {"x-max-length": 2, **letters}),
            ("len.bytes", {"x-max-length-bytes": 7, **letters}),
            ("len.reject", {"x-max-length": 2, "x-overflow": "reject-publish", **letters}),
            ("len.dlx", {"x-max-length": 2, "x-overflow": "reject-publish-dlx", **letters}),
            ("len.none", {"x-max-length": 0}),
        ):
            channel.queue_declare(queue, exclusive=True, arguments=arguments)
            refused = []
            for body in (b"aaa", b"bbb", b"ccc", b"d"):
                try:
                    channel.basic_publish("", queue, body)
                except pika.exceptions.NackError:
                    refused.append(body)
            lines.append(f"{queue} kept {emptied(channel, queue)} refused {refused}")
            lines.append(f"{queue} letters {emptied(channel, 'len.dead')}")
    return lines


def test_lengths(alike: Alike) -> None:
    assert alike(pika_lengths)[:2] == [
        "len.head kept ['ccc', 'd'] refused []",
        "len.head letters ['aaa', 'bbb']",
    ]


def pika_priorities(peer: AmqpPeer) -> list[str]:
    lines = []
    with peer.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("prio", exclusive=True, arguments={"x-max-priority": 3})
        for number, priority in enumerate((0, 3, 1, None, 9, 2, 3, 1)):
            body = b"%d of %s" % (number, str(priority).encode())
            channel.basic_publish("", "prio", body, pika.BasicProperties(priority=priority))
        lines.append(str(emptied(channel, "prio")))
        # Consumers have priorities, too: the other one gets what the first has no room for.
        channel.queue_declare("prio.readers", exclusive=True)
        heard: list[str] = []
        channel.basic_qos(prefetch_count=2)
        for name, arguments in (("low", {}), ("high", {"x-priority": 5})):
            deaf = listener(heard, name, ack=False)
            channel.basic_consume("prio.readers", deaf, arguments=arguments)
        for number in range(4):
            channel.basic_publish("", "prio.readers", b"%d" % number)
        lines += said_in_time(connection, heard, 4)
    return lines


def test_priorities(alike: Alike) -> None:
    assert alike(pika_priorities) == [
        "['1 of 3', '4 of 9', '6 of 3', '5 of 2', '2 of 1', '7 of 1', '0 of 0', '3 of None']",
        *("high:0", "high:1", "low:2", "low:3"),
    ]


def pika_one_at_a_time(peer: AmqpPeer) -> list[str]:
    """A single active consumer, and one that tolerates no other."""
    lines = []
    with peer.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("sac", exclusive=True, arguments={"x-single-active-consumer": True})
        heard: list[str] = []
        first = channel.basic_consume("sac", listener(heard, "first"))
        channel.basic_consume("sac", listener(heard, "second"))
        for number in range(3):
            channel.basic_publish("", "sac", b"%d" % number)
        lines += said_in_time(connection, heard, 3)
        channel.basic_cancel(first)
        channel.basic_publish("", "sac", b"3")
        lines += said_in_time(connection, heard, 1)
        channel.queue_declare("alone")
        channel.basic_consume("alone", listener(heard, "owner"), exclusive=True)
        lines.append(refusal(peer, lambda one: one.basic_consume("alone", listener(heard, "x"))))
        lines.append(refusal(peer, lambda one: one.queue_delete("alone", if_unused=True)))
        channel.queue_delete("alone")
        channel.queue_declare("mine", exclusive=True)
        lines.append(refusal(peer, lambda one: one.queue_declare("mine", passive=True)))
        lines.append(refusal(peer, lambda one: one.basic_get("mine")))
    return lines


def test_one_at_a_time(alike: Alike) -> None:
    lines = alike(pika_one_at_a_time)
    assert lines[:4] == ["first:0", "first:1", "first:2", "second:3"]
    assert [line.split()[0] for line in lines[4:]] == ["403", "406", "405", "405"]


def pika_quorum(peer: AmqpPeer) -> list[str]:
    """A quorum queue counts deliveries and gives up at its limit."""
    lines = []
    with peer.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("quorum.dead", exclusive=True)
        arguments = {
            "x-queue-type": "quorum",
            "x-delivery-limit": 2,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "quorum.dead",
        }
        channel.queue_declare("quorum", durable=True, arguments=arguments)
        heard: list[str] = []

        def refuse(_channel: Any, method: Any, properties: Any, body: bytes) -> None:
            lines.append(f"{shown(method, body)} {properties.headers}")
            channel.basic_nack(method.delivery_tag, requeue=True)

        def bury(_channel: Any, _method: Any, properties: Any, body: bytes) -> None:
            death = properties.headers["x-death"][0]
            heard.append(f"{body!r} {death['reason']} in {death['queue']}, {death['count']}")

        channel.basic_consume("quorum.dead", bury, auto_ack=True)
        channel.basic_consume("quorum", refuse)
        channel.basic_publish("", "quorum", b"poison", PERSISTENT)
        lines += said_in_time(connection, heard, 1)
        channel.queue_delete("quorum")
    return lines


def test_quorum(alike: Alike) -> None:
    lines = alike(pika_quorum)
    assert len(lines) == 4
    assert lines[-1] == "b'poison' delivery_limit in quorum, 1"


def pika_short_lives(peer: AmqpPeer) -> list[str]:
    """Queues and exchanges that go by themselves."""
    lines: list[str] = []

    def is_there(queue: str) -> bool:
        return "404" not in refusal(peer, lambda one: one.queue_declare(queue, passive=True))

    def gone(queue: str, pause_s: float = 0.02) -> str:
        deadline = time.perf_counter() + TIMEOUT_S
        while is_there(queue):
            assert time.perf_counter() < deadline
            time.sleep(pause_s)
        return f"{queue} is gone"

    with peer.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("short.x", "direct", auto_delete=True)
        channel.queue_declare("short.reader", auto_delete=True)
        channel.queue_bind("short.reader", "short.x", "k")
        tag = channel.basic_consume("short.reader", listener([], "x"))
        lines.append(f"short.reader there: {is_there('short.reader')}")
        channel.basic_cancel(tag)
        lines.append(gone("short.reader"))
        lines.append(refusal(peer, lambda one: one.exchange_declare("short.x", passive=True)))
        channel.queue_declare("short.unused", arguments={"x-expires": 150})
        # To look for it is to use it: look more seldom than it expires.
        lines.append(gone("short.unused", pause_s=0.5))
        channel.queue_declare("short.mine", exclusive=True)
        channel.queue_declare("short.kept")
    lines.append(gone("short.mine"))
    lines.append(f"short.kept there: {is_there('short.kept')}")
    with peer.connect() as connection:
        connection.channel().queue_delete("short.kept")
    return lines


def test_short_lives(alike: Alike) -> None:
    assert alike(pika_short_lives) == [
        "short.reader there: True",
        "short.reader is gone",
        "404 NOT_FOUND - no exchange 'short.x' in vhost '/'",
        "short.unused is gone",
        "short.mine is gone",
        "short.kept there: True",
    ]


def pika_shared_prefetch(peer: AmqpPeer) -> list[str]:
    """A limit for a channel's consumers together, beside the one that each has."""
    lines = []
    with peer.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("share.a", "share.b"):
            channel.queue_declare(queue, exclusive=True)
        channel.basic_qos(prefetch_count=3, global_qos=True)
        heard: list[str] = []
        for queue in ("share.a", "share.b"):
            channel.basic_consume(queue, listener(heard, queue, ack=False))
        for number in range(4):
            channel.basic_publish("", f"share.{'ab'[number % 2]}", b"%d" % number)
        lines += sorted(said_in_time(connection, heard, 3))
        other = connection.channel()
        left = [other.queue_declare(f"share.{q}", passive=True).method.message_count for q in "ab"]
        lines.append(f"left {left}, more {heard}")
        channel.basic_ack(0, multiple=True)
        lines += said_in_time(connection, heard, 1)
        connection.update_secret("guest", "because")
        lines.append("a new secret is taken")
    return lines


def test_shared_prefetch(alike: Alike) -> None:
    lines = alike(pika_shared_prefetch)
    assert lines[3] == "left [0, 1], more []"


def pika_queues_share_a_prefetch(peer: AmqpPeer) -> list[str]:
    """A channel with one limit for all: no queue waits until another one is empty."""
    names = [f"share.{number}" for number in range(3)]
    heard: list[str] = []
    with peer.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=5, global_qos=True)
        for name in names:
            channel.queue_declare(name, exclusive=True)
            for _message in range(200):
                channel.basic_publish("", name, b"x")
        for name in names:
            channel.basic_consume(name, listener(heard, name))
        counts = [0, 0, 0]
        for line in said_in_time(connection, heard, 200):
            counts[names.index(line.partition(":")[0])] += 1
    print(peer.port, counts)
    return [f"each of three has had some: {min(counts) > 0}"]


def test_queues_share_a_prefetch(alike: Alike) -> None:
    assert alike(pika_queues_share_a_prefetch) == ["each of three has had some: True"]


def test_messages_of_a_delayed_exchange_come_when_they_are_due(amqp_broker: Broker) -> None:
    """As with RabbitMQ's plug-in, which Debian's package does not bring: only Millpond is asked."""
    with amqp_broker.connect() as connection:
        channel = connection.channel()
        arguments = {"x-delayed-type": "direct"}
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
        channel.queue_declare("due", durable=True)
        channel.queue_bind("due", "later", "k")
        started = time.perf_counter()
        # Without confirms: all three are on their way before the first is due.
        for delay_ms in (1_200, 600, 0):
            properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay_ms})
            channel.basic_publish("later", "k", b"%d" % delay_ms, properties)
        heard: list[str] = []
        times: list[float] = []

        def on_message(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            heard.append(shown(method, body))
            times.append((time.perf_counter() - started) * 1000)

        channel.basic_consume("due", on_message, auto_ack=True)
        assert said_in_time(connection, heard, 3) == ["0", "600", "1200"]
        # A broker counts whole milliseconds, from the one that has begun.
        assert all(at > due - 1 for at, due in zip(times, (0, 600, 1_200), strict=True))
