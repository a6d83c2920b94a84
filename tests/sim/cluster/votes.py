"""The moment at which a forgotten vote does harm: a voter dies just after it has made somebody the leader,
and comes back to somebody else who wants to lead.
"""

from tests.sim.cluster.node import Node
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

_PATIENCE = 60.0


def voters_die_after_voting(world: World) -> None:
    """Again and again: an election, and the death of the one who decided it."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    _await_leader(world, -1)
    for _ in range(6):
        _one_election(world)
        world.network.heal()
        world.run_for(15.0)
        watch.look()


def _one_election(world: World) -> None:
    leader, epoch = _await_leader(world, -1)
    first, second = (node for node in world.nodes if node is not leader)
    # The old leader is gone. Of the two others one is elected, by the other's vote.
    leader.kill()
    elected, _epoch = _await_leader(world, epoch)
    voter = second if elected is first else first
    voter.kill()
    _part(world, elected, voter)
    _part(world, elected, leader)
    world.run_for(0.1)  # what is under way comes to nobody
    voter.start()
    leader.start()
    world.run_for(12.0)


def _part(world: World, one: Node, other: Node) -> None:
    world.network.cut |= {(one.id, other.id), (other.id, one.id)}


def _await_leader(world: World, above: int) -> tuple[Node, int]:
    """The first who leads an epoch above this one, in the moment in which it begins to."""
    end = world.now + _PATIENCE
    while world.now < end:
        for node in world.nodes:
            if node.engine is not None and node.has_started:
                replica = node.engine.metadata.quorum.replica
                if replica.is_leader and replica.epoch > above:
                    return node, replica.epoch
        world.run_for(0.0005)
    raise Broken(f"nobody leads after {_PATIENCE} s")
