"""AMQP's clients at a node that loses its cluster, or one other node, are served or told in bounded time."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from millpond.base.errors import InvalidRequest
from millpond.engine.node.node import Node
from millpond.engine.queues.peer_requests import CollectEvents
from millpond.engine.queues.remote.host_route import look_for
from millpond.metadata.levels import MILLPOND_VERSION, RELAYED_QUEUES
from millpond.metadata.records import FeatureLevels, RegisterBrokerRecord
from millpond.wire.amqp.events import ConnectionClosed, MethodReceived
from millpond.wire.amqp.methods import (
    BasicConsume,
    BasicNack,
    ConfirmSelect,
    QueueDeclare,
)
from tests.support.amqp.amqp_cluster import AmqpCluster, amqp_cluster
from tests.support.amqp.memory_amqp import AmqpMemoryClient
from tests.unit.frontend.amqp.test_cluster import (
    confirmed,
    declared,
    delivered,
    has_heard,
    publish,
    said,
)

# The default of broker.silence.timeout.ms, and how long other nodes are given to answer after it.
LEASE_S = 3.1
TOLD_S = 4.2
# What the controller decided about a node whose disk fails is waited for as long again.
DISK_TOLD_S = 5.2


def now() -> float:
    return asyncio.get_running_loop().time()


async def heard_within(client: AmqpMemoryClient, seconds: float) -> object:
    """The next that a client hears; it must come in time."""
    end = now() + seconds
    while not client.heard:
        assert now() < end, f"nothing was heard within {seconds} s"
        await asyncio.sleep(0.01)
    return client.heard.popleft()


async def placed(cluster: AmqpCluster, host: int) -> None:
    """A queue at a host, with all replicas in sync."""
    await declared(cluster, host)
    await cluster.nodes.until(lambda: len(cluster.nodes.image.topics["q"].partitions[0].isr) == 3)


async def two_that_are_not_the_controller(cluster: AmqpCluster) -> tuple[int, int]:
    controller = (await cluster.nodes.controller()).info.node_id
    one, other = (node for node in (1, 2, 3) if node != controller)
    return one, other


@pytest.mark.parametrize("is_host", [True, False], ids=["its host", "another node"])
async def test_clients_of_a_node_that_is_cut_off_are_told(is_host: bool) -> None:
    async with amqp_cluster(min_insync_replicas="2") as cluster:
        one, other = await two_that_are_not_the_controller(cluster)
        await placed(cluster, one)
        lost = one if is_host else other
        publisher, consumer = await cluster.client(lost, 1), await cluster.client(lost, 1)
        await said(publisher, ConfirmSelect())
        await said(consumer, BasicConsume(queue="q", consumer_tag="c"))
        publish(publisher, b"before")
        await confirmed(publisher, 1)
        assert [body for body, *_ in await delivered(consumer, 1)] == [b"before"]
        cluster.nodes.network.isolate(lost)
        began = now()
        publish(publisher, b"meanwhile")
        if is_host:
            told = await heard_within(publisher, LEASE_S)
            assert isinstance(told, MethodReceived)
            assert isinstance(told.method, BasicNack)
            publish(publisher, b"later")
            told = await heard_within(publisher, 0.1)
            assert isinstance(told, MethodReceived)
            assert isinstance(told.method, BasicNack)
        for client in (publisher, consumer):
            told = await heard_within(client, TOLD_S - (now() - began))
            assert isinstance(told, ConnectionClosed), told
            assert told.code == 320
            assert f"node {lost} is cut off from the majority of its cluster" in told.text
        # The node closes a client that connects now as well, and none when it is back.
        late = AmqpMemoryClient(cluster.frontends[lost])
        told = await late.wait()
        assert isinstance(told, ConnectionClosed), told
        assert told.code == 320
        cluster.nodes.network.cut.clear()
        await cluster.nodes.up(lost)
        engine = cluster.frontends[lost].engine
        await cluster.nodes.until(lambda: not engine.membership.is_cut_off)
        back = await cluster.client(lost, 1)
        await said(back, ConfirmSelect())
        publish(back, b"after")
        await cluster.nodes.until(lambda: has_heard(back))
        await confirmed(back, 1)


async def test_clients_of_nodes_that_elect_a_controller_stay() -> None:
    async with amqp_cluster(min_insync_replicas="2") as cluster:
        controller = (await cluster.nodes.controller()).info.node_id
        one, other = await two_that_are_not_the_controller(cluster)
        await placed(cluster, one)
        clients = [await cluster.client(node, 1) for node in (one, other)]
        for client in clients:
            await said(client, ConfirmSelect())
        cluster.nodes.network.isolate(controller)
        await asyncio.sleep(20)
        for client in clients:
            assert not client.is_closed
            publish(client, b"one")
            await cluster.nodes.until(partial(has_heard, client))
            await confirmed(client, 1)


async def test_clients_of_a_node_whose_disk_fails_altogether_are_told() -> None:
    async with amqp_cluster(min_insync_replicas="2") as cluster:
        one, _other = await two_that_are_not_the_controller(cluster)
        await placed(cluster, one)
        publisher, consumer = await cluster.client(one, 1), await cluster.client(one, 1)
        await said(publisher, ConfirmSelect())
        await said(consumer, BasicConsume(queue="q", consumer_tag="c"))
        storage = cluster.nodes.storages[one]
        storage.capacity = storage.used
        publish(publisher, b"one")
        told = await heard_within(publisher, LEASE_S)
        assert isinstance(told, MethodReceived)
        assert isinstance(told.method, BasicNack)
        for client in (publisher, consumer):
            told = await heard_within(client, DISK_TOLD_S)
            assert isinstance(told, ConnectionClosed), told
            assert told.code == 320
            assert "its disk fails" in told.text
        storage.capacity = None
        await cluster.nodes.until(lambda: not cluster.frontends[one].engine.membership.is_cut_off)
        back = await cluster.client(one, 1)
        await said(back, QueueDeclare(queue="q", passive=True))


async def test_clients_of_a_node_that_lost_only_the_host_are_served_by_way_of_a_third() -> None:
    async with amqp_cluster(min_insync_replicas="2") as cluster:
        host, other = await two_that_are_not_the_controller(cluster)
        await placed(cluster, host)
        publisher, consumer = await cluster.client(other, 1), await cluster.client(other, 1)
        await said(publisher, ConfirmSelect())
        await said(consumer, BasicConsume(queue="q", consumer_tag="c", no_ack=True))
        publish(publisher, b"0")
        await confirmed(publisher, 1)
        assert [one[:2] for one in await delivered(consumer, 1)] == [(b"0", False)]
        way = cluster.frontends[other].queues.link_to(host).way
        assert way.via is None
        cluster.nodes.network.cut |= {(host, other), (other, host)}
        publish(publisher, b"1")
        # Two seconds until it is asked elsewhere, and what it takes to strike a follower off.
        assert isinstance(await heard_within(publisher, 4.5), MethodReceived)
        assert [one[:2] for one in await delivered(consumer, 1)] == [(b"1", False)]
        assert cluster.host_of("q") == host
        assert way.via not in {None, host, other}
        for number in range(2, 12):
            publish(publisher, b"%d" % number)
            assert isinstance(await heard_within(publisher, 0.1), MethodReceived)
            found = await delivered(consumer, 1)
            assert [one[:2] for one in found] == [(b"%d" % number, False)]
            await asyncio.sleep(1)
        cluster.nodes.network.cut.clear()
        await cluster.nodes.until(lambda: way.via is None)
        publish(publisher, b"12")
        await confirmed(publisher, 13)
        assert [one[:2] for one in await delivered(consumer, 1)] == [(b"12", False)]


def understands(engine: Node, node: int, features: tuple[FeatureLevels, ...]) -> bool:
    return engine.metadata.image.brokers[node].features == features


async def test_nodes_of_an_older_release_are_not_asked_to_pass_anything_on() -> None:
    async with amqp_cluster(min_insync_replicas="2") as cluster:
        host, other = await two_that_are_not_the_controller(cluster)
        await placed(cluster, host)
        client = await cluster.client(other, 1)
        await said(client, QueueDeclare(queue="q", passive=True))
        way = cluster.frontends[other].queues.link_to(host).way
        third = next(one for one in cluster.nodes.engines if one not in {host, other})
        assert way.ways() == [None, third]
        controller = await cluster.nodes.controller()
        for old in (third, host):
            broker = controller.metadata.image.brokers[old]
            older = tuple(
                replace(one, highest=RELAYED_QUEUES - 1) if one.name == MILLPOND_VERSION else one
                for one in broker.features
            )
            await controller.metadata.quorum.propose(
                [
                    RegisterBrokerRecord(
                        broker_id=old,
                        incarnation_id=broker.incarnation_id,
                        broker_epoch=broker.broker_epoch,
                        end_points=broker.end_points,
                        rack=broker.rack,
                        log_dirs=broker.log_dirs,
                        features=older,
                    )
                ]
            )
            engine = cluster.nodes.node(other)
            await cluster.nodes.until(partial(understands, engine, old, older))
            assert way.ways() == [None]


async def test_a_look_for_the_straight_way_begins_no_session_at_a_host_that_has_none() -> None:
    """Such a session would have no queues: polls would be answered for ever, with nothing in them."""

    async with amqp_cluster(min_insync_replicas="2") as cluster:
        host, other = await two_that_are_not_the_controller(cluster)
        await placed(cluster, host)
        client = await cluster.client(other, 1)
        await said(client, QueueDeclare(queue="q", passive=True))
        engine = cluster.nodes.node(other)
        assert engine.peers is not None
        collect = CollectEvents(node_id=other, life="a", session=99, seen=0, wait_ms=0)
        with pytest.raises(InvalidRequest, match="session 99"):
            await engine.peers.call(host, look_for(collect), timeout_ms=1_000)
        with pytest.raises(InvalidRequest, match="no session 99"):
            await engine.peers.call(host, collect, timeout_ms=1_000)
        # The session that there is goes on.
        publish(client, b"one")
        await said(client, QueueDeclare(queue="q", passive=True))
