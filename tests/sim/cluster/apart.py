"""Two nodes lose each other while the controller hears both: the leader goes on without the follower soon."""

from tests.sim.cluster.node import Node
from tests.sim.cluster.producers import Producer
from tests.sim.cluster.story import create, settle
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

_TOPIC = "strict"
_PATIENCE = 60.0
# replica.lag.time.max.ms is thirty.
_SOON = 5.0
# What was under way when the way was cut may still be acknowledged.
_UNDER_WAY = 0.2


def two_lose_each_other(world: World) -> None:
    """A leader and a follower, neither of them the controller, again and again."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    making = create(world, world.client(), _TOPIC, len(world.nodes))
    world.finish(making, within=_PATIENCE, what="making a topic")
    for _ in range(3):
        world.run_for(15.0)
        controller = _controller(world)
        leader, follower = world.chance.sample(
            [node for node in world.nodes if node is not controller], 2
        )
        producer = Producer(
            f"w{world.now:.0f}",
            world.client(),
            world.history,
            world.trace,
            topic=_TOPIC,
            partitions=[_led_by(leader)],
            acks=-1,
            pace=0.1,
        )
        world.producers.append(producer)
        world.spawn(producer.run())
        world.run_for(2.0)
        world.network.cut |= {(leader.id, follower.id), (follower.id, leader.id)}
        world.run_for(_UNDER_WAY)
        before, began = world.history.acknowledged, world.now
        while world.history.acknowledged == before:
            if world.now - began > _SOON:
                raise Broken(f"nothing is acknowledged {_SOON} s after two nodes lost each other")
            world.run_for(0.1)
        world.network.heal()
        producer.stopping = True
        settle(world)
    watch.look()


def _controller(world: World) -> Node:
    return next(
        node
        for node in world.nodes
        if node.engine is not None and node.engine.metadata.quorum.is_active
    )


def _led_by(node: Node) -> int:
    assert node.engine is not None
    return next(one.index for one in node.engine.topics if one.topic == _TOPIC and one.is_leader)
