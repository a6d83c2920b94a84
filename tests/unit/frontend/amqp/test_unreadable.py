"""A queue's log cannot be read for a while: who needs it waits, everybody else goes on, nothing is lost."""

import asyncio

import pytest

from millpond.base.fields import Table
from millpond.engine.queues.hosted import turn
from millpond.frontend.amqp import channel as channels
from millpond.queue import sizes
from millpond.wire.amqp.events import ContentReceived, Event, MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicPublish,
    BasicQos,
    BasicReject,
    ConfirmSelect,
    QueueDeclare,
)
from tests.support.amqp.amqp_cluster import AmqpCluster, amqp_cluster
from tests.support.amqp.memory_amqp import AmqpMemoryBroker, memory_amqp
from tests.support.storage.faulty_storage import FaultyStorage
from tests.unit.frontend.amqp.test_damage import (
    BODIES,
    DAMAGED,
    LEFT,
    acknowledged,
    filled,
    hosted,
    spoil,
)
from tests.unit.frontend.amqp.test_queue_logs import rest
from tests.unit.frontend.amqp.test_stories import PERSISTENT, confirmed, delivered, publish, waiting

FILES = "/q-0/"
LONG_S = 30.0


def lose_sight(storage: FaultyStorage, amqp: AmqpMemoryBroker) -> None:
    """The disk does not give what it has, and memory has none of it."""
    hosted(amqp.frontend).forget_recent()
    storage.fail_reads = FILES


async def come_to_see(storage: FaultyStorage) -> None:
    storage.fail_reads = ""
    await asyncio.sleep(5)


def bodies(heard: list[Event]) -> list[bytes]:
    return [event.content.body for event in heard if isinstance(event, ContentReceived)]


def said_of_reading(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        "begins" if "cannot be read now" in one.message else "ends"
        for one in caplog.records
        if "what is next" in one.message
    ]


@pytest.mark.parametrize("no_ack", [False, True])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_a_consumer_gets_everything_when_it_can_be_read(
    kind: str, no_ack: bool, caplog: pytest.LogCaptureFixture
) -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client, {"x-queue-type": kind})
        lose_sight(storage, amqp)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=no_ack))
        await asyncio.sleep(LONG_S)
        # Memory has this one, but it is not its turn.
        publish(client, b"later")
        await asyncio.sleep(LONG_S)
        assert bodies(list(client.heard)) == []
        assert not client.is_closed

        await come_to_see(storage)

        client.heard.remove(next(one for one in client.heard if isinstance(one, MethodReceived)))
        everything = [*BODIES, b"later"]
        assert await delivered(client, len(everything)) == [
            (body, False, tag) for tag, body in enumerate(everything, start=1)
        ]
        client.send(1, BasicAck(delivery_tag=0, multiple=True))
        assert await waiting(client) == 0
        assert hosted(amqp.frontend).lost == 0
        assert said_of_reading(caplog) == ["begins", "ends"]


async def test_others_on_the_channel_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # What waits would fill the channel's window if it counted.
    monkeypatch.setattr(channels, "_WINDOW", len(BODIES))

    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client)
        lose_sight(storage, amqp)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="blind", no_ack=True))
        await asyncio.sleep(LONG_S)
        await client.ask(1, QueueDeclare(queue="other"))
        await client.ask(1, BasicConsume(queue="other", consumer_tag="seeing", no_ack=True))
        for number in range(2 * len(BODIES)):
            publish(client, b"other %d" % number, queue="other")
        assert await rest(client) == [b"other %d" % number for number in range(2 * len(BODIES))]

        await come_to_see(storage)

        assert await rest(client) == BODIES
        publish(client, b"more")
        assert await rest(client) == [b"more"]


@pytest.mark.parametrize("no_ack", [False, True])
async def test_who_asks_waits_a_moment(no_ack: bool) -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client)
        lose_sight(storage, amqp)
        client.send(1, BasicGet(queue="q", no_ack=no_ack))
        await asyncio.sleep(1)
        assert not client.heard
        storage.fail_reads = ""
        assert [body for body, _again, _tag in await delivered(client, 1)] == BODIES[:1]


@pytest.mark.parametrize("no_ack", [False, True])
async def test_who_asks_in_vain_has_taken_nothing(no_ack: bool) -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client)
        lose_sight(storage, amqp)
        await client.ask(1, BasicGet(queue="q", no_ack=no_ack))
        assert client.is_closed
        storage.fail_reads = ""
        another = await amqp.client(1)
        await another.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert [(body, again) for body, again, _tag in await delivered(another, 8)] == [
            (body, False) for body in BODIES
        ]


async def test_who_leaves_gets_what_was_its_already() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client)
        lose_sight(storage, amqp)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        await asyncio.sleep(1)
        await client.ask(1, BasicCancel(consumer_tag="t"))
        await come_to_see(storage)
        assert await rest(client) == BODIES


async def test_a_letter_that_cannot_be_read_is_sent_when_it_can_be() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="dead"))
        letters: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await filled(client, letters)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert await rest(client) == BODIES
        lose_sight(storage, amqp)
        for tag in range(1, len(BODIES) + 1):
            client.send(1, BasicReject(delivery_tag=tag, requeue=False))
        await asyncio.sleep(LONG_S)
        assert await waiting(client, "dead") == 0
        await come_to_see(storage)
        assert await waiting(client, "dead") == len(BODIES)
        assert hosted(amqp.frontend).lost == 0


async def test_nothing_is_dropped_for_a_size_that_is_not_known() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        size = sum(map(len, BODIES))
        await filled(client, {"x-max-length-bytes": size})
        lose_sight(storage, amqp)
        # These leave, and the queue cannot tell how much smaller it is.
        await client.ask(1, BasicQos(prefetch_count=4))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        publish(client, *BODIES[:4])
        await confirmed(client, 12)
        assert await waiting(client) == 8
        await come_to_see(storage)
        assert await rest(client) == BODIES[:4]
        assert hosted(amqp.frontend).state.ready_bytes == size
        assert await waiting(client) == 8


async def test_ages_are_looked_at_when_they_can_be() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client, {"x-message-ttl": 1_000})
        lose_sight(storage, amqp)
        await asyncio.sleep(LONG_S)
        assert await waiting(client) == len(BODIES)
        await come_to_see(storage)
        assert await waiting(client) == 0
        assert hosted(amqp.frontend).lost == 0


@pytest.mark.parametrize("start", ["first", "last"])
async def test_a_reader_of_a_stream_waits(start: str) -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client, {"x-queue-type": "stream"})
        lose_sight(storage, amqp)
        await client.ask(1, BasicQos(prefetch_count=100))
        arguments: Table = {"x-stream-offset": start}
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=arguments))
        await asyncio.sleep(LONG_S)
        assert not client.heard
        await come_to_see(storage)
        assert await rest(client) == (BODIES if start == "first" else BODIES[-1:])


# --- on a cluster --------------------------------------------------------------------------------------


async def filled_on(
    cluster: AmqpCluster, arguments: Table | None = None, *, durable: bool = True
) -> tuple[int, int]:
    """A queue with messages, copied if it is durable; its host, and another node."""
    owner = await cluster.client(1, 1)
    await owner.ask(1, QueueDeclare(queue="q", durable=durable, arguments=arguments or {}))
    host = cluster.host_of("q")
    publisher = await cluster.client(host, 1)
    await publisher.ask(1, ConfirmSelect())
    for number, body in enumerate(BODIES, start=1):
        publisher.publish(1, BasicPublish(routing_key="q"), body, PERSISTENT)
        await confirmed(publisher, number)
    return host, next(node for node in cluster.frontends if node != host)


@pytest.mark.parametrize("no_ack", [False, True])
async def test_a_client_of_another_node_gets_everything_when_it_can_be_read(
    no_ack: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with amqp_cluster() as cluster:
        host, other = await filled_on(cluster, durable=False)
        storage = cluster.nodes.storages[host]
        hosted(cluster.frontends[host]).forget_recent()
        storage.fail_reads = FILES
        guest = await cluster.client(other, 1)
        await guest.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=no_ack))
        await asyncio.sleep(LONG_S)
        publish(guest, b"later")
        await asyncio.sleep(LONG_S)
        assert bodies(list(guest.heard)) == []
        await come_to_see(storage)
        assert await rest(guest) == [*BODIES, b"later"]
        assert hosted(cluster.frontends[host]).lost == 0
        assert said_of_reading(caplog) == ["begins", "ends"]


async def test_what_waits_for_a_client_of_another_node_is_not_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "_CUT_OFFSETS", 2)

    async with amqp_cluster() as cluster:
        host, other = await filled_on(cluster, durable=False)
        storage = cluster.nodes.storages[host]
        hosted(cluster.frontends[host]).forget_recent()
        storage.fail_reads = FILES
        guest = await cluster.client(other, 1)
        await guest.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        await asyncio.sleep(1)
        # All of it is over, and more comes and goes.
        here = await cluster.client(host, 1)
        await here.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        for number in range(20):
            publish(here, b"passing %d" % number)
            assert await rest(here) == [b"passing %d" % number]
        await come_to_see(storage)
        assert await rest(guest) == BODIES
        assert hosted(cluster.frontends[host]).lost == 0


async def test_what_waits_for_a_consumer_that_left_is_not_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "_CUT_OFFSETS", 2)

    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client, another = await amqp.client(1), await amqp.client(1)
        await filled(client)
        lose_sight(storage, amqp)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        await asyncio.sleep(1)
        await client.ask(1, BasicCancel(consumer_tag="t"))
        await another.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=True))
        for number in range(20):
            publish(another, b"passing %d" % number)
            assert await rest(another) == [b"passing %d" % number]
        await come_to_see(storage)
        assert await rest(client) == BODIES
        assert hosted(amqp.frontend).lost == 0


async def test_a_queue_is_hosted_when_its_log_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    async with amqp_cluster() as cluster:
        host, other = await filled_on(cluster)
        client = await cluster.client(host, 1)
        await client.ask(1, BasicQos(prefetch_count=2))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        assert await rest(client) == BODIES[:2]
        storage = cluster.nodes.storages[other]
        storage.fail_reads = FILES
        await cluster.move("q", other)
        await asyncio.sleep(LONG_S)
        assert not client.heard
        await come_to_see(storage)
        # What was handed out before is not called new.
        assert [(body, again) for body, again, _tag in await delivered(client, 2)] == [
            (body, True) for body in BODIES[:2]
        ]
        assert hosted(cluster.frontends[other]).lost == 0
        said = [one.message for one in caplog.records if "be hosted" in one.message]
        assert ["cannot be hosted now" in line for line in said] == [True, False]


# --- damage that other replicas can repair -------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [{}, {"x-message-ttl": 600_000, "x-max-length-bytes": 10_000}]
)
@pytest.mark.parametrize("is_guest", [False, True], ids=["host", "guest"])
async def test_damage_costs_nothing_that_another_replica_has(
    is_guest: bool, arguments: Table
) -> None:
    async with amqp_cluster() as cluster:
        host, other = await filled_on(cluster, arguments)
        spoil(cluster.nodes.storages[host], cluster.frontends[host])
        client = await cluster.client(other if is_guest else host, 1)
        await client.ask(1, BasicQos(prefetch_count=2))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        got: list[bytes] = []
        for _step in range(10 * len(BODIES)):
            got += await acknowledged(client)
        assert got == BODIES
        assert await waiting(client) == 0
        assert hosted(cluster.frontends[host]).lost == 0


async def test_who_asks_gets_what_another_replica_has() -> None:
    async with amqp_cluster() as cluster:
        host, _other = await filled_on(cluster)
        spoil(cluster.nodes.storages[host], cluster.frontends[host])
        client = await cluster.client(host, 1)
        for body in BODIES:
            event = await client.ask(1, BasicGet(queue="q"))
            assert isinstance(event, ContentReceived), event
            assert event.content.body == body
        event = await client.ask(1, BasicGet(queue="q"))
        assert isinstance(event, MethodReceived), event
        assert isinstance(event.method, BasicGetEmpty)


async def test_a_stream_is_read_whole_where_another_replica_has_it() -> None:
    async with amqp_cluster() as cluster:
        host, _other = await filled_on(cluster, {"x-queue-type": "stream"})
        spoil(cluster.nodes.storages[host], cluster.frontends[host])
        client = await cluster.client(host, 1)
        await client.ask(1, BasicQos(prefetch_count=100))
        start: Table = {"x-stream-offset": "first"}
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t", arguments=start))
        await asyncio.sleep(5)
        assert await rest(client) == BODIES
        assert hosted(cluster.frontends[host]).lost == 0


async def test_the_next_host_knows_what_was_damaged_at_it() -> None:
    async with amqp_cluster() as cluster:
        _host, other = await filled_on(cluster)
        rot(cluster, other)
        await cluster.move("q", other)
        client = await cluster.client(other, 1)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await asyncio.sleep(5)
        assert await rest(client) == BODIES
        assert hosted(cluster.frontends[other]).lost == 0


async def test_what_no_replica_has_is_lost_in_the_end() -> None:
    async with amqp_cluster() as cluster:
        host, other = await filled_on(cluster)
        for node in cluster.nodes.engines:
            rot(cluster, node)
        hosted(cluster.frontends[host]).forget_recent()
        client = await cluster.client(other, 1)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await asyncio.sleep(LONG_S)
        assert await rest(client) == LEFT
        assert hosted(cluster.frontends[host]).lost == 1


def rot(cluster: AmqpCluster, node: int) -> None:
    """The segment is closed and a body in it changes, at one node."""
    engine, storage = cluster.nodes.engines[node], cluster.nodes.storages[node]
    log = engine.partitions.replica("q", 0).log
    log.roll(engine.runtime.clock.now_ms())
    path = log.segments[0].log_path
    data = storage.read_all(path)
    assert data is not None
    storage.flip(path, data.index(BODIES[DAMAGED]))


# --- queues and consumers that move and go meanwhile -------------------------------------------------


async def test_a_consumer_whose_queue_moves_while_it_waits_goes_on_at_the_new_host() -> None:
    async with amqp_cluster() as cluster:
        host, other = await filled_on(cluster)
        storage = cluster.nodes.storages[host]
        client = await cluster.client(host, 1)
        await client.ask(1, BasicQos(prefetch_count=2))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await asyncio.sleep(1)
        client.heard.clear()
        hosted(cluster.frontends[host]).forget_recent()
        storage.fail_reads = FILES
        client.send(1, BasicAck(delivery_tag=0, multiple=True))
        await asyncio.sleep(8)  # the next try is seconds away
        storage.fail_reads = ""
        await cluster.move("q", other)
        await asyncio.sleep(LONG_S)
        # The new host does not know later acknowledgements: no node could read them either.
        assert bodies(list(client.heard)) == BODIES[:2]


async def guest_that_cannot_be_served(
    cluster: AmqpCluster, *, no_ack: bool
) -> tuple[int, FaultyStorage]:
    """A consumer at another node came, got nothing, and went."""
    host, other = await filled_on(cluster, durable=False)
    storage = cluster.nodes.storages[host]
    hosted(cluster.frontends[host]).forget_recent()
    storage.fail_reads = FILES
    guest = await cluster.client(other, 1)
    await guest.ask(1, BasicQos(prefetch_count=4))
    await guest.ask(1, BasicConsume(queue="q", consumer_tag="t", no_ack=no_ack))
    await asyncio.sleep(LONG_S)
    await guest.ask(1, BasicCancel(consumer_tag="t"))
    storage.fail_reads = ""
    return host, storage


async def test_what_a_guest_did_not_get_goes_back_to_its_place_when_it_goes() -> None:
    async with amqp_cluster() as cluster:
        host, _storage = await guest_that_cannot_be_served(cluster, no_ack=False)
        here = await cluster.client(host, 1)
        await here.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await asyncio.sleep(LONG_S)
        assert bodies(list(here.heard)) == BODIES


async def test_what_a_guest_need_not_acknowledge_and_did_not_get_is_counted() -> None:
    async with amqp_cluster() as cluster:
        host, _storage = await guest_that_cannot_be_served(cluster, no_ack=True)
        await asyncio.sleep(LONG_S)
        client = await cluster.client(host, 1)
        lost = hosted(cluster.frontends[host]).lost
        assert lost + await waiting(client) == len(BODIES)


async def test_letters_that_waited_for_a_read_catch_up_though_more_come() -> None:
    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await client.ask(1, QueueDeclare(queue="dead"))
        letters: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await filled(client, letters)
        publish(client, *(b"%d" % number for number in range(400)))
        await asyncio.sleep(1)
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await asyncio.sleep(1)
        lose_sight(storage, amqp)
        for tag in range(1, 101, 2):
            client.send(1, BasicReject(delivery_tag=tag, requeue=False))
        await asyncio.sleep(1)
        storage.fail_reads = ""
        queue = hosted(amqp.frontend)
        while queue.handouts.retries.waiting:
            await asyncio.sleep(0.01)
        for tag in range(101, 400, 2):
            client.send(1, BasicReject(delivery_tag=tag, requeue=False))
            await asyncio.sleep(0)
        assert len(queue.outbox) < 10
        await asyncio.sleep(5)
        assert await waiting(await amqp.client(1), "dead") == 200


async def test_an_unknown_size_is_read_alone_when_it_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = []
    recount = sizes.ReadyBytes.recount

    def noted(self: sizes.ReadyBytes) -> None:
        counted.append(self)
        recount(self)

    storage = FaultyStorage()
    async with memory_amqp(storage) as amqp:
        client = await amqp.client(1)
        await filled(client, {"x-max-length-bytes": 1_000_000})
        lose_sight(storage, amqp)
        monkeypatch.setattr(sizes.ReadyBytes, "recount", noted)
        await client.ask(1, BasicQos(prefetch_count=1))
        await client.ask(1, BasicConsume(queue="q", consumer_tag="t"))
        await asyncio.sleep(60)
        line = hosted(amqp.frontend).state
        assert not line.sizes.is_certain
        await come_to_see(storage)
        await asyncio.sleep(LONG_S)
        assert line.sizes.is_certain
        assert line.ready_bytes == sum(map(len, BODIES[1:]))
        # What was known of all the others stays known.
        assert not counted
