"""What must not add up, stop or harm others while a broker runs for long."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from millpond.base import limits
from millpond.base.errors import CorruptBatch, PeerUnreachable, RequestTimedOut
from millpond.base.fields import Table
from millpond.engine.queues.hosted.queue_log import Loader, QueueLog
from millpond.message.hub import Message
from millpond.queue.known import Need
from millpond.queue.steps import GIVEN_UP_AT_A_TIME, DeathReason
from millpond.rabbit.channel import Deliveries
from millpond.rabbit.commands import Command, Decision, DeleteQueue, LoseLastConsumer
from millpond.wire.amqp.events import ChannelClosed, ConnectionClosed, MethodReceived
from millpond.wire.amqp.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    QueueDeclare,
    QueueDelete,
    TxSelect,
)
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run
from tests.unit.frontend.amqp.test_cluster import declared
from tests.unit.frontend.amqp.test_stories import delivered, publish, waiting


def noting(told: list[Command]) -> Callable[[Command], Coroutine[Any, Any, None]]:
    """Commands of the broker's own are noted and not carried out."""

    async def note(command: Command) -> None:
        told.append(command)

    return note


async def got(client: AmqpMemoryClient) -> list[tuple[bytes, bool, int]]:
    client.send(1, BasicGet(queue="q", no_ack=True))
    return await delivered(client, 1)


async def test_a_queue_that_is_deleted_is_not_deleted_once_more_by_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a cluster the second command could come late, and end a new queue of the same name."""

    async with memory_amqp() as amqp:
        client, told = await amqp.client(1), list[Command]()
        monkeypatch.setattr(amqp.frontend.queues, "carry_out", noting(told))
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        await client.ask(1, QueueDelete(queue="q"))
        await asyncio.sleep(0.1)
        assert told == []
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        await amqp.broker.engine.topic_admin.delete_topics([("q", None)])
        await asyncio.sleep(0.1)
        assert [type(one) for one in told] == [DeleteQueue]


async def test_deliveries_of_a_queue_that_is_gone_leave_room_for_others() -> None:
    async with memory_amqp() as amqp:
        client, other = await amqp.client(1), await amqp.client(1)
        for name in ("gone", "stays"):
            await other.ask(1, QueueDeclare(queue=name))
            await client.ask(1, BasicConsume(queue=name, consumer_tag=name))
        publish(other, *[b"never"] * 1_000, queue="gone")
        while amqp.frontend.queues.hosted("/", "gone").state.held < 1_000:
            await asyncio.sleep(0)
        client.session.pause_writing()
        client.heard.clear()
        await other.ask(1, QueueDelete(queue="gone"))
        client.session.resume_writing()
        publish(other, b"here", queue="stays")
        await asyncio.sleep(0.1)
        bodies = [getattr(event, "content", None) for event in client.heard]
        assert b"here" in [one.body for one in bodies if one is not None]


async def test_empty_publishes_fill_a_transaction_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AMQP_TRANSACTION_BYTES_MAX", 10_000)

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


async def test_who_asks_gets_past_much_that_is_too_old() -> None:
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


async def test_messages_that_were_looked_at_are_kept_as_far_as_there_is_room() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", arguments={"x-message-ttl": 100}))
        queue = amqp.frontend.queues.hosted("/", "q")
        amqp.frontend.queues.is_recent_kept = False
        publish(client, *[b"x" * 200_000] * 20)
        assert await waiting(client) == 20
        for offset in range(20):
            queue.decisions.learn(queue.state, [Need(0, offset, offset + 1)])
            assert queue.store.kept_bytes < 1_400_000
        queue.forget_recent()
        assert queue.store.kept_bytes == 0


def test_one_log_that_cannot_be_read_does_not_keep_others_from_being_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage, load = FaultyStorage(), QueueLog.load

    def unreadable(log: QueueLog, loader: Loader) -> None:
        if log.partition.topic == "bad":
            raise CorruptBatch("nobody can read this")
        load(log, loader)

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            for name in ("bad", "good"):
                await client.ask(1, QueueDeclare(queue=name, durable=True))
                publish(client, b"kept", queue=name)
                assert await waiting(client, name) == 1

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            assert await waiting(client, "good") == 1
            monkeypatch.setattr(QueueLog, "load", load)
            assert await waiting(client, "bad") == 1

    async def again() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            client.send(1, QueueDelete(queue="bad"))
            await asyncio.sleep(limits.QUEUE_HOST_WAIT_MS_MAX / 1000 + 1)
            assert isinstance(client.heard.popleft(), MethodReceived)
            assert list(amqp.frontend.queues.broker.rooms("/").queues) == ["good"]

    run(before())
    monkeypatch.setattr(QueueLog, "load", unreadable)
    run(after())
    monkeypatch.setattr(QueueLog, "load", unreadable)
    run(again())


async def test_a_channel_forgets_queues_that_are_gone() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        for number in range(150):
            name = f"q{number}"
            await client.ask(1, QueueDeclare(queue=name, auto_delete=True))
            await client.ask(1, BasicConsume(queue=name, consumer_tag="t"))
            await client.ask(1, BasicCancel(consumer_tag="t"))
            await asyncio.sleep(0.01)
        assert len(client.session.channels[1].queues) < 70


def test_a_look_for_the_overdue_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0

    def failing(_deliveries: Deliveries, _now_ms: int) -> None:
        nonlocal turns
        turns += 1
        raise RuntimeError("by mistake")

    async def story() -> None:
        async with memory_amqp() as amqp:
            await amqp.client(1)
            asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
            await asyncio.sleep(25)

    monkeypatch.setattr(Deliveries, "mark", failing)
    run(story())
    assert turns == 2


async def test_a_host_forgets_clients_of_other_nodes_that_are_gone() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        for _number in range(3):
            client = await cluster.client(2, 1)
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            assert cluster.frontends[1].queues.remote_clients.remembered > 0
            client.close()
        await cluster.nodes.until(
            lambda: cluster.frontends[1].queues.remote_clients.remembered == 0
        )


async def test_answers_for_a_node_that_is_away_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "QUEUE_REPLIES_MAX", 10)

    async with amqp_cluster() as cluster:
        client = await cluster.client(2, 1)
        names: list[str] = []
        tasks = cluster.frontends[2].engine.runtime.tasks
        spawn = tasks.spawn

        def counting(coroutine: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
            if name.startswith("reply"):
                names.append(name)
            return spawn(coroutine, name=name)

        monkeypatch.setattr(tasks, "spawn", counting)
        for _number in range(50):
            client.publish(1, BasicPublish(routing_key="amq.rabbitmq.reply-to.3.nobody"), b"")
        assert names == ["reply to node 3"] * 10
        await asyncio.sleep(1)
        client.publish(1, BasicPublish(routing_key="amq.rabbitmq.reply-to.3.nobody"), b"")
        assert len(names) == 11


async def test_what_a_lost_connection_had_goes_when_there_is_a_controller_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_amqp() as amqp:
        queues, refusals = amqp.frontend.queues, 0
        ask = queues.ask

        async def unreachable(command: Command) -> Decision:
            nonlocal refusals
            refusals += 1
            if refusals <= 2:
                raise PeerUnreachable("there is no controller")
            return await ask(command)

        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="mine", exclusive=True))
        monkeypatch.setattr(queues, "ask", unreachable)
        client.close()
        await asyncio.sleep(5)
        assert "mine" not in queues.broker.rooms("/").queues


async def test_what_ends_a_queue_does_not_end_the_next_one_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_amqp() as amqp:
        queues, told = amqp.frontend.queues, list[Command]()
        client = await amqp.client(1)
        carry_out = queues.carry_out
        monkeypatch.setattr(queues, "carry_out", noting(told))
        await client.ask(1, QueueDeclare(queue="q", auto_delete=True))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await client.ask(1, BasicCancel(consumer_tag="t"))
        await asyncio.sleep(0.1)
        queues.deletions.lose(queues.hosted("/", "q"))
        await asyncio.sleep(0.1)
        assert [type(one) for one in told] == [LoseLastConsumer, DeleteQueue]
        await client.ask(1, QueueDelete(queue="q"))
        await client.ask(1, QueueDeclare(queue="q", auto_delete=True))
        for late in told:
            await carry_out(late)
        assert "q" in queues.broker.rooms("/").queues
        queues.deletions.lose(queues.hosted("/", "q"))
        await asyncio.sleep(0.1)
        await carry_out(told[-1])
        assert "q" not in queues.broker.rooms("/").queues


async def test_many_that_are_rejected_at_once_become_letters_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forwarded, count = 0, 2 * GIVEN_UP_AT_A_TIME

    async with memory_amqp() as amqp:
        queues, client = amqp.frontend.queues, await amqp.client(1)
        letters: Table = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "letters",
        }
        await client.ask(1, QueueDeclare(queue="letters"))
        await client.ask(1, QueueDeclare(queue="q", arguments=letters))
        publish(client, *[b"%d" % number for number in range(count)])
        assert await waiting(client) == count
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert len(await delivered(client, count)) == count
        dead_letters = queues.hosted("/", "q").dead_letters
        forward = dead_letters.forward

        def counting(messages: Sequence[Message], reason: DeathReason) -> None:
            nonlocal forwarded
            forwarded += len(messages)
            forward(messages, reason)

        monkeypatch.setattr(dead_letters, "forward", counting)
        client.send(1, BasicNack(delivery_tag=count, multiple=True, requeue=False))
        most, before = 0, 0
        while forwarded < count:
            most, before = max(most, forwarded - before), forwarded
            await asyncio.sleep(0)
        assert 0 < most <= GIVEN_UP_AT_A_TIME
        assert await waiting(client, "letters") == count
        await client.ask(1, BasicConsume(queue="letters", consumer_tag="l"))
        found = await delivered(client, count)
        assert [one[0] for one in found] == [b"%d" % number for number in range(count)]


async def test_a_queue_that_nobody_uses_goes_although_nobody_could_decide_it_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nobody_decides(_command: Command) -> Decision:
        raise RequestTimedOut("no controller")

    async with memory_amqp() as amqp:
        queues, client = amqp.frontend.queues, await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", arguments={"x-expires": 1_000}))
        with monkeypatch.context() as away:
            away.setattr(queues, "ask", nobody_decides)
            await asyncio.sleep(5)
        await asyncio.sleep(10)
        assert "q" not in queues.broker.rooms("/").queues
