"""A queue and its log: transactions, beginnings that others cut, snapshots, and what waits for a flush."""

import asyncio

import pytest

from millpond.base.fields import Table
from millpond.engine.node.node import Node
from millpond.engine.partitions.partitions import Partitions
from millpond.engine.queues.hosted import queue_log, turn
from millpond.queue.sizes import ReadyBytes
from millpond.record.builder import build_batch
from millpond.record.control import EndTxnMarker
from millpond.wire.amqp.events import ContentReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    ExchangeDeclare,
    QueueDeclare,
    QueuePurge,
)
from millpond.wire.amqp.properties import Properties
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run
from tests.unit.frontend.amqp.test_stories import confirmed, delivered, publish, waiting

PRODUCER = 4711


class Transaction:
    """A Kafka producer's, in the topic ``q``."""

    def __init__(self, engine: Node, producer_id: int = PRODUCER) -> None:
        self._partition = engine.partitions.partition("q", 0)
        self._engine = engine
        self._id = producer_id
        self._sequence = 0

    def write(self, *bodies: bytes) -> None:
        batch = build_batch(
            [(1, None, body, ()) for body in bodies],
            producer_id=self._id,
            producer_epoch=0,
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += len(bodies)
        self._partition.append(batch, now_ms=self._engine.runtime.clock.now_ms())

    def end(self, *, committed: bool) -> None:
        marker = EndTxnMarker(committed=committed, coordinator_epoch=0)
        batch = marker.build(timestamp=1, producer_id=self._id, producer_epoch=0)
        self._partition.append(batch, now_ms=self._engine.runtime.clock.now_ms())


async def rest(client: AmqpMemoryClient) -> list[bytes]:
    """Bodies of all deliveries that come without being asked for."""
    await asyncio.sleep(0.2)
    found = [event for event in client.heard if isinstance(event, ContentReceived)]
    client.heard.clear()
    return [event.content.body for event in found]


async def test_only_what_a_transaction_committed_is_in_the_queue() -> None:
    async with memory_amqp() as amqp:
        engine = amqp.broker.engine
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        aborted, kept = Transaction(engine), Transaction(engine, PRODUCER + 1)
        aborted.write(b"no", b"never")
        kept.write(b"yes")
        aborted.write(b"not this either")
        aborted.end(committed=False)
        kept.end(committed=True)
        Transaction(engine, PRODUCER + 2).write(b"undecided")
        assert await waiting(client) == 1
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert await rest(client) == [b"yes"]


async def test_an_open_transaction_holds_back_what_is_behind_it() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        await client.ask(1, ConfirmSelect())
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        transaction = Transaction(amqp.broker.engine)
        transaction.write(b"first")
        publish(client, b"second")
        await confirmed(client, 1)
        assert await waiting(client) == 0
        assert await rest(client) == []
        transaction.end(committed=True)
        assert await rest(client) == [b"first", b"second"]


def test_what_was_settled_while_a_transaction_was_open_stays_settled() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            publish(client, b"a", b"b")
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            assert len(await delivered(client, 2)) == 2
            Transaction(amqp.broker.engine).write(b"c")
            client.send(1, BasicAck(delivery_tag=1))
            assert await rest(client) == []

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            assert [one[:2] for one in await delivered(client, 1)] == [(b"b", True)]
            assert await rest(client) == []

    run(before())
    run(after())


async def test_a_queue_goes_on_behind_what_others_cut() -> None:
    async with memory_amqp() as amqp:
        engine = amqp.broker.engine
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", arguments={"x-max-length-bytes": 1000}))
        await client.ask(1, BasicQos(prefetch_count=2))
        publish(client, *(b"%d" % number for number in range(10)))
        assert await waiting(client) == 10
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert [one[0] for one in await delivered(client, 2)] == [b"0", b"1"]
        sixth = engine.partitions.partition("q", 0).high_watermark - 4 - 1
        engine.partitions.delete_records("q", 0, sixth)
        client.send(1, BasicAck(delivery_tag=2, multiple=True))
        assert await rest(client) == [b"6", b"7"]
        hosted = amqp.frontend.queues.hosted("/", "q")
        assert (hosted.lost, hosted.state.ready, hosted.state.ready_bytes) == (4, 2, 2)


async def test_a_queue_survives_the_loss_of_everything() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        publish(client, b"a", b"b")
        assert await waiting(client) == 2
        amqp.broker.engine.partitions.delete_records("q", 0, -1)
        assert await waiting(client) == 0
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        publish(client, b"c")
        assert await rest(client) == [b"c"]


async def test_deliveries_that_wait_for_the_socket_may_be_lost() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        queue = amqp.frontend.queues.hosted("/", "q")
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        publish(client, b"a", b"b")
        # The deliveries are posted in this turn and written in the next.
        while not queue.state.held:
            await asyncio.sleep(0)
        client.session.pause_writing()
        queue.store._recent.clear()
        await asyncio.sleep(0.1)
        amqp.broker.engine.partitions.delete_records("q", 0, -1)
        client.session.resume_writing()
        publish(client, b"c")
        assert (await rest(client))[-1:] == [b"c"]
        assert not client.is_closed


def test_a_load_begins_at_the_last_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_log, "_SNAPSHOT_BATCHES", 10)
    monkeypatch.setattr(queue_log, "_LOOK_BACK_OFFSETS", 4)
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            await client.ask(1, BasicQos(prefetch_count=1))
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            for number in range(60):
                publish(client, b"%d" % number)
                await rest(client)
                if number in {1, 2, 3}:
                    client.send(1, BasicAck(delivery_tag=number))
            await rest(client)

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            partition = amqp.broker.engine.partitions.partition("q", 0)
            begins: list[int] = []
            read = Partitions.read_now

            def noting(
                partitions: Partitions, partition: object, offset: int, **how: object
            ) -> object:
                begins.append(offset)
                return read(partitions, partition, offset, **how)  # type: ignore[arg-type]

            monkeypatch.setattr(Partitions, "read_now", noting)
            queues = amqp.frontend.queues
            queues._handles.clear()
            again = queues.hosted("/", "q")
            assert again.state.ready == 57
            assert min(begins) > partition.log.start_offset + 30
            client = await amqp.client(1)
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            found = await delivered(client, 57)
            assert [one[0] for one in found] == [b"%d" % number for number in range(3, 60)]
            assert [one[1] for one in found] == [True] + [False] * 56

    run(before())
    run(after())


def test_a_load_adds_up_sizes_from_the_last_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "_CUT_OFFSETS", 10)
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            arguments: Table = {"x-max-length-bytes": 10_000}
            await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments))
            await client.ask(1, BasicQos(prefetch_count=5))
            publish(client, *(b"x" * number for number in range(100)))
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            for tag in range(5, 45, 5):
                await rest(client)
                client.send(1, BasicAck(delivery_tag=tag, multiple=True))
            await rest(client)
            publish(client, b"y" * 7)
            await rest(client)
            assert amqp.broker.engine.partitions.partition("q", 0).log.start_offset > 0

    async def after() -> None:
        monkeypatch.setattr(ReadyBytes, "recount", None)
        async with memory_amqp(storage) as amqp:
            line = amqp.frontend.queues.hosted("/", "q").state
            assert (line.ready, line.ready_bytes) == (61, sum(range(40, 100)) + 7)

    run(before())
    run(after())


async def test_what_is_settled_as_it_is_handed_out_may_be_followed_by_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue_log, "_SNAPSHOT_BATCHES", 1)
    monkeypatch.setattr(queue_log, "_SNAPSHOT_SHARE", 0)

    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        arguments: Table = {"x-delayed-type": "fanout"}
        exchange = ExchangeDeclare(exchange="x", type="x-delayed-message", arguments=arguments)
        await client.ask(1, exchange)
        properties = Properties(headers={"x-delay": 1})
        client.publish(1, BasicPublish(exchange="x"), b"nowhere to go", properties)
        await asyncio.sleep(0.1)
        hidden = amqp.frontend.queues.hosted("/", "amq.delayed-x")
        assert (hidden.state.delayed, hidden.state.held) == (0, 0)


def test_what_was_acknowledged_just_before_a_stop_stays_so() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            publish(client, b"a", b"b")
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            assert len(await delivered(client, 2)) == 2
            client.send(1, BasicAck(delivery_tag=1))

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            assert await waiting(await amqp.client(1)) == 1

    run(before())
    run(after())


async def test_a_transient_message_waits_for_no_flush() -> None:
    storage = FaultyStorage()

    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        await client.ask(1, ConfirmSelect())
        flushed = amqp.broker.engine.partitions.partition("q", 0).log.recovery_point
        client.publish(1, BasicPublish(routing_key="q"), b"a", Properties(delivery_mode=1))
        await confirmed(client, 1)
        log = amqp.broker.engine.partitions.partition("q", 0).log
        assert log.recovery_point == flushed
        publish(client, b"b")
        await confirmed(client, 2)
        assert log.recovery_point == log.end_offset


@pytest.mark.parametrize("durable", [True, False])
async def test_transient_messages_are_not_flushed_for_their_age(durable: bool) -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=durable))
        await client.ask(1, BasicQos(prefetch_count=10))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        log = amqp.broker.engine.partitions.partition("q", 0).log
        await asyncio.sleep(10)
        flushed = log.recovery_point
        for _second in range(20):
            client.publish(1, BasicPublish(routing_key="q"), b"a", Properties(delivery_mode=1))
            await asyncio.sleep(1)
            assert await rest(client) == [b"a"]
            client.send(1, BasicAck(delivery_tag=0, multiple=True))
        assert log.end_offset > flushed + 20
        assert log.recovery_point == flushed


async def test_what_became_of_persistent_messages_is_flushed_for_its_age() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        publish(client, b"lasts")
        client.publish(1, BasicPublish(routing_key="q"), b"a", Properties(delivery_mode=1))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert await rest(client) == [b"lasts", b"a"]
        client.send(1, BasicAck(delivery_tag=0, multiple=True))
        log = amqp.broker.engine.partitions.partition("q", 0).log
        await asyncio.sleep(5)
        assert log.recovery_point == log.end_offset


async def test_a_quorum_queue_flushes_every_message() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(
            1, QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "quorum"})
        )
        await client.ask(1, ConfirmSelect())
        client.publish(1, BasicPublish(routing_key="q"), b"a", Properties(delivery_mode=1))
        await confirmed(client, 1)
        log = amqp.broker.engine.partitions.partition("q", 0).log
        assert log.recovery_point == log.end_offset


async def test_a_flush_that_fails_is_a_nack() -> None:
    storage = FaultyStorage()

    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        await client.ask(1, ConfirmSelect())
        storage.fail_syncs = True
        publish(client, b"a")
        event = await client.wait()
        assert "BasicNack" in repr(event)
        storage.fail_syncs = False


async def test_purging_leaves_what_an_open_transaction_holds() -> None:
    async with memory_amqp() as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q"))
        publish(client, b"a")
        assert await waiting(client) == 1
        transaction = Transaction(amqp.broker.engine)
        transaction.write(b"later")
        await client.ask(1, QueuePurge(queue="q"))
        transaction.end(committed=True)
        assert await waiting(client) == 1
