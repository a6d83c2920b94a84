"""Streams: read without being emptied, from where each consumer likes, over topics of all kinds."""

import asyncio

import pytest

from millpond.base.fields import Table, Timestamp, Value
from millpond.engine.queues.hosted import stream_queue
from millpond.record.builder import build_batch
from millpond.wire.amqp.events import ContentReceived, Event, MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
)
from millpond.wire.amqp.properties import Properties, decode_properties
from tests.support.amqp.memory_amqp import AmqpMemoryBroker, AmqpMemoryClient, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run
from tests.unit.frontend.amqp.test_queue_logs import Transaction
from tests.unit.frontend.amqp.test_stories import confirmed, publish

STREAM: Table = {"x-queue-type": "stream"}


async def make_stream(
    client: AmqpMemoryClient, count: int = 0, arguments: Table | None = None
) -> None:
    """The stream ``q`` with so many messages."""
    await client.ask(
        1, QueueDeclare(queue="q", durable=True, arguments={**STREAM, **(arguments or {})})
    )
    for number in range(count):
        publish(client, b"%d" % number)
    await asyncio.sleep(0.1)


async def read(
    client: AmqpMemoryClient, start: Value = None, how: Table | None = None
) -> list[bytes]:
    """What a consumer gets that acknowledges everything at once."""
    arguments: Table = dict(how or {})
    if start is not None:
        arguments["x-stream-offset"] = start
    await client.ask(1, BasicQos(prefetch_count=3))
    await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=arguments))
    found = await more(client)
    await client.ask(1, BasicCancel(consumer_tag="t"))
    return found


async def more(client: AmqpMemoryClient) -> list[bytes]:
    found: list[bytes] = []
    while True:
        await asyncio.sleep(0.1)
        events = [event for event in client.heard if isinstance(event, ContentReceived)]
        client.heard.clear()
        if not events:
            return found
        for event in events:
            found.append(event.content.body)
            client.send(1, BasicAck(delivery_tag=event.content.method.delivery_tag))  # type: ignore[attr-defined]


def numbers(first: int, next_: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, next_)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("first", numbers(0, 10)),
        ("next", []),
        (None, []),
        (7, numbers(7, 10)),
        (-1, numbers(0, 10)),
        (100, []),
        ("1h", numbers(0, 10)),
        (Timestamp(1), numbers(0, 10)),
        (Timestamp(2**33), []),
    ],
)
async def test_a_consumer_begins_where_it_likes(start: Value, expected: list[bytes]) -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client, 10)
        assert await read(client, start) == expected
        # Again: nothing went.
        assert await read(client, start) == expected


async def test_last_is_what_was_written_last() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client, 3)
        publish(client, b"end")
        transaction = Transaction(amqp.broker.engine)
        transaction.write(b"no")
        transaction.end(committed=False)
        await asyncio.sleep(0.1)
        assert await read(client, "last") == [b"end"]


async def test_an_empty_stream_can_be_read_from_its_last_message() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client)
        await client.ask(1, BasicQos(prefetch_count=3))
        arguments: Table = {"x-stream-offset": "last"}
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=arguments))
        publish(client, b"a")
        assert await more(client) == [b"a"]


async def test_acknowledging_makes_room_and_nothing_else() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client, 5)
        await client.ask(1, BasicQos(prefetch_count=2))
        arguments: Table = {"x-stream-offset": "first"}
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=arguments))
        await asyncio.sleep(0.1)
        assert len(client.heard) == 2
        client.send(1, BasicAck(delivery_tag=2, multiple=True))
        await asyncio.sleep(0.1)
        assert len(client.heard) == 4


async def test_lists_show_how_long_it_is_and_a_declaration_says_nothing_of_it() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client, 5)
        await read(client, "first")
        assert await amqp.frontend.queues.find("/", "q").glance() == (5, 0, 0, 0)
        declared = await client.ask(1, QueueDeclare(queue="q", passive=True))
        assert declared == MethodReceived(1, QueueDeclareOk(queue="q"))


async def test_consumers_do_not_take_from_each_other() -> None:
    async with memory_amqp() as amqp:
        one, other = await amqp.client(1), await amqp.client(1)
        await make_stream(one, 20)
        first = await read(one, "first")
        second = await read(other, 10)
        assert (first, second) == (numbers(0, 20), numbers(10, 20))


async def test_a_delivery_says_where_its_message_is() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client)
        properties = Properties(headers={"a": 1}, expiration="5", message_id="m")
        client.publish(1, BasicPublish(routing_key="q"), b"x", properties)
        await client.ask(1, BasicQos(prefetch_count=2))
        arguments: Table = {"x-stream-offset": "first"}
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=arguments))
        await asyncio.sleep(0.1)
        event = client.heard.popleft()
        assert isinstance(event, ContentReceived)
        found = decode_properties(event.content.properties)
        assert found.headers == {"a": 1, "x-stream-offset": 0}
        assert (found.message_id, found.expiration) == ("m", "5")


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (BasicGet(queue="q"), "NOT_IMPLEMENTED - basic.get not supported by stream queues queue"),
        (
            QueuePurge(queue="q"),
            "NOT_IMPLEMENTED - queue.purge not supported by stream queues queue",
        ),
        (
            BasicConsume(queue="q"),
            "PRECONDITION_FAILED - consumer prefetch count is not set for 'queue 'q' in vhost '/''",
        ),
        (
            QueueDeclare(
                queue="r",
                durable=True,
                arguments={**STREAM, "x-stream-max-segment-size-bytes": 4_000_000_000},
            ),
            "PRECONDITION_FAILED - Exceeded max value for x-stream-max-segment-size-bytes",
        ),
        (
            QueueDeclare(queue="r", durable=True, arguments={**STREAM, "x-message-ttl": 5}),
            (
                "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'r' in vhost '/' of queue "
                "type rabbit_stream_queue"
            ),
        ),
    ],
)
async def test_what_a_stream_refuses_is_said_as_rabbitmq_says_it(
    method: Method, words: str
) -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client)
        assert words in repr(await client.ask(1, method)).replace("\\'", "'")


@pytest.mark.parametrize(
    ("arguments", "no_ack", "words"),
    [
        ({}, True, "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues"),
        ({"x-priority": 1}, False, "PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q'"),
        ({"x-stream-offset": "soon"}, False, "PRECONDITION_FAILED - invalid arg 'x-stream-offset'"),
        ({"x-stream-offset": True}, False, "PRECONDITION_FAILED - invalid arg 'x-stream-offset'"),
    ],
)
async def test_a_consumer_that_asks_for_too_much_is_refused(
    arguments: Table, no_ack: bool, words: str
) -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client)
        await client.ask(1, BasicQos(prefetch_count=3))
        method = BasicConsume(queue="q", arguments=arguments, no_ack=no_ack)
        assert words in repr(await client.ask(1, method)).replace("\\'", "'")


def test_nothing_in_a_stream_is_given_back() -> None:
    async def story() -> Event | None:
        async with memory_amqp() as amqp:
            client = await amqp.client(1)
            await make_stream(client, 1)
            await client.ask(1, BasicQos(prefetch_count=3))
            arguments: Table = {"x-stream-offset": "first"}
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=arguments))
            assert isinstance(await client.wait(), ContentReceived)
            return await client.ask(1, BasicNack(delivery_tag=1, requeue=True))

    assert "NOT_IMPLEMENTED - basic.nack and basic.reject not supported" in repr(run(story()))


async def test_a_filter_leaves_out_what_is_not_wanted() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client)
        for body, value in ((b"a", "x"), (b"b", "y"), (b"c", None), (b"d", "z"), (b"e", "x")):
            headers: Table = {} if value is None else {"x-stream-filter-value": value}
            publishing = BasicPublish(routing_key="q")
            client.publish(1, publishing, body, Properties(headers=headers))
        await asyncio.sleep(0.1)
        wanted: Table = {"x-stream-filter": "x"}
        assert await read(client, "first", wanted) == [b"a", b"e"]
        wanted = {"x-stream-filter": ["x", "y"], "x-stream-match-unfiltered": True}
        assert await read(client, "first", wanted) == [b"a", b"b", b"c", b"e"]


def test_a_stream_survives_a_restart_whole() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await make_stream(client, 10)
            await client.ask(1, ConfirmSelect())
            publish(client, b"10")
            await confirmed(client, 1)
            assert await read(client, "first") == numbers(0, 11)

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            assert await read(client, "first") == numbers(0, 11)
            publish(client, b"11")
            assert await read(client, 9) == numbers(9, 12)

    run(before())
    run(after())


async def test_a_slow_reader_reads_again_what_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_queue, "_KEPT_BYTES_MAX", 0)

    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client, 30)
        assert await read(client, "first") == numbers(0, 30)


async def test_what_a_stream_keeps_is_a_matter_of_its_topic() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(
            client,
            arguments={
                "x-max-age": "7D",
                "x-max-length-bytes": 5_000_000,
                "x-stream-max-segment-size-bytes": 2_000_000,
            },
        )
        config = amqp.broker.engine.metadata.image.topic_config("q")
        assert config["retention.ms"] == str(7 * 86_400_000)
        assert config["retention.bytes"] == "5000000"
        assert config["segment.bytes"] == "2000000"


async def test_a_reader_goes_on_behind_what_retention_took() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_stream(client, 10)
        amqp.broker.engine.partitions.delete_records("q", 0, 4)
        assert await read(client, 2) == numbers(4, 10)
        assert await read(client, "first") == numbers(4, 10)


# --- topics of others -------------------------------------------------------------------------------------


async def make_topic(amqp: AmqpMemoryBroker, partitions: int = 1) -> None:
    await amqp.broker.create("events", partitions)


def produce(amqp: AmqpMemoryBroker, partition: int, *bodies: bytes) -> None:
    batch = build_batch([(5_000, b"key", body, [("h", b"v")]) for body in bodies])
    amqp.broker.engine.partitions.append("events", partition, batch)


async def test_a_topic_is_read_as_a_stream_and_stays_when_the_stream_goes() -> None:
    async with memory_amqp() as amqp:
        await make_topic(amqp)
        produce(amqp, 0, b"a", b"b")
        client = await amqp.client(1)
        await make_stream(client, arguments={"x-millpond-topic": "events"})
        await make_stream(client, arguments={"x-millpond-topic": "events"})
        assert await read(client, "first") == [b"a", b"b"]
        publish(client, b"c")
        assert await read(client, 1) == [b"b", b"c"]
        await client.ask(1, QueueDelete(queue="q"))
        assert "events" in amqp.broker.engine.metadata.image.topics
        assert amqp.broker.engine.partitions.partition("events", 0).high_watermark == 3


async def test_all_partitions_of_a_topic_are_read() -> None:
    async with memory_amqp() as amqp:
        await make_topic(amqp, 3)
        for partition in range(3):
            produce(amqp, partition, *(b"%d.%d" % (partition, one) for one in range(5)))
        client = await amqp.client(1)
        await make_stream(client, arguments={"x-millpond-topic": "events"})
        found = await read(client, "first")
        assert sorted(found) == sorted(b"%d.%d" % (p, one) for p in range(3) for one in range(5))
        for partition in range(3):
            mine = [body for body in found if body.startswith(b"%d." % partition)]
            assert mine == sorted(mine)


async def test_only_a_topic_that_is_there_and_nobodys_queue_becomes_a_stream() -> None:
    async with memory_amqp() as amqp:
        await make_topic(amqp)
        for topic, words in (("nothing", "NOT_FOUND"), ("other", "PRECONDITION_FAILED")):
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="other"))
            arguments: Table = {**STREAM, "x-millpond-topic": topic}
            event = await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments))
            assert words in repr(event)
