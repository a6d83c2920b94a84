"""A bit of a leader's log is another one than was written: nobody is given it for what was written, and soon
it is again what the others have."""

import asyncio

from millpond.record.batch import iter_batches
from tests.sim.cluster.client import Client, Refused
from tests.sim.cluster.connection import Disconnected
from tests.sim.cluster.consumers import fetch
from tests.sim.cluster.history import Place
from tests.sim.cluster.node import Node
from tests.sim.cluster.producers import Producer
from tests.sim.cluster.story import create, read_all, settle
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

_PLACE: Place = ("strict", 0)
_PATIENCE = 60.0


def a_leaders_disk_rots(world: World) -> None:
    """Write, let a bit change, read; then read again, when it is repaired."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    client = world.client()
    world.finish(create(world, client, _PLACE[0], 1), within=_PATIENCE, what="making a topic")
    producer = Producer(
        "w",
        world.client(),
        world.history,
        world.trace,
        topic=_PLACE[0],
        partitions=[0],
        acks=-1,
        pace=0.5,
    )
    world.producers.append(producer)
    world.spawn(producer.run())
    world.run_for(20.0)
    producer.stopping = True
    settle(world)
    leader, _epoch = world.finish(client.leader(*_PLACE), within=_PATIENCE, what="looking up")
    node = world.nodes[leader - 1]
    path, sound = _rot(world, node)
    world.finish(_read_what_rots(world, client), within=_PATIENCE, what="reading what is rotten")
    node.mend()
    reading = read_all(world, world.client(), _PLACE, committed=False)
    world.finish(reading, within=_PATIENCE, what="reading what was repaired")
    world.history.check_end()
    world.run_for(30.0)
    watch.look()
    if node.storage.read_all(path) != sound:
        raise Broken(f"{path} of node {node.id} is not what it was")


def _rot(world: World, node: Node) -> tuple[str, bytes]:
    """A bit changes; in which file, and what that was before."""
    assert node.engine is not None
    node.engine.partitions.replica(
        *_PLACE
    ).log.flush()  # what has not been on a disk cannot rot there
    (path,) = (one for one in node.storage.files() if one.endswith("strict-0/" + "0" * 20 + ".log"))
    data = node.storage.read_all(path) or b""
    batches = [(position, header.size) for position, header in iter_batches(data)]
    position, size = world.chance.choice(batches)
    # The last byte but one of a batch is in the value of its last record.
    node.rot(path, position + size - 2, 1 << world.chance.randrange(8))
    return path, data


async def _read_what_rots(world: World, client: Client) -> None:
    """All that is given is right; what is not is refused, until it is repaired."""
    offset = 0
    while True:
        try:
            node_id, epoch = await client.leader(*_PLACE)
            offset, found, high = await fetch(
                client, _PLACE, offset, node_id=node_id, epoch=epoch, wait_ms=0
            )
        except (Disconnected, Refused) as no:
            world.trace.note("damage", f"{no!r} at {offset}")
            return
        for at, value in found:
            world.history.read(_PLACE, at, value)
        if offset >= high:
            return
        await asyncio.sleep(0.1)
