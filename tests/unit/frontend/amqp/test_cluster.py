"""AMQP on a cluster: a client may be at any node, and nothing that was confirmed is lost with one of them."""

from itertools import chain

from millpond.wire.amqp.events import ContentReceived, MethodReceived
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
    BasicPublish,
    ConfirmSelect,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from millpond.wire.amqp.properties import Properties
from tests.support.amqp_cluster import AmqpCluster, amqp_cluster
from tests.support.memory_amqp import AmqpMemoryClient
from tests.support.virtual_loop import run

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


def test_a_queue_is_declared_published_to_and_consumed_on_three_nodes() -> None:
    async def story() -> None:
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

            # What was not acknowledged comes again, whoever asks and wherever.
            reader = await cluster.client(2, 1)
            reader.send(1, BasicGet(queue="q"))
            assert await delivered(reader, 1) == [(b"four", True, 1)]
            assert await said(reader, BasicGet(queue="q")) == BasicGetEmpty()

    run(story())


def test_a_consumer_and_a_publisher_go_on_when_the_host_dies() -> None:
    async def story() -> None:
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

    run(story())


def test_consumers_stay_when_a_queue_moves_to_their_node_and_away_again() -> None:
    async def story() -> None:
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

    run(story())
