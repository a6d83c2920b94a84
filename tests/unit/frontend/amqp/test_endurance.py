"""What must not add up, stop or harm others while a broker runs for long."""

import asyncio

import pytest

from millpond.base import limits
from millpond.base.fields import Table
from millpond.queue.commands import Command, DeleteQueue
from millpond.wire.amqp.events import ChannelClosed, ConnectionClosed
from millpond.wire.amqp.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    QueueDeclare,
    QueueDelete,
    TxSelect,
)
from tests.support.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.support.virtual_loop import run
from tests.unit.frontend.amqp.test_stories import delivered, publish, waiting


async def got(client: AmqpMemoryClient) -> list[tuple[bytes, bool, int]]:
    client.send(1, BasicGet(queue="q", no_ack=True))
    return await delivered(client, 1)


def test_a_queue_that_is_deleted_is_not_deleted_once_more_by_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a cluster the second command could come late, and end a new queue of the same name."""

    async def story() -> None:
        async with memory_amqp() as amqp:
            client, told = await amqp.client(1), list[Command]()
            monkeypatch.setattr(amqp.frontend.queues, "soon", told.append)
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            await client.ask(1, QueueDelete(queue="q"))
            await asyncio.sleep(0.1)
            assert told == []
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            await amqp.broker.engine.delete_topics([("q", None)])
            await asyncio.sleep(0.1)
            assert [type(one) for one in told] == [DeleteQueue]

    run(story())


def test_deliveries_of_a_queue_that_is_gone_leave_room_for_others() -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client, other = await amqp.client(1), await amqp.client(1)
            for name in ("gone", "stays"):
                await other.ask(1, QueueDeclare(queue=name))
                await client.ask(1, BasicConsume(queue=name, consumer_tag=name))
            publish(other, *[b"never"] * 1_000, queue="gone")
            while amqp.frontend.queues.hosted("/", "gone").line.held < 1_000:
                await asyncio.sleep(0)
            client.session.pause_writing()
            client.heard.clear()
            await other.ask(1, QueueDelete(queue="gone"))
            client.session.resume_writing()
            publish(other, b"here", queue="stays")
            await asyncio.sleep(0.1)
            bodies = [getattr(event, "content", None) for event in client.heard]
            assert b"here" in [one.body for one in bodies if one is not None]

    run(story())


def test_empty_publishes_fill_a_transaction_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AMQP_TRANSACTION_BYTES_MAX", 10_000)

    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q"))
            await client.ask(1, TxSelect())
            for _number in range(100):
                client.publish(1, BasicPublish(routing_key="q"), b"")
                if client.heard:
                    break
            event = await client.wait()
            assert isinstance(event, (ChannelClosed, ConnectionClosed)), event

    run(story())


def test_who_asks_gets_past_much_that_is_too_old() -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await amqp.client(1)
            letters: Table = {
                "x-message-ttl": 100,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "letters",
            }
            await client.ask(1, QueueDeclare(queue="letters"))
            await client.ask(1, QueueDeclare(queue="q", arguments=letters))
            publish(client, *[b"old"] * 1_200)
            assert await waiting(client) == 1_200
            await asyncio.sleep(0.09)
            publish(client, b"new")
            await asyncio.sleep(0.05)
            assert [one[0] for one in await got(client)] == [b"new"]
            assert await waiting(client, "letters") == 1_200

    run(story())


def test_messages_that_were_looked_at_are_kept_as_far_as_there_is_room() -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q", arguments={"x-message-ttl": 100}))
            queue = amqp.frontend.queues.hosted("/", "q")
            amqp.frontend.queues.is_recent_kept = False
            publish(client, *[b"x" * 200_000] * 20)
            assert await waiting(client) == 20
            for offset in range(20):
                queue.meta(0, offset)
                assert queue.kept_bytes < 1_400_000
            queue.forget_recent()
            assert queue.kept_bytes == 0

    run(story())
