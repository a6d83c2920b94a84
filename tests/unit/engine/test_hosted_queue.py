"""A queue on its host when the disk does not do what it should, or memory runs low."""

import asyncio

import pytest

from millpond.base import limits
from millpond.base.pressure import NONE, Pressure
from millpond.queue import queue_state as lines
from millpond.wire.amqp.events import MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicPublish,
    BasicQos,
    QueueDeclare,
    QueuePurge,
    QueuePurgeOk,
)
from millpond.wire.amqp.properties import Properties
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run
from tests.unit.frontend.amqp.test_stories import delivered, publish, waiting

OLD = Properties(delivery_mode=2, expiration="1000")


async def test_what_could_not_be_handed_out_on_a_full_disk_goes_when_there_is_room_again() -> None:
    storage = FaultyStorage()

    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        publish(client, b"a", b"b")
        assert await waiting(client) == 2
        storage.capacity = storage.used
        await client.ask(1, BasicQos(prefetch_count=1))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await asyncio.sleep(60)
        assert not client.heard
        storage.capacity = None
        await amqp.broker.engine.disk.online()
        # No client sends anything; time passes.
        await asyncio.sleep(limits.QUEUE_TURN_RETRY_MS_MAX / 1000)
        assert [body for body, _again, _tag in await delivered(client, 1)] == [b"a"]


def test_that_messages_have_an_age_is_said_again_where_it_could_not_be() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            storage.capacity = storage.used
            client.publish(1, BasicPublish(routing_key="q"), b"no room", OLD)
            await asyncio.sleep(1)
            storage.capacity = None
            await amqp.broker.engine.disk.online()
            client = await amqp.client(1)
            client.publish(1, BasicPublish(routing_key="q"), b"old", OLD)
            assert await waiting(client) == 1

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await asyncio.sleep(5)
            assert await waiting(client) == 0

    run(before())
    run(after())


async def test_who_never_acknowledges_gets_only_so_much_while_memory_runs_low(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "QUEUE_HELD_MAX", 10)

    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        publish(client, *[b"m"] * 30)
        assert await waiting(client) == 30
        amqp.frontend.on_pressure(Pressure(is_paging=True))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert len(await delivered(client, 10)) == 10
        await asyncio.sleep(5)
        assert not client.heard
        client.send(1, BasicAck(delivery_tag=4, multiple=True))
        assert len(await delivered(client, 4)) == 4
        await asyncio.sleep(5)
        assert not client.heard
        amqp.frontend.on_pressure(NONE)
        # It need not do anything for the rest.
        await asyncio.sleep(2)
        assert len(await delivered(client, 16)) == 16


async def one_by_one(client: AmqpMemoryClient, reader: AmqpMemoryClient, count: int) -> None:
    """The reader gets so many messages, each alone, and acknowledges none."""
    await client.ask(1, QueueDeclare(queue="q"))
    await reader.ask(1, BasicConsume(queue="q", consumer_tag="t"))
    for number in range(count):
        publish(client, b"%d" % number)
        await delivered(reader, 1)


async def test_others_have_turns_while_much_comes_back_from_a_channel_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "RETURNED_AT_A_TIME", 10)

    async with memory_amqp() as amqp:
        client, reader, other = [await amqp.client(1) for _client in range(3)]
        await one_by_one(client, reader, 60)
        line = amqp.frontend.queues.hosted("/", "q").state
        # It is behind the first messages, which wait for no consumer.
        await other.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        reader.close()
        publish(client, b"new")
        heard = []
        while line.is_returning:
            heard.append(len(other.heard))
            await asyncio.sleep(0)
        assert len(heard) > 6
        assert 0 < heard[len(heard) // 2] < 60
        assert [one[:2] for one in await delivered(other, 61)] == [
            *((b"%d" % number, True) for number in range(60)),
            (b"new", False),
        ]


async def test_who_asks_waits_until_all_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "RETURNED_AT_A_TIME", 10)

    async with memory_amqp() as amqp:
        client, reader = await amqp.client(1), await amqp.client(1)
        await one_by_one(client, reader, 60)
        reader.close()
        client.send(1, BasicGet(queue="q"))
        assert await delivered(client, 1) == [(b"0", True, 1)]
        assert await waiting(client) == 59
        event = await client.ask(1, QueuePurge(queue="q"))
        assert event == MethodReceived(1, QueuePurgeOk(message_count=59))
