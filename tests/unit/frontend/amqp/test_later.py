"""What happens later: delayed exchanges, delayed retry, letters that must arrive, consumers that sleep."""

import asyncio

import pytest

from millpond.base.fields import Table
from millpond.engine.queues.dead_letters import RETRY_PAUSE_S
from millpond.wire.amqp.events import ContentReceived, Event
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicNack,
    BasicPublish,
    BasicReject,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
)
from millpond.wire.amqp.properties import Properties, decode_properties
from tests.support.amqp.memory_amqp import AmqpMemoryBroker, AmqpMemoryClient, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run
from tests.unit.frontend.amqp.test_stories import confirmed, delivered, publish, waiting


async def make_delayed(client: AmqpMemoryClient, *, kind: str = "direct") -> None:
    """An exchange ``later`` with the queue ``q`` bound to it."""
    await client.ask(
        1,
        ExchangeDeclare(
            exchange="later",
            type="x-delayed-message",
            durable=True,
            arguments={"x-delayed-type": kind},
        ),
    )
    await client.ask(1, QueueDeclare(queue="q", durable=True))
    await client.ask(1, QueueBind(queue="q", exchange="later", routing_key="k"))


def send_later(
    client: AmqpMemoryClient, body: bytes, delay: object, *, exchange: str = "later"
) -> None:
    properties = Properties(delivery_mode=2, headers={"x-delay": delay, "a": "b"})  # type: ignore[dict-item]
    client.publish(1, BasicPublish(exchange=exchange, routing_key="k"), body, properties)


def contents(client: AmqpMemoryClient) -> list[bytes]:
    found = [event for event in client.heard if isinstance(event, ContentReceived)]
    client.heard.clear()
    return [event.content.body for event in found]


def headers_of(event: Event | None) -> Table:
    assert isinstance(event, ContentReceived), event
    return decode_properties(event.content.properties).headers or {}


async def test_a_delayed_exchange_sends_each_message_at_its_time() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_delayed(client)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        for body, delay in ((b"third", 3_000), (b"first", 1_000), (b"second", 2_000)):
            send_later(client, body, delay)
        send_later(client, b"at once", -5)
        send_later(client, b"nonsense", "soon")
        await asyncio.sleep(0.9)
        assert contents(client) == [b"at once", b"nonsense"]
        await asyncio.sleep(1)
        assert contents(client) == [b"first"]
        await asyncio.sleep(3)
        assert contents(client) == [b"second", b"third"]
        hidden = amqp.frontend.queues.hosted("/", "amq.delayed-later")
        assert (hidden.state.ready, hidden.state.held, hidden.state.delayed) == (0, 0, 0)


async def test_a_delayed_message_says_that_it_has_waited() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_delayed(client)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        send_later(client, b"x", 1_000)
        assert headers_of(await client.wait()) == {"x-delay": -1_000, "a": "b"}


def test_what_a_delayed_exchange_keeps_back_survives_a_restart() -> None:
    storage = FaultyStorage()

    async def before() -> FaultyStorage:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await make_delayed(client)
            await client.ask(1, ConfirmSelect())
            send_later(client, b"soon", 1_000)
            send_later(client, b"late", 60_000)
            await confirmed(client, 2)
            await asyncio.sleep(2)
            assert await waiting(client) == 1
            return storage.copy_durable()

    async def after(survivor: FaultyStorage) -> None:
        async with memory_amqp(survivor) as amqp:
            hidden = amqp.frontend.queues.hosted("/", "amq.delayed-later")
            assert hidden.state.delayed >= 1
            client = await amqp.client(1)
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
            await asyncio.sleep(70)
            assert contents(client)[-1] == b"late"

    run(after(run(before())))


async def test_a_delayed_exchange_may_be_bound_to_another() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_delayed(client, kind="fanout")
        await client.ask(1, ExchangeBind(source="amq.fanout", destination="later"))
        send_later(client, b"x", 1_000, exchange="amq.fanout")
        assert await waiting(client) == 0
        await asyncio.sleep(2)
        assert await waiting(client) == 1


async def test_nobody_else_uses_the_queue_of_a_delayed_exchange() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_delayed(client)
        publish(client, b"x", queue="amq.delayed-later")
        await asyncio.sleep(0.1)
        hidden = amqp.frontend.queues.hosted("/", "amq.delayed-later")
        assert hidden.state.ready + hidden.state.held + hidden.state.delayed == 0
        event = await client.ask(1, BasicConsume(queue="amq.delayed-later"))
        assert "RESOURCE_LOCKED" in repr(event)


async def test_a_delayed_exchange_takes_what_it_keeps_with_it() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_delayed(client)
        send_later(client, b"x", 1_000)
        await client.ask(1, ExchangeDelete(exchange="later"))
        assert list(amqp.frontend.queues.broker.rooms("/").queues) == ["q"]
        assert list(amqp.broker.engine.metadata.image.topics) == ["q"]
        await asyncio.sleep(2)
        assert await waiting(client) == 0


# --- delayed retry ------------------------------------------------------------------------------------------


async def make_retrying(client: AmqpMemoryClient, kind: str, storage: object = None) -> None:
    arguments: Table = {
        "x-queue-type": "quorum",
        "x-delayed-retry-type": kind,
        "x-delayed-retry-min": 10_000,
        "x-delayed-retry-max": 15_000,
    }
    await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments))


async def test_a_returned_message_comes_again_later_and_later() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_retrying(client, "returned")
        publish(client, b"a", b"b")
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert [one[0] for one in await delivered(client, 2)] == [b"a", b"b"]
        client.send(1, BasicNack(delivery_tag=1, requeue=True))
        await asyncio.sleep(9)
        assert contents(client) == []
        await asyncio.sleep(2)
        assert contents(client) == [b"a"]
        client.send(1, BasicNack(delivery_tag=3, requeue=True))
        await asyncio.sleep(14)
        assert contents(client) == []
        await asyncio.sleep(2)
        assert contents(client) == [b"a"]


def test_what_waits_for_its_retry_does_so_over_a_restart() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await make_retrying(client, "all")
            publish(client, b"a")
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            assert len(await delivered(client, 1)) == 1
            client.send(1, BasicNack(delivery_tag=1, requeue=True))
            await asyncio.sleep(0.1)

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            queue = amqp.frontend.queues.hosted("/", "q")
            assert (queue.state.ready, queue.state.delayed) == (0, 1)
            client = await amqp.client(1)
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            await asyncio.sleep(12)
            assert contents(client) == [b"a"]

    run(before())
    run(after())


@pytest.mark.parametrize(("kind", "waits"), [("failed", True), ("returned", False)])
async def test_what_a_lost_channel_held_has_failed(kind: str, waits: bool) -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await make_retrying(client, kind)
        publish(client, b"a")
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert len(await delivered(client, 1)) == 1
        client.close()
        other = await amqp.client(1)
        assert await waiting(other) == (0 if waits else 1)
        await asyncio.sleep(11)
        assert await waiting(other) == 1


# --- letters that must arrive -----------------------------------------------------------------------------


async def make_certain(client: AmqpMemoryClient) -> None:
    arguments: Table = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "letters",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }
    await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments))


async def reject_one(client: AmqpMemoryClient) -> None:
    publish(client, b"a")
    await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
    assert len(await delivered(client, 1)) == 1
    client.send(1, BasicReject(delivery_tag=1, requeue=False))
    await asyncio.sleep(0.1)


def test_a_letter_that_must_arrive_waits_for_its_queue() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await make_certain(client)
            await reject_one(client)
            assert await waiting(client) == 0
            await client.ask(1, QueueDeclare(queue="letters", durable=True))
            await asyncio.sleep(RETRY_PAUSE_S + 1)
            assert await waiting(client, "letters") == 1

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            assert await waiting(client) == 0
            assert await waiting(client, "letters") == 1

    run(before())
    run(after())


def test_a_message_whose_letter_did_not_arrive_comes_back() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await make_certain(client)
            await reject_one(client)

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            assert await waiting(await amqp.client(1)) == 1

    run(before())
    run(after())


def test_the_original_is_over_only_when_its_letter_is_flushed() -> None:
    storage = FaultyStorage()

    async def before() -> FaultyStorage:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await make_certain(client)
            await client.ask(1, QueueDeclare(queue="letters", durable=True))
            await reject_one(client)
            assert await waiting(client, "letters") == 1
            return storage.copy_durable()

    async def after(survivor: FaultyStorage) -> None:
        async with memory_amqp(survivor) as amqp:
            client = await amqp.client(1)
            assert await waiting(client, "letters") == 1

    run(after(run(before())))


# --- consumers that never settle ----------------------------------------------------------------------------


async def hold_for(amqp: AmqpMemoryBroker, seconds: float, arguments: Table) -> Event | None:
    """What a consumer hears that takes one message and does nothing."""
    client = await amqp.client(1)
    await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments))
    publish(client, b"a", b"b")
    await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
    assert len(await delivered(client, 2)) == 2
    client.send(1, BasicAck(delivery_tag=1))
    await asyncio.sleep(seconds)
    return client.heard.popleft() if client.heard else None


async def test_a_consumer_that_never_settles_loses_its_channel() -> None:
    async with memory_amqp() as amqp:
        event = await hold_for(amqp, 1_700, {})
        assert event is None
        other = await amqp.client(1)
        assert await waiting(other) == 0
        await asyncio.sleep(200)
        assert await waiting(other) == 1


async def test_the_words_of_a_time_out_are_rabbitmqs() -> None:
    async with memory_amqp() as amqp:
        arguments: Table = {"x-queue-type": "quorum", "x-consumer-timeout": 60_000}
        event = await hold_for(amqp, 90, arguments)
        assert (
            "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout "
            "value used: 60000 ms. This timeout value can be configured, see consumers doc "
            "guide to learn more"
        ) in repr(event)


async def test_a_consumer_that_goes_on_keeps_its_channel() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        arguments: Table = {"x-queue-type": "quorum", "x-consumer-timeout": 60_000}
        await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        for tag in range(1, 10):
            publish(client, b"x")
            await asyncio.sleep(50)
            assert contents(client) == [b"x"]
            client.send(1, BasicAck(delivery_tag=tag))
        assert await waiting(client) == 0
