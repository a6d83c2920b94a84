"""Which world a seed makes, and how it is lived."""

from dataclasses import replace
from random import Random

from tests.sim.cluster.story import whole_life
from tests.sim.cluster.world import Shape, World, live

# So many replicas does a topic have where there are enough nodes.
_COPIES = 3

# Where leaders stop leading after the default time without an answer of the controller.
_SHORT_LEASES = 0.25

# Where nodes have two log directories, each on a disk of its own.
_TWO_DISKS = 0.25


def life_of(seed: int, nodes: int | None = None) -> Shape:
    """The shape of a seed's world."""
    chance = Random(f"{seed}/shape")
    power = chance.random() < 0.4
    # Three voters; a fourth and a fifth node only follow, or all five vote.
    count = nodes or chance.choice([3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5])
    shape = Shape(
        nodes=count,
        voters=5 if count == 5 and chance.random() < 0.5 else 3,
        has_default_timeouts=chance.random() < 0.04,
        power=power,
        small_segments=chance.random() < 0.5,
        compacts=chance.random() < 0.3,
        has_members=chance.random() < 0.4,
    )
    if Random(f"{seed}/leases").random() < _SHORT_LEASES:
        shape = replace(shape, settings={"broker.silence.timeout.ms": "3000"})
    if Random(f"{seed}/log dirs").random() < _TWO_DISKS:
        shape = replace(shape, disks=2)
    is_lone = not power and shape.nodes >= _COPIES and chance.random() < 0.5
    return replace(shape, lone_power=is_lone)


def one_life(world: World) -> World:
    """Live it. Raises what broke."""
    return live(world, whole_life)
