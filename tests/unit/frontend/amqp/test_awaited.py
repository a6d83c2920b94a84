"""Whose outcome a client waits for, so that others in full flow leave it more of the loop."""

from millpond.wire.amqp.events import ContentReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    QueueDeclare,
)
from millpond.wire.amqp.properties import Properties
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp


def publish(client: AmqpMemoryClient) -> None:
    client.publish(1, BasicPublish(routing_key="q"), b"flour", Properties())


async def test_a_publish_is_awaited_where_it_is_confirmed() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        assert client.session.is_awaited
        publish(client)
        assert not client.session.is_awaited
        await client.ask(1, ConfirmSelect())
        publish(client)
        assert client.session.is_awaited


async def test_an_acknowledgement_is_awaited_where_deliveries_are_limited() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        publish(client)
        assert isinstance(await client.wait(), ContentReceived)
        client.send(1, BasicAck(delivery_tag=1))
        assert not client.session.is_awaited
        for is_global in (False, True):
            await client.ask(1, BasicQos(prefetch_count=1, is_global=is_global))
            publish(client)
            event = await client.wait()
            assert isinstance(event, ContentReceived)
            client.send(1, BasicAck(delivery_tag=2 + is_global))
            assert client.session.is_awaited


async def test_a_method_that_is_answered_is_awaited() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        publish(client)
        await client.ask(1, BasicGet(queue="q"))
        assert client.session.is_awaited
