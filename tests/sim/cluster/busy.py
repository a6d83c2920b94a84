"""A machine on which all nodes run is so busy that none of them does anything for seconds.

They stall together, so no node was missing: a controller that takes its own stall for the silence of others
would fence nodes that are well, and voters would elect another controller for nothing.
"""

from collections.abc import Callable

from millpond.engine.api import Image
from tests.sim.cluster.node import Node
from tests.sim.cluster.story import create
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

_TOPIC = "strict"
_PATIENCE = 60.0
_ROUNDS = 8
# Between the stalls; each begins for all nodes at once, and ends for them within this of each other.
_CALM = 12.0
_APART = 0.6


def a_busy_machine(world: World) -> None:
    """Stalls of all nodes together, longer than the silence after which a node is given up."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    making = create(world, world.client(), _TOPIC, 1)
    world.finish(making, within=_PATIENCE, what="making a topic")
    world.run_for(_CALM)
    for node in world.nodes:
        assert node.engine is not None
        node.engine.metadata.observe(_never_fenced(world))
    for _ in range(_ROUNDS):
        epoch = _epoch(world)
        length = world.chance.choice([1.0, 4.0, 8.0])
        for node in world.nodes:
            _stall(world, node, length + world.chance.random() * _APART)
        world.run_for(length + _CALM)
        if _epoch(world) != epoch:
            raise Broken("another controller was elected, though every node was only slow")
    watch.look()


def _epoch(world: World) -> int:
    return max(
        node.engine.metadata.quorum.leader_epoch for node in world.nodes if node.engine is not None
    )


def _stall(world: World, node: Node, seconds: float) -> None:
    assert node.loop is not None
    node.loop.pause()
    world.after(seconds, node.loop.resume)


def _never_fenced(world: World) -> Callable[[Image, Image], None]:
    def observe(before: Image, after: Image) -> None:
        for node, broker in after.brokers.items():
            known = before.brokers.get(node)
            if broker.fenced and known is not None and not known.fenced:
                world.fail(
                    Broken(f"node {node} was fenced, and was only slow together with its judge")
                )

    return observe
