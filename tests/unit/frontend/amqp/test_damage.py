"""A bit of a queue's log has changed on the disk: what it was part of is lost and counted, nothing else."""

import pytest
from crc32c import crc32c

from millpond.base.fields import Table
from millpond.engine.api import Engine
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.record.batch import iter_batches
from millpond.record.builder import build_batch
from millpond.wire.amqp.events import ContentReceived, MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    QueueDeclare,
)
from millpond.wire.amqp.properties import Properties
from tests.support.amqp.amqp_cluster import amqp_cluster
from tests.support.amqp.memory_amqp import AmqpMemoryClient, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage
from tests.support.time.virtual_loop import run
from tests.unit.frontend.amqp.test_queue_logs import rest
from tests.unit.frontend.amqp.test_stories import PERSISTENT, confirmed, publish, waiting

BODIES = [b"%02d" % number * 20 for number in range(8)]
DAMAGED = 3
LEFT = [body for number, body in enumerate(BODIES) if number != DAMAGED]


def close_segment(engine: Engine, topic: str = "q") -> None:
    partition = engine.partitions.partition(topic, 0)
    partition.log.roll(engine.runtime.clock.now_ms())


def damage(storage: FaultyStorage, engine: Engine, body: bytes, topic: str = "q") -> None:
    """Flip a bit of a body that lies in a closed segment."""
    log = engine.partitions.partition(topic, 0).log
    for segment in log.segments[:-1]:
        data = storage.read_all(segment.log_path)
        assert data is not None
        for position, header in iter_batches(data):
            found = data.find(body, position, position + header.size)
            if found >= 0:
                storage.flip(segment.log_path, found)
                return
    raise AssertionError("there is no such body")


async def filled(client: AmqpMemoryClient, arguments: Table | None = None) -> None:
    await client.ask(1, QueueDeclare(queue="q", durable=True, arguments=arguments or {}))
    await client.ask(1, ConfirmSelect())
    for number, body in enumerate(BODIES, start=1):
        publish(client, body)
        await confirmed(client, number)


async def acknowledged(client: AmqpMemoryClient, *, no_ack: bool = False) -> list[bytes]:
    """Bodies of what comes, which is settled unless it is already."""
    got = await rest(client)
    if got and not no_ack:
        client.send(1, BasicAck(delivery_tag=0, multiple=True))
    return got


def hosted(frontend: AmqpFrontend) -> LocalQueue:
    return frontend.queues.hosted("/", "q")


def spoil(storage: FaultyStorage, frontend: AmqpFrontend, number: int = DAMAGED) -> None:
    """The segment is closed, a body in it changes, and memory has none of it."""
    close_segment(frontend.engine)
    damage(storage, frontend.engine, BODIES[number])
    hosted(frontend).forget_recent()


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_a_consumer_gets_all_the_others(kind: str, no_ack: bool) -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client, {"x-queue-type": kind})
        spoil(storage, amqp.frontend)
        # The place of the lost one is not held for ever.
        await client.ask(1, BasicQos(prefetch_count=2))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=no_ack))
        got: list[bytes] = []
        for _step in range(len(BODIES)):
            got += await acknowledged(client, no_ack=no_ack)
        assert got == LEFT
        assert await waiting(client) == 0
        assert hosted(amqp.frontend).lost == 1
        publish(client, b"later")
        event = await client.wait()
        while not isinstance(event, ContentReceived):
            event = await client.wait()
        assert event.content.body == b"later"


async def test_who_asks_gets_the_next_one_that_is_whole() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client)
        spoil(storage, amqp.frontend)
        for body in LEFT:
            event = await client.ask(1, BasicGet(queue="q"))
            assert isinstance(event, ContentReceived), event
            assert isinstance(event.content.method, BasicGetOk)
            assert event.content.body == body
        assert hosted(amqp.frontend).lost == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 60_000},
        {"x-max-length-bytes": 1_000_000},
        {"x-message-ttl": 60_000, "x-max-length-bytes": 1_000_000, "x-max-length": 100},
    ],
    ids=["age", "bytes", "both"],
)
async def test_a_queue_that_looks_at_its_messages_goes_on(arguments: Table) -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client, arguments)
        # It is the one at the head that is looked at.
        spoil(storage, amqp.frontend, 0)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert await rest(client) == BODIES[1:]
        assert hosted(amqp.frontend).lost == 1
        client.send(1, BasicNack(delivery_tag=0, multiple=True, requeue=True))
        assert sorted(await rest(client)) == BODIES[1:]
        client.send(1, BasicAck(delivery_tag=0, multiple=True))
        assert await waiting(client) == 0
        assert hosted(amqp.frontend).state.ready_bytes == 0


async def test_what_is_too_old_goes_although_one_before_it_is_damaged() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="dead"))
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await filled(client, {"x-message-ttl": 1_000, **letters})
        spoil(storage, amqp.frontend, 0)
        await rest(client)
        for _second in range(10):
            await rest(client)
        assert await waiting(client) == 0
        assert await waiting(client, "dead") == len(BODIES) - 1
        assert hosted(amqp.frontend).lost == 1


async def test_a_stream_goes_on_behind_the_damage() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client, {"x-queue-type": "stream"})
        spoil(storage, amqp.frontend)
        await client.ask(1, BasicQos(prefetch_count=2))
        start: Table = {"x-stream-offset": "first"}
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=start))
        got: list[bytes] = []
        for _step in range(len(BODIES)):
            got += await acknowledged(client)
        assert got == LEFT
        assert hosted(amqp.frontend).lost == 1


@pytest.mark.parametrize(
    "arguments", [{}, {"x-max-length-bytes": 1_000_000}], ids=["plain", "bytes"]
)
def test_a_queue_is_hosted_again_without_what_is_damaged(arguments: Table) -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await filled(client, arguments)
            close_segment(amqp.broker.engine)
            damage(storage, amqp.broker.engine, BODIES[DAMAGED])

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            assert await waiting(client) == len(LEFT)
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            assert await rest(client) == LEFT
            client.send(1, BasicAck(delivery_tag=0, multiple=True))
            publish(client, b"later")
            assert await rest(client) == [b"later"]

    run(before())
    run(after())


def test_a_fact_before_the_damage_is_no_message() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, QueueDeclare(queue="q", durable=True))
            await client.ask(1, ConfirmSelect())
            for number, body in enumerate(BODIES, start=1):
                if number == DAMAGED + 1:
                    # That it is over is noted right before what will be damaged.
                    event = await client.ask(1, BasicGet(queue="q", no_ack=True))
                    assert isinstance(event, ContentReceived), event
                publish(client, body)
                await confirmed(client, number)
            close_segment(amqp.broker.engine)
            damage(storage, amqp.broker.engine, BODIES[DAMAGED])

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            assert await waiting(client) == len(LEFT) - 1
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            assert await rest(client) == LEFT[1:]

    run(before())
    run(after())


def test_what_a_damaged_fact_said_is_not_called_new() -> None:
    storage = FaultyStorage()

    async def before() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await filled(client)
            await client.ask(1, BasicQos(prefetch_count=3))
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            assert await rest(client) == BODIES[:3]
            engine = amqp.broker.engine
            close_segment(engine)
            (segment, *_others) = engine.partitions.partition("q", 0).log.segments
            data = storage.read_all(segment.log_path)
            assert data is not None
            facts = [at for at, header in iter_batches(data) if header.is_control]
            for at in facts:
                storage.flip(segment.log_path, at + 70)
            amqp.broker.engine.runtime.running = False

    async def after() -> None:
        async with memory_amqp(storage) as amqp:
            client = await amqp.client(1)
            await client.ask(1, BasicQos(prefetch_count=3))
            await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
            for _delivery in range(3):
                event = await client.wait()
                assert isinstance(event, ContentReceived), event
                assert getattr(event.content.method, "redelivered", False)

    run(before())
    run(after())


async def test_what_a_producer_wrote_that_cannot_be_decoded_is_passed_over() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        engine = amqp.broker.engine
        partition = engine.partitions.partition("q", 0)
        partition.append(undecodable(), now_ms=engine.runtime.clock.now_ms())
        publish(client, b"behind")
        assert await rest(client) == [b"behind"]
        assert await waiting(client) == 0
        assert hosted(amqp.frontend).lost == 1


def undecodable() -> bytearray:
    """A batch of one record that says it is compressed, and is not; its checksum is right."""
    batch = build_batch([(1, None, b"x" * 40, ())])
    batch[22] |= 1  # gzip
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


async def test_clients_of_other_nodes_get_all_the_others() -> None:
    async with amqp_cluster() as cluster:
        owner = await cluster.client(1, 1)
        # There is no other copy of it.
        await owner.ask(1, QueueDeclare(queue="q"))
        host = cluster.host_of("q")
        publisher = await cluster.client(host, 1)
        await publisher.ask(1, ConfirmSelect())
        for number, body in enumerate(BODIES, start=1):
            publisher.publish(1, BasicPublish(routing_key="q"), body, PERSISTENT)
            await confirmed(publisher, number)
        spoil(cluster.nodes.storages[host], cluster.frontends[host])
        other = next(node for node in cluster.frontends if node != host)
        guest = await cluster.client(other, 1)
        await guest.ask(1, BasicQos(prefetch_count=2))
        await guest.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        got: list[bytes] = []
        for _step in range(len(BODIES)):
            got += await acknowledged(guest)
        assert got == LEFT
        second = await cluster.client(other, 1)
        event = await second.ask(1, BasicGet(queue="q"))
        assert isinstance(event, MethodReceived), event
        assert hosted(cluster.frontends[host]).lost == 1


async def test_an_expiration_of_its_own_is_no_obstacle() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="q", durable=True))
        await client.ask(1, ConfirmSelect())
        limited = Properties(delivery_mode=2, expiration="60000")
        for number, body in enumerate(BODIES, start=1):
            client.publish(1, BasicPublish(routing_key="q"), body, limited)
            await confirmed(client, number)
        spoil(storage, amqp.frontend)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert await rest(client) == LEFT
        assert hosted(amqp.frontend).lost == 1
