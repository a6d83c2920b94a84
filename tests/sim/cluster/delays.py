"""Delayed records under faults: each that was acknowledged is delivered, and none of them twice."""

import asyncio
from collections import Counter
from functools import partial
from random import Random

from millpond.record.records import Headers
from tests.sim.cluster.consumers import fetch
from tests.sim.cluster.faults import Faults
from tests.sim.cluster.history import Glimpse, Place
from tests.sim.cluster.producers import Producer
from tests.sim.cluster.story import create, persistently, settle
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

_TOPIC = "later"
_PARTITIONS = 2
_SUFFERING = 150.0
_PATIENCE = 180.0
_DELAY_MS_MAX = 20_000
_SKEW_MS_MAX = 3_600_000


class Ledger:
    """What was sent and acknowledged, and what a reader found at the end."""

    def __init__(self) -> None:
        self.attempted: set[bytes] = set()
        self.acknowledged: dict[bytes, Place] = {}

    def attempt(self, _place: Place, value: bytes) -> None:
        """A producer sends this."""
        self.attempted.add(value)

    def acknowledge(self, place: Place, value: bytes, _offset: int) -> None:
        """All replicas have it, in the log or as a timer."""
        self.acknowledged[value] = place

    def glimpse(self, _place: Place) -> Glimpse:
        """Offsets are not judged here: what is delivered has another one."""
        return Glimpse(-1, 0, {})

    def written(self, place: Place, before: Glimpse, node: int, epoch: int, end: int) -> None:
        """As above."""

    def missing(self, found: Counter[bytes]) -> set[bytes]:
        """What was acknowledged and not found. Raises ``Broken`` for what must not be there."""
        for value, count in found.items():
            if value not in self.attempted:
                raise Broken(f"{value!r} was read, and no producer sent it")
            if count > 1:
                raise Broken(f"{value!r} was delivered {count} times")
        return self.acknowledged.keys() - found.keys()


def delays_survive_faults(world: World) -> None:
    """Producers delay some of their records while nodes die, part and come back."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    client = world.client()
    configs = {"millpond.delay.enable": "true"}
    making = create(world, client, _TOPIC, _PARTITIONS, **configs)
    world.finish(making, within=_PATIENCE, what="making a topic")
    ledger = Ledger()
    for number in range(2):
        dice = Random(f"{world.seed}/delays {number}")
        producer = Producer(
            f"d{number}",
            world.client(),
            ledger,
            world.trace,
            topic=_TOPIC,
            partitions=list(range(_PARTITIONS)),
            acks=-1,
            pace=1.0,
            headers_of=partial(_headers, dice),
        )
        world.producers.append(producer)
        world.spawn(producer.run())
    faults = Faults(world)
    while world.now < _SUFFERING:
        world.run_for(faults.pause())
        faults.strike()
    faults.heal()
    for node in world.nodes:
        # As far ahead as any has been: what was due by one of the clocks is due now.
        node.clock.skew_ms = _SKEW_MS_MAX
    world.run_for(10.0)
    for producer in world.producers:
        producer.stopping = True
    settle(world)
    world.finish(_judge(world, ledger), within=_PATIENCE, what="what must be delivered")
    # What would come twice has had its time.
    world.run_for(_DELAY_MS_MAX / 1000 + 10.0)
    world.finish(_judge(world, ledger), within=_PATIENCE, what="reading it again")
    watch.look()
    assert ledger.acknowledged


def _headers(dice: Random, _value: bytes) -> Headers:
    if dice.random() < 0.3:
        return ()
    return (("millpond.delay", b"%d" % dice.randrange(_DELAY_MS_MAX)),)


async def _judge(world: World, ledger: Ledger) -> None:
    """Read everything until nothing is missing."""
    while True:
        found: Counter[bytes] = Counter()
        for partition in range(_PARTITIONS):
            found += await _read_all(world, (_TOPIC, partition))
        missing = ledger.missing(found)
        if not missing:
            return
        world.trace.note("missing", f"{len(missing)}: {min(missing)!r}")
        await asyncio.sleep(5.0)


async def _read_all(world: World, place: Place) -> Counter[bytes]:
    client = world.client()
    found: Counter[bytes] = Counter()
    offset = 0

    async def step() -> bool:
        nonlocal offset
        client.forget_leader(*place)
        node_id, epoch = await client.leader(*place)
        offset, records, high = await fetch(
            client, place, offset, node_id=node_id, epoch=epoch, wait_ms=0
        )
        found.update(value for _at, value in records if value is not None)
        return offset >= high

    while not await persistently(step):
        pass
    return found
