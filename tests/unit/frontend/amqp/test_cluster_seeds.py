"""A cluster that is not left alone: nodes die and come back, ways between them are cut, queues move.

Whatever happens, every confirmed message is delivered at least once, none comes twice as if it came for the
first time, and in the end the queue is empty.
"""

import asyncio
import random
from collections import Counter

import pytest

from millpond.base.ids import NodeId
from millpond.wire.amqp.events import ContentReceived, MethodReceived
from millpond.wire.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    QueueDeclare,
    QueueDeclareOk,
)
from millpond.wire.amqp.properties import Properties
from tests.support.amqp.amqp_cluster import AmqpCluster, amqp_cluster
from tests.support.amqp.memory_amqp import AmqpMemoryClient
from tests.support.time.virtual_loop import run

PERSISTENT = Properties(delivery_mode=2)
EVENTS = 8


class Life:
    """What happens, by one seed."""

    def __init__(self, cluster: AmqpCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.confirmed: set[bytes] = set()
        self.taken: set[bytes] = set()
        # How many times each came without being called redelivered.
        self.new: Counter[bytes] = Counter()
        self.published, self.over = asyncio.Event(), asyncio.Event()
        self.told: list[str] = []

    async def client(self) -> AmqpMemoryClient:
        """At any node that is up and lets clients in."""
        while True:
            frontends = self.cluster.frontends
            served = [node for node in sorted(frontends) if frontends[node].minority.reason is None]
            if not served:
                await asyncio.sleep(0.1)
                continue
            client = await self.cluster.client(self.random.choice(served), 1)
            if not client.is_closed:
                return client

    # --- clients -------------------------------------------------------------------------------------

    async def publish(self, name: str) -> None:
        number = 0
        while not self.published.is_set():
            client = await self.client()
            client.send(1, ConfirmSelect())
            unconfirmed: dict[int, bytes] = {}
            tag = 0
            while not (self.published.is_set() or client.is_closed):
                tag, number = tag + 1, number + 1
                unconfirmed[tag] = f"{name} {number}".encode()
                client.publish(1, BasicPublish(routing_key="q"), unconfirmed[tag], PERSISTENT)
                await asyncio.sleep(self.random.random() / 5)
                self._note_confirms(client, unconfirmed)
            for _step in range(400):
                if client.is_closed or not unconfirmed:
                    break
                await asyncio.sleep(0.1)
                self._note_confirms(client, unconfirmed)

    def _note_confirms(self, client: AmqpMemoryClient, unconfirmed: dict[int, bytes]) -> None:
        while client.heard:
            event = client.heard.popleft()
            if not isinstance(event, MethodReceived):
                continue
            method = event.method
            if isinstance(method, (BasicAck, BasicNack)):
                for tag in [one for one in unconfirmed if one <= method.delivery_tag]:
                    if method.multiple or tag == method.delivery_tag:
                        body = unconfirmed.pop(tag)
                        if isinstance(method, BasicAck):
                            self.confirmed.add(body)

    async def consume(self) -> None:
        while not self.over.is_set():
            client = await self.client()
            client.send(1, BasicQos(prefetch_count=self.random.choice((1, 5, 50))))
            client.send(1, BasicConsume(queue="q", consumer_tag="c"))
            stays_until = self.random.random() * 20
            while stays_until > 0 and not (self.over.is_set() or client.is_closed):
                await asyncio.sleep(0.05)
                stays_until -= 0.05
                self._answer(client)
            client.close()

    def _answer(self, client: AmqpMemoryClient) -> None:
        while client.heard:
            event = client.heard.popleft()
            if isinstance(event, ContentReceived) and not client.is_closed:
                method = event.content.method
                assert isinstance(method, BasicDeliver)
                self.new[event.content.body] += not method.redelivered
                if self.random.random() < 0.1:
                    client.send(1, BasicNack(delivery_tag=method.delivery_tag, requeue=True))
                else:
                    self.taken.add(event.content.body)
                    client.send(1, BasicAck(delivery_tag=method.delivery_tag))

    # --- trouble -------------------------------------------------------------------------------------

    async def trouble(self) -> None:
        for _event in range(EVENTS):
            await asyncio.sleep(self.random.random() * 3)
            happens = self.random.choice((self._kill, self._move, self._cut, self._isolate))
            await happens()

    async def _kill(self) -> None:
        node = self._any()
        self.told.append(f"node {node} dies")
        await self.cluster.kill(node)
        await asyncio.sleep(self.random.random() * 15)
        await self.cluster.come_back(node)

    async def _move(self) -> None:
        host = self.cluster.host_of("q")
        topic = self.cluster.nodes.image.topics["q"]
        in_sync = [node for node in topic.partitions[0].isr if node != host]
        if in_sync and host >= 0:
            to = self.random.choice(in_sync)
            self.told.append(f"the queue moves to node {to}")
            await self.cluster.move("q", to)

    async def _cut(self) -> None:
        one, other = self.random.sample(sorted(self.cluster.frontends), 2)
        self.told.append(f"node {one} does not reach node {other}")
        self.cluster.nodes.network.cut.add((one, other))
        await asyncio.sleep(self.random.random() * 15)
        self.cluster.nodes.network.cut.clear()

    async def _isolate(self) -> None:
        node = self._any()
        self.told.append(f"node {node} is alone")
        self.cluster.nodes.network.isolate(node)
        await asyncio.sleep(self.random.random() * 15)
        self.cluster.nodes.network.cut.clear()

    def _any(self) -> NodeId:
        return self.random.choice(sorted(self.cluster.frontends))


@pytest.mark.parametrize("seed", range(2))
def test_what_was_confirmed_is_delivered_whatever_happens(seed: int) -> None:
    async def story() -> None:
        async with amqp_cluster() as cluster:
            life = Life(cluster, seed)
            first = await cluster.client(1, 1)
            await first.ask(1, QueueDeclare(queue="q", durable=True))
            await cluster.nodes.until(
                lambda: all("q" in cluster.queues_at(node) for node in cluster.frontends)
            )
            async with asyncio.TaskGroup() as group:
                for _consumer in range(3):
                    group.create_task(life.consume())
                async with asyncio.TaskGroup() as publishers:
                    for name in "ab":
                        publishers.create_task(life.publish(name))
                    await life.trouble()
                    await cluster.nodes.up(1, 2, 3)
                    await asyncio.sleep(5)
                    life.published.set()
                await cluster.nodes.until(lambda: life.confirmed <= life.taken)
                await is_empty(life)
                life.over.set()
            assert len(life.confirmed) > 100
            assert [body for body, times in life.new.items() if times > 1] == [], life.told

    run(story())


async def is_empty(life: Life) -> None:
    """Publishers that were not answered may have left something."""
    client = await life.client()
    for _step in range(300):
        await asyncio.sleep(0.1)
        event = await client.ask(1, QueueDeclare(queue="q", passive=True))
        assert isinstance(event, MethodReceived), (event, life.told)
        assert isinstance(event.method, QueueDeclareOk)
        if event.method.message_count == 0:
            return
    raise AssertionError(f"the queue is not empty: {life.told}")
