"""Queues find their hosts again: after whatever happens to leaders and controllers, in a cluster that is well
each queue is hosted by the node that leads it, and clients of another node can use it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from millpond.base.errors import MillpondError
from millpond.base.fields import Table
from millpond.engine.node.node import Node as Engine
from millpond.engine.queues.hosted.local_queue import LocalQueue
from millpond.engine.queues.queues import Queues
from millpond.frontend.amqp.codec import AmqpCodec
from millpond.message.hub import Message
from millpond.metadata.records import PartitionChangeRecord
from millpond.rabbit.commands import DeclareQueue, Principal
from tests.sim.cluster.node import Node
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.world import World

_PATIENCE = 120.0

# Clients are at one node only: a node whose own clients use a queue looks after it more than others do.
_CLIENTS_AT = 1
_ROUNDS = 6

# A queue has a host so long after everything is well: more than the longest pause between two attempts
# (``QUEUE_READ_RETRY_MS_MAX``) and what a look from another node takes.
_HOSTED_WITHIN = 10.0

# name → arguments. Priorities have a log each, which one node has to lead.
_QUEUES: dict[str, Table] = {
    "one": {},
    "two": {"x-queue-leader-locator": "balanced"},
    "three": {"x-queue-leader-locator": "balanced"},
    "urgent": {"x-max-priority": 2},
}


def queues_find_their_hosts(world: World) -> None:
    """Rounds of trouble, after each of which all must be well again."""
    hosts = Hosts(world)
    for node in world.nodes:
        node.on_up = hosts.on_up
        node.start()
    hosts.await_well(_PATIENCE)
    hosts.declare()
    hosts.check()
    for _ in range(_ROUNDS):
        hosts.strike()
        hosts.heal()
        hosts.await_well(_PATIENCE)
        hosts.check()


class Hosts:
    """The queues of all nodes that run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._queues: dict[Engine, Queues] = {}

    # --- life --------------------------------------------------------------------------------------

    def on_up(self, node: Node, engine: Engine) -> None:
        """A node serves: it hosts queues, and clients of one publish."""
        assert node.loop is not None
        node.loop.create_task(self._serve(engine), name="queues")

    async def _serve(self, engine: Engine) -> None:
        queues = Queues(engine, AmqpCodec())
        try:
            await queues.start()
        except MillpondError as error:
            self._world.trace.note("queues", f"{engine.info.node_id}: {error}")
        self._queues[engine] = queues
        if engine.info.node_id == _CLIENTS_AT:
            engine.runtime.tasks.spawn(self._publish(queues), name="publisher")

    async def _publish(self, queues: Queues) -> None:
        number = 0
        while True:
            await asyncio.sleep(0.5)
            for name in _QUEUES:
                try:
                    taken = queues.find("/", name).publish([_message(number)])
                except MillpondError:
                    continue
                number += 1
                for kept in taken.durable:
                    # Whether it is kept is not what is looked at here.
                    kept.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def _up(self) -> list[tuple[Node, Engine, Queues]]:
        return [
            (node, engine, self._queues[engine])
            for node in self._world.nodes
            if (engine := node.engine) is not None and engine in self._queues
        ]

    def declare(self) -> None:
        """At the first node."""
        node, _engine, queues = self._up[0]
        for name, arguments in _QUEUES.items():
            command = DeclareQueue(
                asker=Principal(),
                name=name,
                durable=True,
                arguments=arguments,
            )
            self._done(node, queues.ask(command), f"declaring {name}")

    def _done(self, node: Node, work: Coroutine[Any, Any, object], what: str) -> None:
        assert node.loop is not None
        task = node.loop.create_task(work)
        end = self._world.now + _PATIENCE
        while not task.done():
            if self._world.now > end:
                raise Broken(f"{what} takes too long")
            self._world.run_for(0.1)
        try:
            task.result()
        except MillpondError as error:
            raise Broken(f"{what} failed: {error}") from error

    # --- trouble -----------------------------------------------------------------------------------

    def strike(self) -> None:
        """Something that moves leaders."""
        chance = self._world.chance
        kinds: list[Callable[[], None]] = [self._kill_two, self._flap, self._part, self._pause]
        kind = chance.choice(kinds)
        self._world.trace.note("strike", kind.__name__)
        kind()

    def _kill_two(self) -> None:
        world = self._world
        for node in world.chance.sample(world.nodes, 2):
            node.kill()
            world.run_for(world.chance.choice([0.0, 0.3, 5.0]))
        world.run_for(world.chance.choice([0.5, 8.0, 14.0]))

    def _flap(self) -> None:
        """Leaders move to and fro, faster than nodes can follow."""
        world = self._world
        for _ in range(world.chance.randrange(2, 12)):
            for node, engine, _queues in self._up:
                if engine.metadata.is_controller and node.loop is not None:
                    node.loop.create_task(self._move(engine))
            world.run_for(world.chance.choice([0.0, 0.001, 0.01, 0.5]))

    async def _move(self, engine: Engine) -> None:
        chance = self._world.chance
        changes = [
            PartitionChangeRecord(
                partition_id=index, topic_id=topic.topic_id, leader=chance.choice(state.isr)
            )
            for topic in engine.metadata.quorum.head.topics.values()
            if topic.name in _QUEUES
            for index, state in enumerate(topic.partitions)
            if state.isr
        ]
        try:
            await engine.metadata.quorum.propose(changes)
        except MillpondError as error:
            self._world.trace.note("not moved", str(error))

    def _part(self) -> None:
        world = self._world
        node = world.chance.choice(world.nodes)
        for other in world.nodes:
            if other is not node:
                world.network.cut |= {(node.id, other.id), (other.id, node.id)}
        world.run_for(world.chance.choice([3.0, 12.0, 25.0]))

    def _pause(self) -> None:
        world = self._world
        loop = world.chance.choice(world.nodes).loop
        if loop is not None:
            loop.pause()
            world.run_for(world.chance.choice([3.0, 12.0, 25.0]))
            loop.resume()

    def heal(self) -> None:
        """Everything runs, and everybody reaches everybody."""
        self._world.network.heal()
        for node in self._world.nodes:
            node.start()

    # --- checks ------------------------------------------------------------------------------------

    def await_well(self, within: float) -> None:
        """Until every node serves, is counted on by all, and all partitions have a leader."""
        end = self._world.now + within
        while not self._is_well():
            if self._world.now > end:
                raise Broken(f"the cluster is not well after {within} s without faults")
            self._world.run_for(0.25)

    def _is_well(self) -> bool:
        up = self._up
        if len(up) < len(self._world.nodes):
            return False
        applied = {engine.metadata.quorum.applied for _node, engine, _queues in up}
        return len(applied) == 1 and all(
            not engine.membership.is_cut_off
            and all(engine.metadata.image.is_active(node.id) for node in self._world.nodes)
            and all(
                state.leader >= 0
                for topic in engine.metadata.image.topics.values()
                for state in topic.partitions
            )
            for _node, engine, _queues in up
        )

    def check(self) -> None:
        """Each queue has the host that it should have, soon."""
        end = self._world.now + _HOSTED_WITHIN
        while missing := self._without_host():
            if self._world.now > end:
                raise Broken(
                    f"all is well for {_HOSTED_WITHIN} s, and nobody hosts {', '.join(missing)}"
                )
            self._world.run_for(0.25)
        for node, _engine, queues in self._up:
            for name in _QUEUES if node.id == _CLIENTS_AT else ():
                self._done(node, _ask(queues, name), f"asking {name} from node {node.id}")

    def _without_host(self) -> list[str]:
        hosted = {
            name
            for _node, engine, queues in self._up
            for name in _QUEUES
            if isinstance(face := queues._handles.get(("/", name)), LocalQueue)
            and queues.host_of(face.queue) == engine.info.node_id
        }
        return sorted(_QUEUES.keys() - hosted)


async def _ask(queues: Queues, name: str) -> None:
    await queues.find("/", name).glance()


def _message(number: int) -> Message:
    return Message("", "", b"", {}, str(number).encode(), 0, is_persistent=True)
