"""Memory or disk run low: who publishes is blocked and told, who consumes goes on, and it passes."""

import asyncio

import pytest

from millpond.base.pressure import NONE, Pressure
from millpond.wire.amqp.client import ConnectOptions
from millpond.wire.amqp.content import FRAME_START, method_frame
from millpond.wire.amqp.events import ContentReceived, MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicNack,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionUnblocked,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from millpond.wire.amqp.properties import Properties
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage

LOW = Pressure(low_on=("memory", "disk"), is_paging=True)


def publish(client: AmqpMemoryClient, body: bytes) -> None:
    client.publish(1, BasicPublish(routing_key="q"), body)


async def heard(client: AmqpMemoryClient) -> Method:
    event = await client.wait()
    assert isinstance(event, MethodReceived), event
    return event.method


async def test_who_publishes_is_blocked_until_it_is_over() -> None:
    async with memory_amqp() as amqp:
        writer, reader = await amqp.client(1), await amqp.client(1)
        await writer.ask(1, QueueDeclare(queue="q"))
        await writer.ask(1, ConfirmSelect())
        await reader.ask(1, BasicQos(prefetch_count=1))
        await reader.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        publish(writer, b"1")
        publish(writer, b"2")
        await asyncio.sleep(0.5)
        writer.heard.clear()
        amqp.frontend.on_pressure(LOW)
        # Who has not published yet is not bothered, whatever else it does.
        assert not writer.is_reading_paused
        publish(writer, b"3")
        assert await heard(writer) == ConnectionBlocked(reason="low on memory & disk")
        assert writer.is_reading_paused
        # Consumers go on with what is there.
        for tag, body in ((1, b"1"), (2, b"2")):
            event = await reader.wait()
            assert isinstance(event, ContentReceived)
            assert event.content.body == body
            reader.send(1, BasicAck(delivery_tag=tag))
        await asyncio.sleep(0.5)
        assert not reader.heard
        assert not reader.is_reading_paused
        amqp.frontend.on_pressure(NONE)
        assert await heard(writer) == ConnectionUnblocked()
        assert isinstance(await heard(writer), BasicAck)
        assert not writer.is_reading_paused
        third = await reader.wait()
        assert isinstance(third, ContentReceived)
        assert third.content.body == b"3"


async def test_one_that_does_not_understand_is_held_and_not_told() -> None:
    async with memory_amqp() as amqp:
        wish = ConnectOptions(client_properties={"capabilities": {}})
        writer = await AmqpMemoryClient(amqp.frontend, wish).open(1)
        await writer.ask(1, QueueDeclare(queue="q"))
        amqp.frontend.on_pressure(LOW)
        publish(writer, b"1")
        await asyncio.sleep(0.1)
        assert writer.is_reading_paused
        assert not writer.heard
        amqp.frontend.on_pressure(NONE)
        assert not writer.is_reading_paused
        assert not writer.heard


async def test_a_message_that_has_only_begun_blocks_too() -> None:
    async with memory_amqp() as amqp:
        writer = await amqp.client(1)
        amqp.frontend.on_pressure(LOW)
        begun = method_frame(1, BasicPublish(routing_key="q"))
        header = FRAME_START.pack(2, 1, 14) + b"\0\x3c\0\0" + (50_000_000).to_bytes(8, "big")
        writer.session.data_received(begun + header + b"\0\0\xce")
        assert isinstance(await heard(writer), ConnectionBlocked)
        assert writer.is_reading_paused


async def test_a_blocked_client_is_not_taken_for_dead() -> None:
    async with memory_amqp() as amqp:
        writer = await AmqpMemoryClient(amqp.frontend, ConnectOptions(heartbeat_s=2)).open(1)
        amqp.frontend.on_pressure(LOW)
        publish(writer, b"1")
        await asyncio.sleep(60)
        assert not writer.is_closed
        amqp.frontend.on_pressure(NONE)
        await asyncio.sleep(3)
        assert not writer.is_closed
        await asyncio.sleep(3)
        assert writer.is_closed


async def test_a_client_that_is_kept_waiting_is_not_taken_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not read from, so that its heartbeats are not heard: as when a queue's host is lost for long."""

    async with memory_amqp() as amqp:
        writer = await AmqpMemoryClient(amqp.frontend, ConnectOptions(heartbeat_s=2)).open(1)
        monkeypatch.setattr(amqp.frontend.queues.unanswered, "relief", lambda: asyncio.sleep(60))
        publish(writer, b"1")
        monkeypatch.undo()
        for _number in range(100):
            writer.send(1, BasicQos(prefetch_count=1))
        assert writer.is_reading_paused
        await asyncio.sleep(50)
        assert not writer.is_closed
        await asyncio.sleep(12)
        assert not writer.is_reading_paused
        await asyncio.sleep(6)
        assert writer.is_closed


async def test_messages_are_read_from_the_log_while_memory_is_short() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        publish(client, b"1")
        await asyncio.sleep(0.1)
        queue = amqp.frontend.queues.hosted("/", "q")
        assert queue.store.recent_bytes > 0
        amqp.frontend.on_pressure(Pressure(is_paging=True))
        publish(client, b"2")
        await asyncio.sleep(0.1)
        assert queue.store.recent_bytes == 0
        client.send(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        await heard(client)
        for body in (b"1", b"2"):
            event = await client.wait()
            assert isinstance(event, ContentReceived)
            assert event.content.body == body
        amqp.frontend.on_pressure(NONE)


async def test_a_node_that_runs_low_holds_up_publishers_at_every_node() -> None:
    async with amqp_cluster() as cluster:
        near, far = await cluster.client(1, 1), await cluster.client(2, 1)
        await near.ask(1, QueueDeclare(queue="q"))
        cluster.frontends[3].on_pressure(LOW)
        await asyncio.sleep(0.5)
        for client in (near, far):
            publish(client, b"1")
            assert await heard(client) == ConnectionBlocked(reason="low on memory & disk")
        # It is said again and again while it lasts.
        await asyncio.sleep(60)
        assert not near.heard
        cluster.frontends[3].on_pressure(NONE)
        for client in (near, far):
            assert await heard(client) == ConnectionUnblocked()


async def test_a_node_that_is_gone_holds_up_nobody() -> None:
    async with amqp_cluster() as cluster:
        client = await cluster.client(1, 1)
        cluster.frontends[3].on_pressure(LOW)
        await asyncio.sleep(0.5)
        publish(client, b"1")
        assert isinstance(await heard(client), ConnectionBlocked)
        await cluster.kill(3)
        await asyncio.sleep(30)
        assert await heard(client) == ConnectionUnblocked()


@pytest.mark.parametrize("fails", ["writes", "syncs"])
async def test_who_publishes_is_blocked_while_the_disk_takes_no_writes(fails: str) -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        writer, other = await amqp.client(1), await amqp.client(1)
        await writer.ask(1, QueueDeclare(queue="q", durable=True))
        await writer.ask(1, ConfirmSelect())
        setattr(storage, f"fail_{fails}", True)
        persistent = Properties(delivery_mode=2)
        writer.publish(1, BasicPublish(routing_key="q"), b"1", persistent)
        assert isinstance(await heard(writer), BasicNack)
        for client in (writer, other):
            client.publish(1, BasicPublish(routing_key="q"), b"2", persistent)
            assert await heard(client) == ConnectionBlocked(reason="low on disk")
        # As long as it takes.
        await asyncio.sleep(60)
        assert not writer.heard
        setattr(storage, f"fail_{fails}", False)
        await asyncio.sleep(60)
        assert await heard(writer) == ConnectionUnblocked()
        assert isinstance(await heard(writer), BasicAck)
        assert await heard(other) == ConnectionUnblocked()
        counted = await other.ask(1, QueueDeclare(queue="q", passive=True))
        assert isinstance(counted, MethodReceived)
        assert isinstance(counted.method, QueueDeclareOk)
        assert counted.method.message_count >= 2
