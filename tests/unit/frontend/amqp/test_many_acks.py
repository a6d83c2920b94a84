"""A client says at once what became of very many messages: in steps, and in the order of its methods."""

import asyncio

import pytest

from millpond.base.fields import Table
from millpond.frontend.amqp import session
from millpond.wire.amqp.events import (
    ChannelClosed,
    ConnectionClosed,
    ContentReceived,
    MethodReceived,
)
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverOk,
    QueueDeclare,
    QueueDeclareOk,
)
from millpond.wire.amqp.properties import Properties
from millpond.wire.amqp.violations import ReplyCode
from tests.support.memory_amqp import AmqpMemoryBroker, AmqpMemoryClient, memory_amqp
from tests.support.virtual_loop import run

COUNT = 500
BODIES = [b"%d" % number for number in range(COUNT)]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_TAKEN_AT_A_TIME", 64)


async def holding(amqp: AmqpMemoryBroker) -> AmqpMemoryClient:
    """Somebody who has been sent all messages there are, and wants no more for now."""
    client = await amqp.client(1, 2)
    await client.ask(1, QueueDeclare(queue="q"))
    for body in BODIES:
        client.publish(1, BasicPublish(routing_key="q"), body, Properties())
    await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
    assert [body for body, _again in await delivered(client, COUNT)] == BODIES
    ended = await client.ask(1, BasicCancel(consumer_tag="t"))
    assert isinstance(ended, MethodReceived)
    assert isinstance(ended.method, BasicCancelOk)
    return client


async def delivered(client: AmqpMemoryClient, count: int) -> list[tuple[bytes, bool]]:
    """Bodies, and whether they came before."""
    found = []
    for _delivery in range(count):
        event = await client.wait()
        assert isinstance(event, ContentReceived), event
        assert isinstance(event.content.method, BasicDeliver)
        found.append((event.content.body, event.content.method.redelivered))
    return found


async def ready(client: AmqpMemoryClient) -> int:
    answer = await client.ask(1, QueueDeclare(queue="q", passive=True))
    assert isinstance(answer, MethodReceived), answer
    assert isinstance(answer.method, QueueDeclareOk)
    return answer.method.message_count


@pytest.mark.parametrize("tag", [COUNT, 0])
def test_what_goes_back_comes_again_in_its_order_and_nothing_overtakes(tag: int) -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await holding(amqp)
            other = await amqp.client(1)
            await other.ask(1, BasicConsume(queue="q", consumer_tag="o", no_ack=True))
            client.send(1, BasicNack(delivery_tag=tag, multiple=True, requeue=True))
            client.publish(1, BasicPublish(routing_key="q"), b"later", Properties())
            found = await delivered(other, COUNT + 1)
            assert found == [*((body, True) for body in BODIES), (b"later", False)]

    run(story())


def test_all_of_it_goes_back_before_the_next_method_is_answered() -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await holding(amqp)
            client.send(1, BasicNack(delivery_tag=COUNT - 100, multiple=True, requeue=True))
            assert await ready(client) == COUNT - 100
            client.send(1, BasicNack(delivery_tag=0, multiple=True, requeue=True))
            assert await ready(client) == COUNT

    run(story())


def test_others_are_answered_between() -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client, other = await holding(amqp), await amqp.client(1)
            client.send(1, BasicNack(delivery_tag=0, multiple=True, requeue=True))
            assert await ready(other) == 0
            assert await ready(client) == COUNT

    run(story())


def test_acknowledgements_are_all_done_before_the_next_method_is_answered() -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await holding(amqp)
            client.send(1, BasicAck(delivery_tag=COUNT - 100, multiple=True))
            client.send(1, BasicAck(delivery_tag=COUNT - 50))
            client.send(1, BasicNack(delivery_tag=0, multiple=True, requeue=True))
            assert await ready(client) == 99

    run(story())


def test_few_of_many_are_acknowledged_at_once() -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await holding(amqp)
            client.send(1, BasicAck(delivery_tag=10, multiple=True))
            assert not client.session.is_busy
            client.send(1, BasicAck(delivery_tag=COUNT, multiple=True))
            assert client.session.is_busy
            assert await ready(client) == 0

    run(story())


@pytest.mark.parametrize("verb", ["ack", "reject", "requeue"])
def test_a_client_that_goes_meanwhile_is_believed(verb: str) -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client, other = await holding(amqp), await amqp.client(1)
            if verb == "ack":
                client.send(1, BasicAck(delivery_tag=COUNT - 100, multiple=True))
            else:
                again = verb == "requeue"
                client.send(1, BasicNack(delivery_tag=COUNT - 100, multiple=True, requeue=again))
            await asyncio.sleep(0)
            client.session.connection_lost()
            assert await ready(other) == (COUNT if verb == "requeue" else 100)

    run(story())


def test_a_tag_that_is_not_out_costs_the_channel() -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await holding(amqp)
            client.send(1, BasicNack(delivery_tag=COUNT + 1, multiple=True, requeue=True))
            event = await client.wait()
            assert isinstance(event, ChannelClosed)
            assert event.code == ReplyCode.PRECONDITION_FAILED

    run(story())


@pytest.mark.parametrize("requeue", [True, False])
def test_a_stream_takes_nothing_back_however_much_it_is(requeue: bool) -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await amqp.client(1)
            stream = QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "stream"})
            await client.ask(1, stream)
            for body in BODIES:
                client.publish(1, BasicPublish(routing_key="q"), body, Properties())
            await client.ask(1, BasicQos(prefetch_count=COUNT))
            first: Table = {"x-stream-offset": "first"}
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=first))
            await delivered(client, COUNT)
            client.send(1, BasicNack(delivery_tag=COUNT, multiple=True, requeue=requeue))
            event = await client.wait()
            assert isinstance(event, ConnectionClosed | ChannelClosed), event
            assert event.code == ReplyCode.NOT_IMPLEMENTED

    run(story())


def test_all_comes_back_before_its_recovery_is_answered() -> None:
    async def story() -> None:
        async with memory_amqp() as amqp:
            client = await holding(amqp)
            answer = await client.ask(1, BasicRecover(requeue=True))
            assert isinstance(answer, MethodReceived)
            assert isinstance(answer.method, BasicRecoverOk)
            assert await ready(client) == COUNT

    run(story())
