"""Messages that one read brings go each its own way, however alike they look."""

import asyncio
from typing import Any

import pytest

from millpond.base.fields import Table
from millpond.frontend.amqp.codec import changed
from millpond.frontend.amqp.publishing import QUEUES_A_STEP
from millpond.wire.amqp.events import ContentReceived, MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from millpond.wire.amqp.properties import Properties, decode_properties, encode_properties
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.unit.frontend.amqp.test_stories import waiting

PLAIN = Properties(delivery_mode=1)
COPIED = Properties(delivery_mode=1, headers={"CC": ["b"]})
URGENT = Properties(delivery_mode=1, priority=7)


def say_at_once(
    client: AmqpMemoryClient, *publishes: tuple[str, Properties, bytes], mandatory: bool = False
) -> None:
    """All of these in one read."""
    for key, properties, body in publishes:
        method = BasicPublish(routing_key=key, mandatory=mandatory)
        client.connection.send_content(1, method, encode_properties(properties), body)
    client.session.data_received(b"".join(client.connection.data_to_send()))


async def consumed(
    client: AmqpMemoryClient, queue: str, count: int
) -> list[tuple[bytes, Properties]]:
    await client.ask(1, BasicConsume(queue=queue, consumer_tag=queue, no_ack=True))
    found = []
    for _delivery in range(count):
        event = await client.wait()
        assert isinstance(event, ContentReceived), event
        found.append((event.content.body, decode_properties(event.content.properties)))
    return found


async def test_neighbours_that_differ_in_place_or_properties_are_not_mixed_up() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        for queue in ("a", "b"):
            await client.ask(1, QueueDeclare(queue=queue))
        say_at_once(
            client,
            ("a", PLAIN, b"1"),
            ("a", PLAIN, b"2"),
            ("a", COPIED, b"3"),
            ("a", COPIED, b"4"),
            ("b", PLAIN, b"5"),
            ("a", PLAIN, b"6"),
            ("a", URGENT, b"7"),
        )
        assert await consumed(client, "a", 6) == [
            *((b"1", PLAIN), (b"2", PLAIN), (b"3", COPIED), (b"4", COPIED)),
            *((b"6", PLAIN), (b"7", URGENT)),
        ]
        assert await consumed(client, "b", 3) == [(b"3", COPIED), (b"4", COPIED), (b"5", PLAIN)]


async def test_those_without_a_place_come_back_and_all_are_confirmed_by_their_numbers() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="a"))
        await client.ask(1, ConfirmSelect())
        say_at_once(
            client,
            ("a", PLAIN, b"1"),
            ("nowhere", PLAIN, b"2"),
            ("nowhere", PLAIN, b"3"),
            ("a", PLAIN, b"4"),
            mandatory=True,
        )
        for body in (b"2", b"3"):
            back = await client.wait()
            assert isinstance(back, ContentReceived)
            assert isinstance(back.content.method, BasicReturn)
            assert back.content.body == body
        yes = await client.wait()
        assert isinstance(yes, MethodReceived)
        assert yes.method == BasicAck(delivery_tag=4, multiple=True)
        assert [body for body, _said in await consumed(client, "a", 2)] == [b"1", b"4"]


async def test_an_exchange_that_chooses_anew_for_every_message_does_so_within_a_read() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, ExchangeDeclare(exchange="any", type="x-random"))
        for queue in ("a", "b"):
            await client.ask(1, QueueDeclare(queue=queue))
            await client.ask(1, QueueBind(queue=queue, exchange="any"))
        for _number in range(200):
            method = BasicPublish(exchange="any", routing_key="k")
            client.connection.send_content(1, method, encode_properties(PLAIN), b"")
        client.session.data_received(b"".join(client.connection.data_to_send()))
        counts = [await waiting(client, queue) for queue in ("a", "b")]
        assert sum(counts) == 200
        assert min(counts) > 20


async def test_the_way_of_a_publisher_is_found_anew_when_something_was_declared() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)

        async def say(body: bytes) -> None:
            method = BasicPublish(exchange="amq.direct", routing_key="k")
            client.publish(1, method, body, PLAIN)
            await asyncio.sleep(0.1)

        for queue in ("a", "b"):
            await client.ask(1, QueueDeclare(queue=queue))
        await client.ask(1, QueueBind(queue="a", exchange="amq.direct", routing_key="k"))
        await say(b"1")
        await say(b"2")
        await client.ask(1, QueueBind(queue="b", exchange="amq.direct", routing_key="k"))
        await say(b"3")
        await client.ask(1, QueueUnbind(queue="a", exchange="amq.direct", routing_key="k"))
        await say(b"4")
        await client.ask(1, QueueDelete(queue="b"))
        await say(b"5")
        assert [body for body, _said in await consumed(client, "a", 3)] == [b"1", b"2", b"3"]
        assert await waiting(client, "a") == 0


async def test_large_bodies_arrive_as_they_were_published() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="a"))
        sent = [bytes([size % 251]) * size for size in (0, 65_536, 131_064, 131_065, 300_000)]
        for body in sent:
            client.publish(1, BasicPublish(routing_key="a"), body, PLAIN)
        assert [body for body, _said in await consumed(client, "a", 5)] == sent


async def test_a_message_goes_to_its_consumer_in_the_turn_behind_its_coming() -> None:
    async with memory_amqp() as amqp:
        consumer, publisher = await amqp.client(1), await amqp.client(1)
        await consumer.ask(1, QueueDeclare(queue="a", durable=True))
        await consumer.ask(1, BasicConsume(queue="a", no_ack=True))
        # Persistent: its confirm waits for the disk, its consumer does not.
        say_at_once(publisher, ("a", Properties(delivery_mode=2), b"1"))
        await asyncio.sleep(0)
        delivery = consumer.heard.popleft()
        assert isinstance(delivery, ContentReceived)
        assert delivery.content.body == b"1"


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
async def test_what_is_hashed_may_be_a_property(name: str) -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        arguments: Table = {"hash-property": name}
        await client.ask(
            1, ExchangeDeclare(exchange="x", type="x-consistent-hash", arguments=arguments)
        )
        for queue in ("a", "b"):
            await client.ask(1, QueueDeclare(queue=queue))
            await client.ask(1, QueueBind(queue=queue, exchange="x", routing_key="1"))
        for number in range(200):
            value: Any = number if name == "timestamp" else str(number)
            properties = changed(Properties(), **{name: value})
            client.publish(1, BasicPublish(exchange="x"), b"", properties)
        counts = [await waiting(client, queue) for queue in ("a", "b")]
        assert sum(counts) == 200
        assert min(counts) > 20


async def test_others_are_served_while_a_message_goes_to_very_many_queues() -> None:
    async with memory_amqp() as amqp:
        client, other = await amqp.client(1), await amqp.client(1)
        await client.ask(1, ExchangeDeclare(exchange="all", type="fanout"))
        names = [f"q{number}" for number in range(2 * QUEUES_A_STEP + 50)]
        for queue in names:
            await client.ask(1, QueueDeclare(queue=queue))
            await client.ask(1, QueueBind(queue=queue, exchange="all"))
        await client.ask(1, ConfirmSelect())
        method = BasicPublish(exchange="all")
        for body in (b"1", b"2"):
            client.connection.send_content(1, method, encode_properties(PLAIN), body)
        client.connection.send_content(
            1, BasicPublish(routing_key="q0"), encode_properties(PLAIN), b"3"
        )
        client.session.data_received(b"".join(client.connection.data_to_send()))
        assert client.session.is_busy
        # Another client is heard before the last queue has the messages.
        say_at_once(other, (names[-1], PLAIN, b"other"))
        confirmed = set()
        while 3 not in confirmed:
            event = await client.wait()
            assert isinstance(event, MethodReceived)
            assert isinstance(event.method, BasicAck)
            confirmed.add(event.method.delivery_tag)
        assert not client.session.is_busy
        first, last = names[0], names[-1]
        bodies = [body for body, _said in await consumed(client, last, 3)]
        assert bodies == [b"other", b"1", b"2"]
        bodies = [body for body, _said in await consumed(client, first, 3)]
        assert bodies == [b"1", b"2", b"3"]
        for queue in names[1:-1]:
            assert await waiting(client, queue) == 2
