"""Queues behind the front-end: what survives, what comes again, who is held back, what is forgotten."""

import asyncio

import pytest

from millpond.engine.queues.hosted import log_reader, recent_messages, turn
from millpond.rabbit.commands import Store
from millpond.rabbit.records import Policy
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
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
)
from millpond.wire.amqp.properties import Properties
from millpond.wire.amqp.violations import ReplyCode
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run

PERSISTENT = Properties(delivery_mode=2)


def publish(client: AmqpMemoryClient, *bodies: bytes, queue: str = "q") -> None:
    for body in bodies:
        client.publish(1, BasicPublish(routing_key=queue), body, PERSISTENT)


async def delivered(client: AmqpMemoryClient, count: int) -> list[tuple[bytes, bool, int]]:
    """Body, whether redelivered, and tag of the next deliveries."""
    found = []
    for _delivery in range(count):
        event = await client.wait()
        assert isinstance(event, ContentReceived), event
        method = event.content.method
        assert isinstance(method, (BasicDeliver, BasicGetOk))
        found.append((event.content.body, method.redelivered, method.delivery_tag))
    return found


async def confirmed(client: AmqpMemoryClient, number: int) -> None:
    """Everything up to this number is."""
    while True:
        event = await client.wait()
        assert isinstance(event, MethodReceived), event
        assert isinstance(event.method, BasicAck)
        if event.method.delivery_tag == number:
            return


async def waiting(client: AmqpMemoryClient, queue: str = "q") -> int:
    event = await client.ask(1, QueueDeclare(queue=queue, passive=True))
    assert isinstance(event, MethodReceived), event
    assert isinstance(event.method, QueueDeclareOk)
    return event.method.message_count


def test_a_restart_keeps_messages_and_what_became_of_them() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            await client.ask(1, QueueDeclare(queue="passing"))
            await client.ask(1, ConfirmSelect())
            publish(client, b"a", b"b", b"c", b"d")
            await confirmed(client, 4)
            await client.ask(1, BasicQos(prefetch_count=3))
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            await asyncio.sleep(0.1)
            found = [event for event in client.heard if isinstance(event, ContentReceived)]
            assert [event.content.body for event in found] == [b"a", b"b", b"c"]
            client.send(1, BasicAck(delivery_tag=2))
            await asyncio.sleep(0.1)

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            assert list(amqp.frontend.queues.broker.rooms("/").queues) == ["q"]
            assert "passing" not in amqp.broker.engine.metadata.image.topics
            client = await amqp.client(1)
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            found = await delivered(client, 3)
            assert [one[:2] for one in found] == [
                (b"a", True),
                (b"c", True),
                # It had been taken from the fourth place when the third was settled.
                (b"d", True),
            ]

    run(before())
    run(after())


def test_what_was_confirmed_survives_a_loss_of_power() -> None:
    storage = FaultyStorage()

    async def before() -> FaultyStorage:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            await client.ask(1, ConfirmSelect())
            publish(client, b"a", b"b", b"c")
            await confirmed(client, 3)
            publish(client, b"d")
            return storage.copy_durable()

    async def after(survivor: FaultyStorage) -> None:
        async with memory_amqp(survivor) as amqp:
            client = await amqp.client(1)
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            found = await delivered(client, 3)
            assert [one[:2] for one in found] == [(b"a", False), (b"b", False), (b"c", False)]

    run(after(run(before())))


def test_a_log_loses_its_beginning_and_is_still_the_queue() -> None:
    storage = FaultyStorage()
    count = 12_000

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
            publish(client, *(b"%d" % number for number in range(count)))
            assert len(await delivered(client, count)) == count
            assert await waiting(client) == 0
            await client.ask(1, BasicCancel(consumer_tag="t"))
            publish(client, b"last")
            assert await waiting(client) == 1
            log = amqp.broker.engine.partitions.partition("q", 0).log
            assert log.start_offset >= 10_000

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            client.send(1, BasicGet(queue="q"))
            assert (await delivered(client, 1))[0][:2] == (b"last", False)

    run(before())
    run(after())


async def test_a_log_is_not_cut_before_what_was_handed_out_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "_CUT_OFFSETS", 100)
    monkeypatch.setattr(recent_messages, "_BYTES_MAX", 0)
    monkeypatch.setattr(log_reader, "_READ_BYTES", 1)

    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        bodies = [b"%d" % number for number in range(2_500)]
        publish(client, *bodies)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        assert [one[0] for one in await delivered(client, 2_500)] == bodies
        assert amqp.broker.engine.partitions.partition("q", 0).log.start_offset > 0


async def test_what_need_not_be_acknowledged_is_sent_before_its_consumer_stops() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        publish(client, *(b"%d" % number for number in range(600)))
        assert await waiting(client) == 600
        client.send(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        assert isinstance(await client.wait(), MethodReceived)
        await delivered(client, 1)
        client.send(1, BasicCancel(consumer_tag="t"))
        await delivered(client, 599)
        stopped = await client.wait()
        assert isinstance(stopped, MethodReceived)
        assert stopped.method == BasicCancelOk(consumer_tag="t")


async def test_a_client_that_does_not_read_gets_no_more_until_it_does() -> None:
    async with memory_amqp() as amqp:
        writer, reader = await amqp.client(1), await amqp.client(1)
        await writer.ask(1, QueueDeclare(queue="q"))
        reader.session.pause_writing()
        reader.send(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        publish(writer, *(b"%d" % number for number in range(50)))
        assert await waiting(writer) == 50
        reader.session.resume_writing()
        assert isinstance(await reader.wait(), MethodReceived)
        assert len(await delivered(reader, 50)) == 50


async def test_a_publisher_that_reads_no_confirms_is_not_listened_to() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        client.session.pause_writing()
        body = bytes(64 * 1024)
        for _publish in range(70):
            method = BasicPublish(routing_key="nowhere", mandatory=True)
            client.publish(1, method, body)
        assert client.is_reading_paused
        client.session.resume_writing()
        assert not client.is_reading_paused


async def test_a_policy_counts_for_what_waits_already() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        publish(client, b"a", b"b", b"c")
        assert await waiting(client) == 3
        policy = Policy(vhost="/", name="short", pattern="^q$", definition={"max-length": 1})
        await amqp.frontend.queues.ask(Store(fact=policy))
        assert await waiting(client) == 1


async def test_more_than_a_window_is_delivered() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        bodies = [b"%d" % number for number in range(3_000)]
        publish(client, *bodies)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        found = await delivered(client, 3_000)
        assert [one[0] for one in found] == bodies


async def test_a_consumer_hears_that_its_queue_is_gone() -> None:
    async with memory_amqp() as amqp:
        client, other = await amqp.client(1), await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await other.ask(1, QueueDelete(queue="q"))
        event = await client.wait()
        assert isinstance(event, MethodReceived)
        assert event.method == BasicCancel(consumer_tag="t", nowait=True)
        assert "q" not in amqp.broker.engine.metadata.image.topics


async def test_a_topic_that_kafka_deletes_takes_its_queue_along() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        await amqp.broker.engine.topic_admin.delete_topics([("q", None)])
        await asyncio.sleep(0.1)
        assert "q" not in amqp.frontend.queues.broker.rooms("/").queues


async def test_names_that_kafka_holds_for_the_same_are_two_queues() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        for name in ("a.b", "a_b"):
            await client.ask(1, QueueDeclare(queue=name))
        publish(client, b"1", queue="a.b")
        publish(client, b"2", b"3", queue="a_b")
        assert [await waiting(client, name) for name in ("a.b", "a_b")] == [1, 2]


async def test_a_transaction_happens_when_it_is_committed() -> None:
    async with memory_amqp() as amqp:
        client, other = await amqp.client(1), await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        await client.ask(1, TxSelect())
        publish(client, b"no")
        await client.ask(1, TxRollback())
        publish(client, b"yes")
        assert await waiting(other) == 0
        committed = await client.ask(1, TxCommit())
        assert isinstance(committed, MethodReceived)
        assert committed.method == TxCommitOk()
        assert await waiting(other) == 1
        client.send(1, BasicGet(queue="q"))
        ((body, _again, tag),) = await delivered(client, 1)
        assert body == b"yes"
        client.send(1, BasicAck(delivery_tag=tag))
        await client.ask(1, TxRollback())
        client.close()
        assert await waiting(other) == 1
        other.send(1, BasicGet(queue="q", no_ack=True))
        assert (await delivered(other, 1))[0][:2] == (b"yes", True)
        event = await other.ask(1, BasicGet(queue="q"))
        assert isinstance(event, MethodReceived)
        assert event.method == BasicGetEmpty()


async def test_the_age_of_what_is_committed_begins_at_the_commit() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", arguments={"x-message-ttl": 1_000}))
        await client.ask(1, TxSelect())
        publish(client, b"x", b"y")
        await asyncio.sleep(60)
        await client.ask(1, TxCommit())
        await asyncio.sleep(0.9)
        assert await waiting(client) == 2
        await asyncio.sleep(0.2)
        assert await waiting(client) == 0


async def test_what_is_acknowledged_and_not_committed_counts_for_the_channels_limit() -> None:
    async with memory_amqp() as amqp:
        client, other = await amqp.client(1), await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        await client.ask(1, TxSelect())
        await client.ask(1, BasicQos(prefetch_count=2, is_global=True))
        await client.ask(1, BasicConsume(queue="q"))
        publish(other, b"a", b"b")
        assert len(await delivered(client, 2)) == 2
        client.send(1, BasicAck(delivery_tag=2, multiple=True))
        publish(other, b"c")
        assert await client.wait() is None
        committed = await client.ask(1, TxCommit())
        assert isinstance(committed, MethodReceived)
        assert [body for body, _again, _tag in await delivered(client, 1)] == [b"c"]


async def test_queues_share_the_limit_of_their_channel() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, BasicQos(prefetch_count=6, is_global=True))
        for name in ("a", "b", "c"):
            await client.ask(1, QueueDeclare(queue=name))
            publish(client, *[name.encode()] * 100, queue=name)
        for name in ("a", "b", "c"):
            client.send(1, BasicConsume(queue=name, consumer_tag=name, nowait=True))
        seen = []
        for _message in range(66):
            ((body, _again, tag),) = await delivered(client, 1)
            seen.append(body)
            client.send(1, BasicAck(delivery_tag=tag))
        # Whichever was first had the limit to itself.
        assert len(set(seen[:6])) == 1
        assert [seen[6:].count(name) for name in (b"a", b"b", b"c")] == [20, 20, 20]


async def test_one_who_does_not_acknowledge_has_a_turn_at_the_limit_of_its_channel() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, BasicQos(prefetch_count=1, is_global=True))
        for name, no_ack in (("a", False), ("free", True)):
            await client.ask(1, QueueDeclare(queue=name))
            client.send(1, BasicConsume(queue=name, consumer_tag=name, no_ack=no_ack, nowait=True))
        publish(client, b"a", b"a", b"a", queue="a")
        ((_body, _again, tag),) = await delivered(client, 1)
        publish(client, b"free", b"free", queue="free")
        assert await client.wait() is None
        client.send(1, BasicAck(delivery_tag=tag))
        bodies = [body for body, _again, _tag in await delivered(client, 3)]
        assert sorted(bodies) == [b"a", b"free", b"free"]
        assert await client.wait() is None


async def test_the_room_of_a_queue_that_goes_is_for_the_others() -> None:
    async with memory_amqp() as amqp:
        client, other = await amqp.client(1), await amqp.client(1)
        await client.ask(1, BasicQos(prefetch_count=3, is_global=True))
        for name in ("a", "b"):
            await client.ask(1, QueueDeclare(queue=name))
            publish(client, *[name.encode()] * 9, queue=name)
        client.session.pause_writing()
        for name in ("a", "b"):
            client.send(1, BasicConsume(queue=name, consumer_tag=name, nowait=True))
        client.session.resume_writing()
        # What was handed out has not gone to the socket when its queue is deleted.
        client.session.pause_writing()
        assert isinstance(await other.ask(1, QueueDelete(queue="a")), MethodReceived)
        client.session.resume_writing()
        seen = []
        while (event := await client.wait()) is not None:
            if isinstance(event, ContentReceived):
                method = event.content.method
                assert isinstance(method, BasicDeliver)
                seen.append(event.content.body)
                client.send(1, BasicAck(delivery_tag=method.delivery_tag))
        assert seen.count(b"b") == 9


async def test_a_queue_that_goes_during_the_commit_does_not_fail_it() -> None:
    async with memory_amqp() as amqp:
        client, other = await amqp.client(1), await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        await client.ask(1, TxSelect())
        publish(client, b"x")
        # Both are under way at once: the host asks what it has before it lets it go.
        other.send(1, QueueDelete(queue="q", if_empty=True))
        client.send(1, TxCommit())
        assert isinstance(await other.wait(), MethodReceived)
        committed = await client.wait()
        assert isinstance(committed, MethodReceived), committed
        assert committed.method == TxCommitOk()


async def test_nobody_is_let_into_a_queue_that_goes_with_its_last_consumer() -> None:
    async with memory_amqp() as amqp:
        first, late = await amqp.client(1), await amqp.client(1, 2)
        await first.ask(1, QueueDeclare(queue="q", auto_delete=True))
        await first.ask(1, BasicConsume(queue="q", consumer_tag="first"))
        first.send(1, BasicCancel(consumer_tag="first"))
        late.send(1, BasicConsume(queue="q", consumer_tag="late"))
        told = await late.wait()
        assert isinstance(told, ChannelClosed), told
        assert (told.code, told.text) == (404, "NOT_FOUND - no queue 'q' in vhost '/'")


async def test_a_queue_that_is_about_to_go_is_declared_anew() -> None:
    async with memory_amqp() as amqp:
        first, late = await amqp.client(1), await amqp.client(1)
        await first.ask(1, QueueDeclare(queue="q", auto_delete=True))
        publish(first, b"old")
        assert await waiting(first) == 1
        await first.ask(1, BasicConsume(queue="q", consumer_tag="first"))
        first.send(1, BasicCancel(consumer_tag="first"))
        event = await late.ask(1, QueueDeclare(queue="q", auto_delete=True))
        assert event == MethodReceived(
            channel=1, method=QueueDeclareOk(queue="q", message_count=0, consumer_count=0)
        )
        event = await late.ask(1, BasicConsume(queue="q", consumer_tag="late"))
        assert isinstance(event, MethodReceived)
        assert await waiting(late) == 0


async def test_a_mistake_of_the_brokers_own_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)

        async def mistaken(_command: object) -> None:
            raise KeyError("planted")

        monkeypatch.setattr(amqp.frontend.queues, "ask", mistaken)
        event = await client.ask(1, QueueDeclare(queue="q"))
        monkeypatch.undo()
        assert isinstance(event, ConnectionClosed), event
        assert event.code == ReplyCode.INTERNAL_ERROR
        assert "planted" not in event.text
