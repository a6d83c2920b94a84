"""AMQP on a cluster: a client may be at any node, and nothing that was confirmed is lost with one of them."""

import asyncio
from dataclasses import replace
from functools import partial
from itertools import chain

import pytest

from millpond.base.fields import Table
from millpond.engine.queues.hosted import turn
from millpond.metadata.controller import CreateTopic
from millpond.metadata.records import PartitionChangeRecord
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
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from millpond.wire.amqp.properties import Properties, decode_properties
from tests.support.amqp.amqp_cluster import AmqpCluster, amqp_cluster
from tests.support.amqp.memory_amqp import AmqpMemoryClient

PERSISTENT = Properties(delivery_mode=2)


async def said(client: AmqpMemoryClient, method: Method, channel: int = 1) -> Method:
    """What the broker says to a method."""
    event = await client.ask(channel, method)
    assert isinstance(event, MethodReceived), event
    return event.method


def publish(client: AmqpMemoryClient, *bodies: bytes, queue: str = "q") -> None:
    for body in bodies:
        client.publish(1, BasicPublish(routing_key=queue), body, PERSISTENT)


async def confirmed(client: AmqpMemoryClient, number: int) -> None:
    while True:
        event = await client.wait()
        assert isinstance(event, MethodReceived), event
        assert isinstance(event.method, BasicAck), event
        if event.method.delivery_tag == number:
            return


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


def bodies_of(client: AmqpMemoryClient) -> list[bytes]:
    """What was delivered to a client and not looked at."""
    found = [event.content.body for event in client.heard if isinstance(event, ContentReceived)]
    client.heard.clear()
    return found


def has_heard(client: AmqpMemoryClient) -> bool:
    return bool(client.heard)


async def declared(cluster: AmqpCluster, at: int, queue: str = "q") -> None:
    """A durable queue that this node hosts, known everywhere."""
    client = await cluster.client(at, 1)
    answer = await said(client, QueueDeclare(queue=queue, durable=True))
    assert isinstance(answer, QueueDeclareOk), answer
    await cluster.nodes.until(
        lambda: all(
            queue in frontend.queues.broker.rooms("/").queues
            for frontend in cluster.frontends.values()
        )
    )
    assert cluster.host_of(queue) == at


async def test_a_queue_is_declared_published_to_and_consumed_on_three_nodes() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        assert set(cluster.replicas_of("q")) == {1, 2, 3}

        publisher = await cluster.client(2, 1)
        await said(publisher, ConfirmSelect())
        publish(publisher, b"one", b"two", b"three")
        await confirmed(publisher, 3)

        consumer = await cluster.client(3, 1)
        assert await said(consumer, QueueDeclare(queue="q", passive=True)) == QueueDeclareOk(
            queue="q", message_count=3, consumer_count=0
        )
        answer = await said(consumer, BasicConsume(queue="q", consumer_tag="c"))
        assert answer == BasicConsumeOk(consumer_tag="c")
        assert await delivered(consumer, 3) == [
            (b"one", False, 1),
            (b"two", False, 2),
            (b"three", False, 3),
        ]
        consumer.send(1, BasicAck(delivery_tag=3, multiple=True))
        publish(publisher, b"four")
        assert await delivered(consumer, 1) == [(b"four", False, 4)]
        assert await said(consumer, BasicCancel(consumer_tag="c")) == BasicCancelOk(
            consumer_tag="c"
        )
        consumer.close()

        # The queue delivers unacknowledged messages again, to any consumer on any node.
        reader = await cluster.client(2, 1)
        reader.send(1, BasicGet(queue="q"))
        assert await delivered(reader, 1) == [(b"four", True, 1)]
        assert await said(reader, BasicGet(queue="q")) == BasicGetEmpty()


async def test_a_consumer_and_a_publisher_go_on_when_the_host_dies() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        publisher = await cluster.client(2, 1)
        await said(publisher, ConfirmSelect())
        publish(publisher, b"one", b"two", b"three")
        await confirmed(publisher, 3)
        consumer = await cluster.client(3, 1)
        await said(consumer, BasicConsume(queue="q", consumer_tag="c"))
        assert len(await delivered(consumer, 3)) == 3
        consumer.send(1, BasicAck(delivery_tag=1))
        await said(consumer, QueueDeclare(queue="q", passive=True))

        await cluster.kill(1)
        publish(publisher, b"four")
        await confirmed(publisher, 4)

        again = await delivered(consumer, 3)
        assert [one[0] for one in again] == [b"two", b"three", b"four"]
        assert cluster.host_of("q") in {2, 3}
        consumer.send(1, BasicAck(delivery_tag=again[-1][2], multiple=True))
        answer = await said(consumer, QueueDeclare(queue="q", passive=True))
        assert answer == QueueDeclareOk(queue="q", message_count=0, consumer_count=1)


async def test_consumers_stay_when_a_queue_moves_to_their_node_and_away_again() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        clients = {node: await cluster.client(node, 1) for node in (1, 2, 3)}
        for node, client in clients.items():
            await said(client, BasicConsume(queue="q", consumer_tag=f"c{node}"))

        bodies = [b"%d" % number for number in range(30)]
        for host in (2, 3, 1):
            await cluster.move("q", host)
            await cluster.nodes.until(
                lambda host=host: len(cluster.consumers_at(host, "q")) == 3  # type: ignore[misc]
            )
            publish(clients[1], *bodies)
            await cluster.nodes.until(
                lambda: sum(len(client.heard) for client in clients.values()) == len(bodies)
            )
            taken = {node: bodies_of(client) for node, client in clients.items()}
            assert all(taken.values()), taken
            assert sorted(chain.from_iterable(taken.values())) == sorted(bodies)
            for client in clients.values():
                client.send(1, BasicAck(delivery_tag=0, multiple=True))
            answer = await said(clients[host], QueueDeclare(queue="q", passive=True))
            assert answer == QueueDeclareOk(queue="q", message_count=0, consumer_count=3)


async def test_what_a_node_was_given_goes_to_others_when_it_is_cut_off() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        publisher = await cluster.client(1, 1)
        await said(publisher, ConfirmSelect())
        lost = await cluster.client(3, 1)
        await said(lost, BasicConsume(queue="q", consumer_tag="c"))
        publish(publisher, b"one")
        await confirmed(publisher, 1)
        assert await delivered(lost, 1) == [(b"one", False, 1)]

        cluster.nodes.network.isolate(3)
        await cluster.nodes.until(lambda: not cluster.consumers_at(1, "q"))
        here = await cluster.client(1, 1)
        await said(here, BasicConsume(queue="q", consumer_tag="d"))
        assert await delivered(here, 1) == [(b"one", True, 1)]
        here.send(1, BasicAck(delivery_tag=1))

        # Its acknowledgement comes too late to mean anything, and it goes on.
        lost.send(1, BasicAck(delivery_tag=1))
        cluster.nodes.network.cut.clear()
        await cluster.nodes.until(lambda: len(cluster.consumers_at(1, "q")) == 2)
        here.close()
        publish(publisher, b"two")
        await confirmed(publisher, 2)
        assert await delivered(lost, 1) == [(b"two", False, 2)]


async def test_exclusive_queues_end_with_their_connection_and_with_its_node() -> None:
    async with amqp_cluster() as cluster:
        first, second = await cluster.client(2, 1), await cluster.client(2, 1)
        await said(first, QueueDeclare(queue="mine", exclusive=True))
        await said(second, QueueDeclare(queue="other", exclusive=True))
        await said(second, QueueDeclare(queue="passing"))
        await said(second, QueueDeclare(queue="lasting", durable=True))
        elsewhere = await cluster.client(3, 1)
        await cluster.nodes.until(lambda: "lasting" in cluster.queues_at(3))
        assert {name: cluster.replicas_of(name) for name in ("mine", "passing")} == {
            "mine": (2,),
            "passing": (2,),
        }
        locked = await elsewhere.ask(1, QueueDeclare(queue="mine", passive=True))
        assert isinstance(locked, ChannelClosed), locked
        assert locked.code == 405

        first.close()
        await cluster.nodes.until(lambda: cluster.queues_at(3) == {"other", "passing", "lasting"})
        await cluster.kill(2)
        await cluster.nodes.until(lambda: cluster.queues_at(3) == {"lasting"})


async def test_another_controller_goes_on_with_declarations() -> None:
    async with amqp_cluster() as cluster:
        controller = (await cluster.nodes.controller()).info.node_id
        asked = next(node for node in cluster.frontends if node != controller)
        client = await cluster.client(asked, 1)
        assert isinstance(await said(client, QueueDeclare(queue="a", durable=True)), QueueDeclareOk)
        await cluster.kill(controller)
        client.send(1, QueueDeclare(queue="b", durable=True))
        await cluster.nodes.until(lambda: bool(client.heard))
        assert isinstance(client.heard[0], MethodReceived)
        assert client.heard[0].method == QueueDeclareOk(
            queue="b", message_count=0, consumer_count=0
        )


async def test_a_queue_elsewhere_refuses_counts_gives_and_forgets_as_one_here_does() -> None:
    async with amqp_cluster() as cluster:
        host = await cluster.client(1, 1)
        arguments: Table = {"x-max-length": 2, "x-overflow": "reject-publish"}
        await said(host, QueueDeclare(queue="q", durable=True, arguments=arguments))
        await cluster.nodes.until(lambda: "q" in cluster.queues_at(2))
        client = await cluster.client(2, 1, 2)
        await said(client, ConfirmSelect())
        publish(client, b"one", b"two")
        await confirmed(client, 2)
        publish(client, b"three")
        refused = await client.wait()
        assert isinstance(refused, MethodReceived)
        assert isinstance(refused.method, BasicNack), refused

        client.send(2, BasicGet(queue="q"))
        assert await delivered(client, 1) == [(b"one", False, 1)]
        client.send(2, BasicNack(delivery_tag=1, requeue=True))
        client.send(2, BasicGet(queue="q", no_ack=True))
        assert await delivered(client, 1) == [(b"one", True, 2)]
        assert await said(client, QueuePurge(queue="q"), 2) == QueuePurgeOk(message_count=1)

        await said(client, BasicConsume(queue="q", consumer_tag="c", exclusive=True), 2)
        third = await cluster.client(3, 1)
        in_use = await third.ask(1, BasicConsume(queue="q"))
        assert isinstance(in_use, ChannelClosed), in_use
        assert in_use.code == 403
        cancelled = BasicCancel(consumer_tag="c", nowait=True)
        assert await said(client, QueueDelete(queue="q"), 1) == cancelled
        deleted = await client.wait()
        assert isinstance(deleted, MethodReceived)
        assert deleted.method == QueueDeleteOk(message_count=0)


async def test_a_consumer_afar_is_given_as_much_as_it_asked_for() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        publisher = await cluster.client(1, 1)
        await said(publisher, ConfirmSelect())
        publish(publisher, *(b"%d" % number for number in range(1_000)))
        await confirmed(publisher, 1_000)

        few = await cluster.client(2, 1)
        await said(few, BasicQos(prefetch_count=3))
        await said(few, BasicConsume(queue="q", consumer_tag="c"))
        await asyncio.sleep(1)
        assert bodies_of(few) == [b"0", b"1", b"2"]
        few.send(1, BasicAck(delivery_tag=1))
        assert await delivered(few, 1) == [(b"3", False, 4)]
        few.close()

        # More than is on its way at a time.
        many = await cluster.client(3, 1)
        await said(many, BasicConsume(queue="q", consumer_tag="c", no_ack=True))
        found = [body for body, _again, _tag in await delivered(many, 999)]
        assert sorted(map(int, found)) == list(range(1, 1_000))
        answer = await said(publisher, QueueDeclare(queue="q", passive=True))
        assert answer == QueueDeclareOk(queue="q", message_count=0, consumer_count=1)


async def test_queues_of_several_nodes_share_the_limit_of_a_channel() -> None:
    async with amqp_cluster() as cluster:
        names = {1: "here", 2: "there", 3: "yonder"}
        client = await cluster.client(1, 1)
        await said(client, BasicQos(prefetch_count=4, is_global=True))
        for at, name in names.items():
            await declared(cluster, at, name)
            publish(client, *[name.encode()] * 40, queue=name)
        for name in names.values():
            client.send(1, BasicConsume(queue=name, consumer_tag=name, nowait=True))
        seen: list[bytes] = []
        for _message in range(120):
            ((body, _again, tag),) = await delivered(client, 1)
            seen.append(body)
            client.send(1, BasicAck(delivery_tag=tag))
        assert sorted(set(seen)) == [b"here", b"there", b"yonder"]
        # None is passed over: none is through before each of the others has had most of its messages.
        last = {name: len(seen) - seen[::-1].index(name.encode()) for name in names.values()}
        first_through = min(last.values())
        counts = [seen[:first_through].count(name.encode()) for name in names.values()]
        assert min(counts) >= 20, counts


async def test_the_end_of_a_queue_elsewhere_is_said_before_that_of_its_consumer() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 2)
        client = await cluster.client(1, 1)
        await said(client, BasicConsume(queue="q", consumer_tag="c"))
        assert await said(client, QueueDelete(queue="q")) == QueueDeleteOk(message_count=0)
        cancelled = await client.wait()
        assert isinstance(cancelled, MethodReceived)
        assert cancelled.method == BasicCancel(consumer_tag="c", nowait=True)


async def test_a_message_is_not_new_though_the_fact_of_its_handout_died_with_the_host() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        publisher = await cluster.client(2, 1)
        await said(publisher, ConfirmSelect())
        publish(publisher, b"zero", b"one", b"two")
        await confirmed(publisher, 3)
        first = await cluster.client(3, 1)
        first.send(1, BasicGet(queue="q"))
        assert await delivered(first, 1) == [(b"zero", False, 1)]
        # Nothing of what the host writes from now on reaches the one that comes after it.
        cluster.nodes.network.cut |= {(2, 1), (1, 2)}
        first.send(1, BasicGet(queue="q"))
        assert await delivered(first, 1) == [(b"one", False, 2)]
        first.close()
        await cluster.kill(1)
        cluster.nodes.network.cut.clear()
        await cluster.nodes.until(lambda: cluster.host_of("q") == 2)

        second = await cluster.client(2, 1)
        await said(second, BasicConsume(queue="q", consumer_tag="c"))
        # It is not known how far the host came: what it may have handed out is not called new.
        assert [one[:2] for one in await delivered(second, 3)] == [
            (b"zero", True),
            (b"one", True),
            (b"two", True),
        ]
        publish(publisher, b"three")
        assert [one[:2] for one in await delivered(second, 1)] == [(b"three", False)]


async def test_nothing_is_handed_out_before_the_copies_know_that_it_may_be() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        publisher = await cluster.client(2, 1)
        await said(publisher, ConfirmSelect())
        publish(publisher, b"one")
        await confirmed(publisher, 1)
        cluster.nodes.network.cut |= {(2, 1), (1, 2)}
        consumer = await cluster.client(1, 1)
        await said(consumer, BasicConsume(queue="q", consumer_tag="c"))
        await asyncio.sleep(1)
        assert bodies_of(consumer) == []
        cluster.nodes.network.cut.clear()
        await cluster.nodes.until(lambda: bool(consumer.heard))
        assert await delivered(consumer, 1) == [(b"one", False, 1)]


async def test_a_consumer_that_went_while_its_host_was_out_of_reach_is_none_there() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        consumer = await cluster.client(3, 1)
        cluster.nodes.network.cut |= {(3, 1), (1, 3)}
        consumer.send(1, BasicConsume(queue="q", consumer_tag="c"))
        await asyncio.sleep(1)
        consumer.close()
        await asyncio.sleep(1)
        cluster.nodes.network.cut.clear()
        # Until what was asked for it has come to the host.
        await asyncio.sleep(10)
        assert cluster.host_of("q") == 1
        assert cluster.consumers_at(1, "q") == []


async def test_a_queue_without_enough_replicas_answers_in_time() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        publisher = await cluster.client(1, 1)
        await said(publisher, ConfirmSelect())
        publish(publisher, b"one")
        await confirmed(publisher, 1)
        # Followers are there, and get nothing any more.
        for node in (2, 3):
            engine = cluster.frontends[node].engine
            engine.replicas.fetchers.leave(engine.partitions.replica("q", 0))
        publish(publisher, b"two")
        asker = await cluster.client(1, 1, 2)
        asker.send(1, QueueDeclare(queue="q", passive=True))
        await cluster.nodes.until(lambda: bool(asker.heard))
        event = asker.heard.popleft()
        assert isinstance(event, MethodReceived)
        assert event.method == QueueDeclareOk(queue="q", message_count=1, consumer_count=0)

        for method in (QueuePurge(queue="q"), BasicGet(queue="q")):
            asker = await cluster.client(1, 1)
            asker.send(1, method)
            await cluster.nodes.until(partial(has_heard, asker))
            told = asker.heard.popleft()
            assert isinstance(told, ConnectionClosed), told
            assert told.code == 541
            assert "timed out waiting for the in-sync replicas of q-0" in told.text


@pytest.mark.parametrize("at", [1, 2], ids=["at its host", "elsewhere"])
async def test_what_was_asked_for_and_could_not_be_answered_goes_back(at: int) -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        publisher = await cluster.client(1, 1)
        await said(publisher, ConfirmSelect())
        publish(publisher, b"one")
        await confirmed(publisher, 1)
        for node in (2, 3):
            engine = cluster.frontends[node].engine
            engine.replicas.fetchers.leave(engine.partitions.replica("q", 0))
        asker = await cluster.client(at, 1)
        asker.send(1, BasicGet(queue="q"))
        await cluster.nodes.until(partial(has_heard, asker))
        told = asker.heard.popleft()
        assert isinstance(told, ConnectionClosed), told
        assert told.code == 541
        await asyncio.sleep(1)
        line = cluster.frontends[1].queues.hosted("/", "q").state
        assert (line.ready, line.held) == (1, 0)


async def test_a_log_is_cut_though_nobody_takes_anything_and_what_was_seen_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "_CUT_OFFSETS", 20)

    async with amqp_cluster() as cluster:
        client = await cluster.client(1, 1)
        keeps_two: Table = {"x-max-length": 2}
        await said(client, QueueDeclare(queue="q", durable=True, arguments=keeps_two))
        await said(client, ConfirmSelect())
        publish(client, b"first")
        await confirmed(client, 1)
        client.send(1, BasicGet(queue="q"))
        assert await delivered(client, 1) == [(b"first", False, 1)]
        client.send(1, BasicAck(delivery_tag=1))
        for number in range(2, 60):
            publish(client, b"later")
            await confirmed(client, number)
        log = cluster.frontends[1].engine.partitions.partition("q", 0).log
        await cluster.nodes.until(lambda: log.start_offset > 20)

        await cluster.kill(1)
        await cluster.nodes.until(lambda: cluster.host_of("q") > 1)
        reader = await cluster.client(cluster.host_of("q"), 1)
        await said(reader, BasicConsume(queue="q", consumer_tag="c"))
        assert [one[:2] for one in await delivered(reader, 2)] == [(b"later", True)] * 2


async def test_mirror_policies_move_queues_that_are_there() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        publisher = await cluster.client(1, 1)
        await said(publisher, ConfirmSelect())
        publish(publisher, b"one")
        await confirmed(publisher, 1)

        async def mirrored(mode: str, params: int | list[str] | None, *nodes: int) -> None:
            definition: Table = {"ha-mode": mode}
            if params is not None:
                definition["ha-params"] = params  # type: ignore[assignment]
            policy = Policy(vhost="/", name="ha", pattern="^q$", definition=definition)
            await cluster.frontends[2].queues.ask(Store(fact=policy))
            await cluster.nodes.until(lambda: set(cluster.replicas_of("q")) == set(nodes))

        await mirrored("exactly", 2, 1, 2)
        await mirrored("nodes", ["3"], 3)
        await cluster.nodes.until(lambda: cluster.host_of("q") == 3)
        await mirrored("all", None, 1, 2, 3)
        publish(publisher, b"two")
        await confirmed(publisher, 2)
        reader = await cluster.client(2, 1)
        await said(reader, BasicConsume(queue="q", consumer_tag="c"))
        assert [one[0] for one in await delivered(reader, 2)] == [b"one", b"two"]


async def test_an_answer_goes_straight_to_a_client_of_another_node() -> None:
    async with amqp_cluster() as cluster:
        await declared(cluster, 1)
        asker, worker = await cluster.client(2, 1), await cluster.client(3, 1)
        reply_to = "amq.rabbitmq.reply-to"
        await said(asker, BasicConsume(queue=reply_to, consumer_tag="answers", no_ack=True))
        question = Properties(reply_to=reply_to, correlation_id="7")
        asker.publish(1, BasicPublish(routing_key="q"), b"how much?", question)
        await said(worker, BasicConsume(queue="q", consumer_tag="w", no_ack=True))
        event = await worker.wait()
        assert isinstance(event, ContentReceived), event
        address = decode_properties(event.content.properties).reply_to
        assert address is not None
        worker.publish(1, BasicPublish(routing_key=address), b"42")
        assert [one[0] for one in await delivered(asker, 1)] == [b"42"]


async def test_a_stream_is_read_from_any_node_and_goes_on_at_the_next_host() -> None:
    async with amqp_cluster() as cluster:
        owner = await cluster.client(1, 1)
        stream: Table = {"x-queue-type": "stream"}
        await said(owner, QueueDeclare(queue="s", durable=True, arguments=stream))
        await cluster.nodes.until(lambda: "s" in cluster.queues_at(2) & cluster.queues_at(3))
        publisher = await cluster.client(2, 1)
        await said(publisher, ConfirmSelect())
        publish(publisher, b"one", b"two", queue="s")
        await confirmed(publisher, 2)

        readers = [await cluster.client(node, 1) for node in (1, 2, 3, 3)]
        for number, reader in enumerate(readers):
            await said(reader, BasicQos(prefetch_count=10))
            first: Table = {"x-stream-offset": "first"}
            tag = f"c{number}"
            await said(reader, BasicConsume(queue="s", consumer_tag=tag, arguments=first))
            assert [one[0] for one in await delivered(reader, 2)] == [b"one", b"two"]
            reader.send(1, BasicAck(delivery_tag=2, multiple=True))
        await cluster.move("s", 2)
        publish(publisher, b"three", queue="s")
        await confirmed(publisher, 3)
        for reader in readers:
            assert [one[0] for one in await delivered(reader, 1)] == [b"three"]
        await cluster.kill(2)
        writer = await cluster.client(1, 1)
        publish(writer, b"four", queue="s")
        for reader in readers[:1] + readers[2:]:
            assert [one[0] for one in await delivered(reader, 1)] == [b"four"]


@pytest.mark.parametrize(
    ("is_controller", "within_s"), [(False, 3.3), (True, 5.75)], ids=["a node", "the controller"]
)
async def test_a_publisher_elsewhere_waits_for_the_lease_of_a_host_that_is_cut_off_and_no_longer(
    is_controller: bool, within_s: float
) -> None:
    async with amqp_cluster(min_insync_replicas="2") as cluster:
        controller = (await cluster.nodes.controller()).info.node_id
        others = [node for node in (1, 2, 3) if node != controller]
        host = controller if is_controller else others[0]
        client = await cluster.client(others[1], 1)
        await said(client, QueueDeclare(queue="q", durable=True))
        await cluster.nodes.until(lambda: cluster.host_of("q") > 0)
        await asyncio.sleep(2)
        if cluster.host_of("q") != host:
            await cluster.move("q", host)
        await asyncio.sleep(2)
        await said(client, ConfirmSelect())
        publish(client, b"before")
        await confirmed(client, 1)
        cluster.nodes.network.isolate(host)
        publish(client, b"meanwhile")
        began = asyncio.get_running_loop().time()
        while not has_heard(client):
            assert asyncio.get_running_loop().time() - began <= within_s
            await asyncio.sleep(0.01)
        await confirmed(client, 2)


async def test_a_stream_of_a_topic_that_several_nodes_lead_is_refused_at_once() -> None:
    async with amqp_cluster() as cluster:
        # One that is led by a single node, until it is not.
        controller = await cluster.nodes.controller()
        topics = [
            CreateTopic(name="parted", assignments={0: (1,), 1: (2,)}),
            CreateTopic(name="whole", assignments={0: (1, 2), 1: (1, 2)}),
        ]
        for outcome in await controller.topic_admin.create_topics(topics):
            assert outcome.error is None
        await cluster.nodes.until(
            lambda: all(
                "whole" in one.metadata.image.topics for one in cluster.nodes.engines.values()
            )
        )

        async def declare(topic: str) -> object:
            client = await cluster.client(3, 1)
            arguments: Table = {"x-queue-type": "stream", "x-millpond-topic": topic}
            declare = QueueDeclare(queue=topic + "s", durable=True, arguments=arguments)
            return await client.ask(1, declare)

        refused = await declare("parted")
        assert isinstance(refused, ChannelClosed), refused
        assert refused.code == 406
        assert "the partitions of topic 'parted' are led by nodes 1, 2" in refused.text
        assert isinstance(await declare("whole"), MethodReceived)
        reader, publisher = await cluster.client(3, 1), await cluster.client(3, 1)
        await said(reader, BasicQos(prefetch_count=10))
        first: Table = {"x-stream-offset": "first"}
        consume = BasicConsume(queue="wholes", consumer_tag="c", arguments=first)
        await said(reader, consume)
        await said(publisher, ConfirmSelect())
        publish(publisher, b"one", queue="wholes")
        await confirmed(publisher, 1)
        assert [one[0] for one in await delivered(reader, 1)] == [b"one"]
        reader.send(1, BasicAck(delivery_tag=1))

        topic = cluster.nodes.image.topics["whole"]
        await cluster.nodes.until(lambda: len(topic.partitions[1].isr) == 2)
        moved = PartitionChangeRecord(partition_id=1, topic_id=topic.topic_id, leader=2)
        await (await cluster.nodes.controller()).metadata.quorum.propose([moved])
        await cluster.nodes.until(lambda: cluster.host_of("wholes") < 0)
        await asyncio.sleep(1)
        late = await cluster.client(3, 1)
        refused = await late.ask(1, consume)
        assert isinstance(refused, ChannelClosed), refused
        assert refused.code == 406
        publish(publisher, b"two", queue="wholes")
        answer = await publisher.wait()
        assert isinstance(answer, MethodReceived)
        assert isinstance(answer.method, BasicNack)
        # Who read before reads when one node leads all again, from where it began.
        await (await cluster.nodes.controller()).metadata.quorum.propose([replace(moved, leader=1)])
        here = cluster.frontends[3].queues
        stream = here.broker.rooms("/").queue("wholes")
        await cluster.nodes.until(lambda: here.host_of(stream) == 1)
        publish(publisher, b"three", queue="wholes")
        await cluster.nodes.until(lambda: len(reader.heard) == 2)
        assert {one[0] for one in await delivered(reader, 2)} == {b"one", b"three"}
