"""Queues that are deleted only if they are empty, or unused: what comes in between is never lost."""

import asyncio
from collections.abc import Callable

import pytest

from millpond.base.errors import AccessRefused, MillpondError, RequestTimedOut
from millpond.engine.queues.queues import Queues
from millpond.rabbit.commands import Command, Decision, DeleteQueue
from millpond.wire.amqp.events import ChannelClosed, ContentReceived, MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicNack,
    BasicPublish,
    ConfirmSelect,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
)
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.unit.frontend.amqp.test_stories import PERSISTENT, waiting


class SlowController:
    """Takes its time to agree that a queue goes; ``errors`` are what comes of it instead, one each time."""

    def __init__(self, queues: Queues, patch: pytest.MonkeyPatch, *errors: MillpondError) -> None:
        self.is_asked = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self._ask: Callable[[Command], object] = queues.ask
        self._errors = list(errors)
        patch.setattr(queues, "ask", self.ask)

    async def ask(self, command: Command) -> Decision:
        if isinstance(command, DeleteQueue):
            self.is_asked.set()
            await self.may_go_on.wait()
            if self._errors:
                raise self._errors.pop(0)
        return await self._ask(command)  # type: ignore[misc, no-any-return]


async def heard(client: AmqpMemoryClient) -> list[object]:
    """The methods that come without being asked for."""
    await asyncio.sleep(0.2)
    found = list(client.heard)
    client.heard.clear()
    return [one.method if isinstance(one, MethodReceived) else one for one in found]


async def test_a_message_that_comes_while_its_queue_goes_is_not_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_amqp() as amqp:
        deleter, publisher = await amqp.client(1), await amqp.client(1)
        await deleter.ask(1, QueueDeclare(queue="q", durable=True))
        await publisher.ask(1, ConfirmSelect())
        controller = SlowController(amqp.frontend.queues, monkeypatch)
        deleter.send(1, QueueDelete(queue="q", if_empty=True))
        await controller.is_asked.wait()
        publisher.publish(1, BasicPublish(routing_key="q"), b"too late", PERSISTENT)
        assert await heard(publisher) == []
        controller.may_go_on.set()
        assert await heard(deleter) == [QueueDeleteOk(message_count=0)]
        assert [type(one) for one in await heard(publisher)] == [BasicNack]


async def test_a_message_that_came_while_its_queue_was_to_go_and_stays_is_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_amqp() as amqp:
        deleter, publisher = await amqp.client(1), await amqp.client(1)
        await deleter.ask(1, QueueDeclare(queue="q", durable=True))
        await publisher.ask(1, ConfirmSelect())
        queues = amqp.frontend.queues
        controller = SlowController(queues, monkeypatch, AccessRefused("not yours"))
        deleter.send(1, QueueDelete(queue="q", if_empty=True))
        await controller.is_asked.wait()
        for body in (b"a", b"b"):
            publisher.publish(1, BasicPublish(routing_key="q"), body, PERSISTENT)
        controller.may_go_on.set()
        (closed,) = await heard(deleter)
        assert isinstance(closed, ChannelClosed)
        assert all(isinstance(one, BasicAck) for one in await heard(publisher))
        assert await waiting(publisher) == 2
        await publisher.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        got = [one for one in await heard(publisher) if isinstance(one, ContentReceived)]
        assert [one.content.body for one in got] == [b"a", b"b"]


async def test_one_who_is_refused_does_not_let_messages_in_while_another_deletes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_amqp() as amqp:
        first, second = await amqp.client(1), await amqp.client(1)
        publisher = await amqp.client(1)
        await first.ask(1, QueueDeclare(queue="q", durable=True))
        await publisher.ask(1, ConfirmSelect())
        queues = amqp.frontend.queues
        controller = SlowController(queues, monkeypatch, AccessRefused("not yours"))
        first.send(1, QueueDelete(queue="q", if_empty=True))
        await controller.is_asked.wait()
        second.send(1, QueueDelete(queue="q", if_empty=True))
        await asyncio.sleep(0.1)
        refused, controller.may_go_on = controller.may_go_on, asyncio.Event()
        controller.is_asked.clear()
        refused.set()
        await controller.is_asked.wait()
        publisher.publish(1, BasicPublish(routing_key="q"), b"too late", PERSISTENT)
        assert await heard(publisher) == []
        controller.may_go_on.set()
        assert await heard(second) == [QueueDeleteOk(message_count=0)]
        assert [type(one) for one in await heard(publisher)] == [BasicNack]


async def test_what_nobody_knows_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with memory_amqp() as amqp:
        deleter, publisher = await amqp.client(1), await amqp.client(1)
        await deleter.ask(1, QueueDeclare(queue="q", durable=True))
        await publisher.ask(1, ConfirmSelect())
        queues = amqp.frontend.queues
        controller = SlowController(queues, monkeypatch, RequestTimedOut("no answer"))
        deleter.send(1, QueueDelete(queue="q", if_empty=True))
        await controller.is_asked.wait()
        publisher.publish(1, BasicPublish(routing_key="q"), b"x", PERSISTENT)
        controller.may_go_on.set()
        assert await heard(publisher) == []
        await asyncio.sleep(2)
        assert await heard(deleter) == [QueueDeleteOk(message_count=0)]
        assert [type(one) for one in await heard(publisher)] == [BasicNack]


async def test_a_consumer_that_comes_while_its_queue_goes_hears_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_amqp() as amqp:
        deleter, consumer = await amqp.client(1), await amqp.client(1)
        await deleter.ask(1, QueueDeclare(queue="q", durable=True))
        controller = SlowController(amqp.frontend.queues, monkeypatch)
        deleter.send(1, QueueDelete(queue="q", if_unused=True))
        await controller.is_asked.wait()
        event = await consumer.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert isinstance(event, ChannelClosed), event
        assert event.code == 404
        controller.may_go_on.set()
        assert await heard(deleter) == [QueueDeleteOk(message_count=0)]


async def test_what_is_on_its_way_into_the_queue_counts() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        client.publish(1, BasicPublish(routing_key="q"), b"x", PERSISTENT)
        event = await client.ask(1, QueueDelete(queue="q", if_empty=True))
        assert isinstance(event, ChannelClosed), event
        assert event.code == 406
        await client.open_channel(2)
        event = await client.ask(2, QueueDelete(queue="q", if_unused=True))
        assert isinstance(event, MethodReceived), event
        assert event.method == QueueDeleteOk(message_count=1)


async def test_nothing_waits_in_a_stream() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        stream = QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "stream"})
        await client.ask(1, stream)
        client.publish(1, BasicPublish(routing_key="q"), b"x", PERSISTENT)
        event = await client.ask(1, QueueDelete(queue="q", if_empty=True))
        assert isinstance(event, MethodReceived), event
        assert event.method == QueueDeleteOk(message_count=0)


@pytest.mark.parametrize("where", ["at its host", "elsewhere"])
async def test_on_a_cluster_the_host_decides(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with amqp_cluster() as cluster:
        first = await cluster.client(1, 1)
        await first.ask(1, QueueDeclare(queue="q", durable=True))
        host = cluster.host_of("q")
        others = [node for node in cluster.frontends if node != host]
        deleter = await cluster.client(host if where == "at its host" else others[0], 1)
        publisher = await cluster.client(others[1], 1)
        await publisher.ask(1, ConfirmSelect())
        controller = SlowController(cluster.frontends[host].queues, monkeypatch)
        deleter.send(1, QueueDelete(queue="q", if_empty=True))
        await controller.is_asked.wait()
        publisher.publish(1, BasicPublish(routing_key="q"), b"too late", PERSISTENT)
        await asyncio.sleep(0.5)
        assert await heard(publisher) == []
        controller.may_go_on.set()
        await asyncio.sleep(1)
        assert await heard(deleter) == [QueueDeleteOk(message_count=0)]
        assert [type(one) for one in await heard(publisher)] == [BasicNack]
        assert all("q" not in cluster.queues_at(node) for node in cluster.frontends)


async def test_on_a_cluster_a_queue_in_use_stays() -> None:
    async with amqp_cluster() as cluster:
        first = await cluster.client(1, 1)
        await first.ask(1, QueueDeclare(queue="q", durable=True))
        host = cluster.host_of("q")
        others = [node for node in cluster.frontends if node != host]
        consumer = await cluster.client(others[0], 1)
        await consumer.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        deleter = await cluster.client(others[1], 1)
        event = await deleter.ask(1, QueueDelete(queue="q", if_unused=True))
        assert isinstance(event, ChannelClosed), event
        assert event.code == 406
        assert "in use" in event.text
