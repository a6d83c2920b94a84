"""A disk that cannot be read for a while, just when something is agreed: the node applies it soon after."""

from tests.sim.cluster.node import Node
from tests.sim.cluster.story import create
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

_PATIENCE = 60.0
# How long after the disk could be read again every node must know what all know.
_KNOWN_WITHIN = 5.0


def metadata_cannot_be_read(world: World) -> None:
    """Each node in turn cannot read its metadata while a topic is made, and nothing happens afterwards that
    would bring it up to date by chance."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    client = world.client()
    world.finish(create(world, client, "first", 1), within=_PATIENCE, what="making a topic")
    for node in world.nodes:
        node.storage.fail_reads = world.chance.choice(["__cluster_metadata", "data/"])
        world.trace.note("unreadable", str(node.id))
        making = create(world, client, f"while-{node.id}", 1)
        world.finish(making, within=_PATIENCE, what="making a topic")
        world.run_for(world.chance.choice([0.2, 2.0, 8.0]))
        node.storage.fail_reads = ""
        world.run_for(_KNOWN_WITHIN)
        _check_all_know(world.nodes)
    watch.look()


def _check_all_know(nodes: list[Node]) -> None:
    applied = {
        node.id: node.engine.quorum.applied
        for node in nodes
        if node.engine is not None and node.has_started
    }
    if len(applied) < len(nodes) or len(set(applied.values())) > 1:
        raise Broken(f"every disk can be read, and nodes have not applied the same: {applied}")
