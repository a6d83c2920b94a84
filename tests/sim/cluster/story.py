"""Ten minutes of a cluster's life: it is built, suffers, heals, and is judged."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.sim.cluster.admin import Admin
from tests.sim.cluster.client import Client, Refused, check
from tests.sim.cluster.connection import Disconnected
from tests.sim.cluster.consumers import Consumer, committed_offset, fetch
from tests.sim.cluster.copier import Copier
from tests.sim.cluster.faults import Faults
from tests.sim.cluster.history import Place
from tests.sim.cluster.keeper import Keeper, key_of
from tests.sim.cluster.members import Member, Team
from tests.sim.cluster.producers import PASSING, Producer
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

T = TypeVar("T")

_SUFFERING = 400.0
_PATIENCE = 120.0

# The topic that is compacted, where one is.
_KEPT = "kept"

# topic → (partitions, whether its writers ask for all replicas; nothing: it has no such writers).
_TOPICS = {"strict": (2, True), "loose": (1, False), "copied": (2, None)}


def whole_life(world: World) -> None:
    """The story."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    maker = world.client()
    for name, (partitions, _all) in _TOPICS.items():
        world.finish(create(world, maker, name, partitions), within=30.0, what=f"making {name}")
    if world.shape.compacts:
        world.finish(_create_kept(world, maker), within=30.0, what=f"making {_KEPT}")
    _people(world)
    faults = Faults(world)
    while world.now < _SUFFERING:
        world.run_for(faults.pause())
        faults.strike()
    faults.heal()
    world.run_for(10.0)
    for producer in world.producers:
        producer.stopping = True
    for consumer in world.consumers:
        consumer.stopping = True
    for copier in world.copiers:
        copier.stopping = True
    for admin in world.admins:
        admin.stopping = True
    for member in world.members:
        member.stopping = True
    settle(world)
    world.finish(_judge(world), within=_PATIENCE, what="reading everything")
    world.history.check_end()
    watch.look()
    for copier in world.copiers:
        world.finish(_check_copier(world, copier), within=_PATIENCE, what=f"judging {copier.name}")
    for consumer in world.consumers:
        world.finish(
            persistently(consumer.check_end), within=_PATIENCE, what=f"reading {consumer.name}"
        )
    for keeper in world.keepers:
        work = keeper.check_end(world.client(), persistently)
        world.finish(work, within=_PATIENCE, what=f"reading {_KEPT}")
    for team in world.teams:
        world.finish(_check_team(world, team), within=_PATIENCE, what=f"judging {team.name}")
    world.run_for(max(600.0 - world.now, 0.0))


def _people(world: World) -> None:
    chance = world.chance
    every = [(name, n) for name, (count, _all) in _TOPICS.items() for n in range(count)]
    for number, (name, (partitions, strict)) in enumerate(_TOPICS.items()):
        if strict is None:
            continue
        for copy in range(2 if strict else 1):
            producer = Producer(
                f"w{number}{copy}",
                world.client(),
                world.history,
                world.trace,
                topic=name,
                partitions=list(range(partitions)),
                acks=-1 if strict else 1,
                pace=chance.choice([4.0, 8.0, 16.0]),
            )
            world.producers.append(producer)
            world.spawn(producer.run())
    for number in range(2):
        consumer = Consumer(
            f"reader{number}",
            world.client(),
            world.history,
            world.trace,
            places=every,
            pace=chance.choice([6.0, 12.0]),
            follows=number == 1,
            commits=True,
        )
        world.consumers.append(consumer)
        world.spawn(consumer.run())
    copier = Copier(
        "copier",
        world.client(),
        world.history,
        world.trace,
        source=("strict", 0),
        target="copied",
        pace=chance.choice([8.0, 16.0]),
        joins=chance.random() < 0.5,
    )
    world.copiers.append(copier)
    world.spawn(copier.run())
    judge = Consumer(
        "committed",
        world.client(),
        world.history,
        world.trace,
        places=[("copied", 0), ("copied", 1)],
        pace=12.0,
        committed=True,
        on_value=copier.check_seen,
    )
    world.consumers.append(judge)
    world.spawn(judge.run())
    if world.shape.compacts:
        _keep(world)
    if world.shape.has_members:
        _gather(world)
    if chance.random() < 0.5:
        admin = Admin(
            world.client(),
            world.trace,
            places=every,
            nodes=world.nodes,
            pace=chance.choice([8.0, 30.0]),
        )
        world.admins.append(admin)
        world.spawn(admin.run())


def _keep(world: World) -> None:
    """Somebody writes the same keys again and again."""
    keeper = Keeper((_KEPT, 0))
    world.keepers.append(keeper)
    producer = Producer(
        "k",
        world.client(),
        keeper,
        world.trace,
        topic=_KEPT,
        partitions=[0],
        acks=-1,
        pace=2.0,
        key_of=key_of,
    )
    world.producers.append(producer)
    world.spawn(producer.run())


def _gather(world: World) -> None:
    """Two share what one could read alone."""
    team = Team("team", "strict", _TOPICS["strict"][0])
    world.teams.append(team)
    for number in range(2):
        member = Member(f"member{number}", team, world.client(), world.history, world.trace)
        world.members.append(member)
        world.spawn(member.run())


async def _check_team(world: World, team: Team) -> None:
    client = world.client()
    await persistently(lambda: team.check_end(client))


def settle(world: World) -> None:
    """Whoever was in the middle of something comes to its end."""
    end = world.now + _PATIENCE
    busy: list[Producer | Copier] = [*world.producers, *world.copiers]
    while waiting := [one.waits_for for one in busy if one.waits_for]:
        if world.now > end:
            raise Broken(f"no faults for {_PATIENCE} s, and these still wait: {waiting}")
        world.run_for(0.5)


async def persistently(work: Callable[[], Awaitable[T]]) -> T:
    """Again until it works."""
    while True:
        try:
            return await work()
        except Disconnected:
            await asyncio.sleep(0.5)
        except Refused as refused:
            if refused.code not in PASSING:
                raise
            await asyncio.sleep(0.5)


async def _judge(world: World) -> None:
    """Read everything from the start, as a client that has just come."""
    for name, (partitions, _all) in _TOPICS.items():
        for partition in range(partitions):
            await read_all(world, world.client(), (name, partition), committed=False)
            await read_all(world, world.client(), (name, partition), committed=True)


async def _check_copier(world: World, copier: Copier) -> None:
    client = world.client()
    position = await persistently(lambda: committed_offset(client, copier.name, copier.source))
    copier.check_end(world.history.committed, max(position, 0))


async def read_all(world: World, client: Client, place: Place, *, committed: bool) -> None:
    offset = 0
    note = world.history.read_committed if committed else world.history.read

    async def step() -> bool:
        nonlocal offset
        client.forget_leader(*place)
        node_id, epoch = await client.leader(*place)
        offset, found, high = await fetch(
            client,
            place,
            offset,
            node_id=node_id,
            epoch=epoch,
            committed=committed,
            wait_ms=0,
            leader_of=world.history,
        )
        for at, value in found:
            note(place, at, value)
        return offset >= high

    # A reader of committed data comes to the end, too: no transaction stays open for ever.
    while not await persistently(step):
        await asyncio.sleep(1.0)


async def _create_kept(world: World, client: Client) -> None:
    await create(world, client, _KEPT, 1, **{"cleanup.policy": "compact"})


async def create(world: World, client: Client, name: str, partitions: int, **configs: str) -> None:
    """Make a topic, whatever it takes."""
    count = min(len(world.nodes), 3)
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=count,
        configs=[
            CreatableTopicConfig(name=key, value=value)
            for key, value in {"min.insync.replicas": str(min(count, 2)), **configs}.items()
        ],
    )

    async def step() -> None:
        response = await client.ask_any(
            ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        )
        (result,) = response.topics
        if result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE)  # not everyone has registered yet
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(result.error_code)

    await persistently(step)
