"""A process ends on a machine that lives: others lead in its place long before its session is over."""

from collections.abc import Callable

from tests.sim.cluster.node import Node
from tests.sim.cluster.story import create
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

_TOPIC = "strict"
_PATIENCE = 60.0
# A session takes nine seconds, the quorum's own time-out twelve.
_AT_ONCE = 3.0
_NOT_BEFORE = 6.0


def an_end_is_seen(world: World) -> None:
    """Leaders and controllers are killed; then one is cut off, which proves nothing to anybody."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    making = create(world, world.client(), _TOPIC, 1)
    world.finish(making, within=_PATIENCE, what="making a topic")
    for roles in (_leaders, _controllers) * 2:
        victim = _await(world, roles)
        took = _replaced_after(world, victim, victim.kill)
        if took > _AT_ONCE:
            raise Broken(f"node {victim.id} ended, and nobody took its place for {took:.1f} s")
        victim.start()
        world.run_for(20.0)
    victim = _await(world, _leaders)
    took = _replaced_after(world, victim, lambda: _silence(world, victim))
    if took < _NOT_BEFORE:
        raise Broken(f"node {victim.id} lives, and others took its place after {took:.1f} s")
    world.network.heal()
    world.run_for(20.0)
    watch.look()


def _replaced_after(world: World, victim: Node, strike: Callable[[], None]) -> float:
    """How long nobody else led the partition, or the quorum."""
    began = world.now
    strike()
    while world.now < began + _PATIENCE:
        if all(any(node is not victim for node in found(world)) for found in _ROLES):
            return world.now - began
        world.run_for(0.1)
    raise Broken(f"nobody takes the place of node {victim.id}")


def _silence(world: World, node: Node) -> None:
    for other in world.nodes:
        if other is not node:
            world.network.cut |= {(node.id, other.id), (other.id, node.id)}


def _await(world: World, found: Callable[[World], list[Node]]) -> Node:
    end = world.now + _PATIENCE
    while world.now < end:
        if nodes := found(world):
            return nodes[0]
        world.run_for(0.1)
    raise Broken(f"nobody leads after {_PATIENCE} s")


def _leaders(world: World) -> list[Node]:
    return [
        node
        for node in world.nodes
        if node.engine is not None
        and node.is_serving
        and any(one.is_leader for one in node.engine.topics if one.topic == _TOPIC)
    ]


def _controllers(world: World) -> list[Node]:
    return [
        node
        for node in world.nodes
        if node.engine is not None and node.has_started and node.engine.metadata.quorum.is_active
    ]


_ROLES = (_leaders, _controllers)
