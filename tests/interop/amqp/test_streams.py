"""Streams by pika: where consumers begin, what they are told of each message, what is refused."""

import datetime
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.interop.amqp.brokers import AmqpPeer
from tests.interop.amqp.conftest import Alike

STREAM = {"x-queue-type": "stream"}
NAME = "a stream"
COUNT = 10
AN_HOUR_AGO = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)


def asked(peer: AmqpPeer, ask: Callable[[BlockingChannel], object]) -> str:
    """What comes of something on a connection of its own: refusals may cost one."""
    connection = peer.connect()
    try:
        return str(ask(connection.channel()))
    except (pika.exceptions.ChannelClosed, pika.exceptions.ConnectionClosed) as error:
        return f"{type(error).__name__} {error.reply_code} {error.reply_text}"
    finally:
        # pika gives back what it has not handed on, and a stream takes nothing back.
        with suppress(pika.exceptions.AMQPError):
            connection.close()


def read(channel: BlockingChannel, count: int, **arguments: Any) -> list[tuple[bytes, int]]:
    """The first messages from a position, and the offsets that they are said to have."""
    channel.basic_qos(prefetch_count=3)
    found: list[tuple[bytes, int]] = []

    def on_message(_channel: object, method: Any, properties: Any, body: bytes) -> None:
        found.append((body, properties.headers["x-stream-offset"]))
        channel.basic_ack(method.delivery_tag)

    named = {key.replace("_", "-"): one for key, one in arguments.items()}
    channel.basic_consume(NAME, on_message, arguments=named)
    while len(found) < count:
        channel.connection.process_data_events(time_limit=10)
    return found[:count]


def a_stream_is_read_from_anywhere(peer: AmqpPeer) -> list[str]:
    def fill(channel: BlockingChannel) -> None:
        channel.queue_declare(NAME, durable=True, arguments=STREAM)
        channel.confirm_delivery()
        for number in range(COUNT):
            channel.basic_publish("", NAME, b"%d" % number)

    def next_one(channel: BlockingChannel) -> list[bytes]:
        channel.basic_qos(prefetch_count=3)
        found: list[bytes] = []
        channel.basic_consume(NAME, lambda _c, _m, _p, body: found.append(body))
        asked(peer, lambda other: other.basic_publish("", NAME, b"new"))
        while not found:
            channel.connection.process_data_events(time_limit=10)
        return found

    said = [asked(peer, fill)]
    for start, count in (("first", 10), (7, 3), (-1, 2), ("1h", 4), (AN_HOUR_AGO, 10), ("last", 1)):
        said.append(asked(peer, lambda channel: read(channel, count, x_stream_offset=start)))  # noqa: B023
    said.append(asked(peer, next_one))
    said.append(asked(peer, lambda channel: channel.queue_declare(NAME, passive=True)))
    said.append(asked(peer, lambda channel: channel.queue_delete(NAME)))
    return said


def a_stream_refuses(peer: AmqpPeer) -> list[str]:
    def consume(channel: BlockingChannel, **how: Any) -> object:
        channel.basic_qos(prefetch_count=how.pop("prefetch", 3))
        return channel.basic_consume(NAME, lambda *_args: None, consumer_tag="t", **how)

    def give_back(channel: BlockingChannel) -> None:
        channel.basic_publish("", NAME, b"x")
        channel.basic_qos(prefetch_count=1)
        for method, _properties, _body in channel.consume(
            NAME, arguments={"x-stream-offset": "first"}
        ):
            channel.basic_nack(method.delivery_tag)
            channel.connection.process_data_events(time_limit=5)

    def declare(**arguments: Any) -> Callable[[BlockingChannel], object]:
        named = {key.replace("_", "-"): one for key, one in arguments.items()}
        return lambda channel: channel.queue_declare(
            "r", durable=True, arguments={**STREAM, **named}
        )

    asks: list[Callable[[BlockingChannel], object]] = [
        lambda channel: channel.queue_declare(NAME, durable=True, arguments=STREAM),
        lambda channel: channel.basic_get(NAME),
        lambda channel: channel.queue_purge(NAME),
        lambda channel: consume(channel, prefetch=0),
        lambda channel: consume(channel, auto_ack=True),
        lambda channel: consume(channel, arguments={"x-priority": 1}),
        give_back,
        lambda channel: channel.queue_declare("r", arguments=STREAM),
        declare(x_max_age="1x"),
        declare(x_message_ttl=5),
        declare(x_stream_max_segment_size_bytes=4_000_000_000),
        lambda channel: channel.queue_delete(NAME, if_empty=True),
    ]
    return [asked(peer, ask) for ask in asks]


def test_a_stream_is_read_from_anywhere(alike: Alike) -> None:
    said = alike(a_stream_is_read_from_anywhere)
    assert said[2] == "[(b'7', 7L), (b'8', 8L), (b'9', 9L)]"


def test_a_stream_refuses_in_rabbitmqs_words(alike: Alike) -> None:
    said = alike(a_stream_refuses)
    assert sum("NOT_IMPLEMENTED" in one for one in said) == 4
