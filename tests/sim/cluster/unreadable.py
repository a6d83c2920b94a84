"""A disk that cannot be read for a while, just when something is agreed or opened: soon after all is well."""

from tests.sim.cluster.node import Node
from tests.sim.cluster.producers import Producer
from tests.sim.cluster.story import create, settle
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

_PATIENCE = 60.0
# How long after the disk could be read again every node must know what all know.
_KNOWN_WITHIN = 5.0

_OPENED = "opened"
# The longest pause before a partition is tried again is a minute; then it has to follow and be let in.
_OPENED_WITHIN = 100.0


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
        node.id: node.engine.metadata.quorum.applied
        for node in nodes
        if node.engine is not None and node.has_started
    }
    if len(applied) < len(nodes) or len(set(applied.values())) > 1:
        raise Broken(f"every disk can be read, and nodes have not applied the same: {applied}")


def a_log_cannot_be_opened(world: World) -> None:
    """A node starts, and its disk cannot be read where a partition is; later it can, and the node has its
    replica again, in sync, without another start."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    client = world.client()
    world.finish(create(world, client, _OPENED, 1), within=_PATIENCE, what="making a topic")
    producer = Producer(
        "w",
        world.client(),
        world.history,
        world.trace,
        topic=_OPENED,
        partitions=[0],
        acks=-1,
        pace=1.0,
    )
    world.producers.append(producer)
    world.spawn(producer.run())
    world.run_for(10.0)
    for node in world.nodes:
        node.kill()
        node.storage.fail_reads = f"data/{_OPENED}-0/"
        node.start()
        world.run_for(world.chance.choice([10.0, 30.0]))
        node.storage.fail_reads = ""
        _await_replica(world, node)
    producer.stopping = True
    settle(world)
    watch.look()


def _await_replica(world: World, node: Node) -> None:
    end = world.now + _OPENED_WITHIN
    while not _has_replica(node):
        if world.now > end:
            raise Broken(
                f"the disk of node {node.id} can be read for {_OPENED_WITHIN} s, and {_OPENED}-0 is not "
                "there, or not in sync"
            )
        world.run_for(0.5)


def _has_replica(node: Node) -> bool:
    engine = node.engine
    if engine is None or not engine.runtime.running or engine.topics.failed_to_open:
        return False
    return node.id in engine.metadata.image.topics[_OPENED].partitions[0].isr
