"""Direct reply-to: a question through a queue, and its answer straight to who asked."""

import asyncio

from millpond.rabbit.names import REPLY_TO
from millpond.wire.amqp.events import ChannelClosed, ContentReceived, MethodReceived
from millpond.wire.amqp.methods import (
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicPublish,
    BasicReturn,
    QueueDeclare,
    QueueDeclareOk,
)
from millpond.wire.amqp.properties import Properties, decode_properties
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp

REPLIES = BasicConsume(queue=REPLY_TO, consumer_tag="replies", no_ack=True)


async def asked(client: AmqpMemoryClient, server: AmqpMemoryClient) -> str:
    """The address that a server finds in the client's question."""
    await server.ask(1, QueueDeclare(queue="questions"))
    await client.ask(1, REPLIES)
    question = Properties(reply_to=REPLY_TO, correlation_id="7")
    client.publish(1, BasicPublish(routing_key="questions"), b"?", question)
    await asyncio.sleep(0.1)
    event = await server.ask(1, BasicGet(queue="questions", no_ack=True))
    assert isinstance(event, ContentReceived), event
    properties = decode_properties(event.content.properties)
    assert properties.correlation_id == "7"
    assert properties.reply_to is not None
    return properties.reply_to


async def test_an_answer_goes_to_the_channel_that_asked() -> None:
    async with memory_amqp() as amqp:
        client, server = await amqp.client(1, 2), await amqp.client(1)
        address = await asked(client, server)
        # Addresses say which node has the channel.
        assert address.startswith(f"{REPLY_TO}.{amqp.broker.engine.info.node_id}.")
        answer = Properties(correlation_id="7", headers={"a": 1})
        server.publish(1, BasicPublish(routing_key=address), b"!", answer)
        event = await client.wait()
        assert isinstance(event, ContentReceived), event
        assert event.content.body == b"!"
        assert event.content.method == BasicDeliver(
            consumer_tag="replies", delivery_tag=1, routing_key=address
        )
        assert decode_properties(event.content.properties) == answer


async def test_who_waits_can_be_found_and_who_went_cannot() -> None:
    async with memory_amqp() as amqp:
        client, server = await amqp.client(1), await amqp.client(1)
        address = await asked(client, server)
        found = await server.ask(1, QueueDeclare(queue=address, passive=True))
        assert isinstance(found, MethodReceived)
        assert found.method == QueueDeclareOk(queue=address, consumer_count=1)
        client.close()
        server.publish(1, BasicPublish(routing_key=address, mandatory=True), b"!")
        back = await server.wait()
        assert isinstance(back, ContentReceived)
        assert isinstance(back.content.method, BasicReturn)
        gone = await server.ask(1, QueueDeclare(queue=address, passive=True))
        assert isinstance(gone, ChannelClosed)


async def test_answers_for_who_does_not_read_are_lost_and_cost_nobody_else() -> None:
    async with memory_amqp() as amqp:
        client, server = await amqp.client(1), await amqp.client(1)
        address = await asked(client, server)
        client.session.pause_writing()
        body = bytes(256 * 1024)
        for _answer in range(100):
            server.publish(1, BasicPublish(routing_key=address), body)
            await asyncio.sleep(0.01)
        heard = len(client.heard)
        assert heard < 20
        client.session.resume_writing()
        server.publish(1, BasicPublish(routing_key=address), b"last")
        await asyncio.sleep(0.1)
        assert len(client.heard) == heard + 1


async def test_an_answer_finds_its_channel_at_another_node() -> None:
    async with amqp_cluster() as cluster:
        client, server = await cluster.client(1, 1), await cluster.client(2, 1)
        address = await asked(client, server)
        assert address.startswith(f"{REPLY_TO}.1.")
        server.publish(1, BasicPublish(routing_key=address), b"!")
        event = await client.wait()
        assert isinstance(event, ContentReceived), event
        assert event.content.body == b"!"
