"""A member of a group falls silent, is given up, and comes back with what it was about to commit."""

import asyncio
import contextlib

from tests.sim.cluster.client import Client, Refused
from tests.sim.cluster.members import Member, Team
from tests.sim.cluster.producers import Producer
from tests.sim.cluster.story import create, persistently, settle
from tests.sim.cluster.watch import Watch
from tests.sim.cluster.world import World

_PATIENCE = 120.0
_TOPIC = "strict"
# Longer than a session lasts without a heartbeat.
_SILENCE = 20.0


def a_member_comes_back(world: World) -> None:
    """Two members, one partition, and one position that counts."""
    watch = Watch(world)
    watch.begin()
    for node in world.nodes:
        node.start()
    client = world.client()
    world.finish(create(world, client, _TOPIC, 1), within=_PATIENCE, what="making a topic")
    producer = Producer(
        "w",
        world.client(),
        world.history,
        world.trace,
        topic=_TOPIC,
        partitions=[0],
        acks=-1,
        pace=1.0,
    )
    world.producers.append(producer)
    world.spawn(producer.run())
    world.run_for(10.0)
    team = Team("team", _TOPIC, 1)
    first, second = (
        Member(f"member{number}", team, world.client(), world.history, world.trace)
        for number in range(2)
    )
    work = _come_back(team, first, second, client)
    world.finish(work, within=_PATIENCE, what="what members do")
    producer.stopping = True
    settle(world)
    watch.look()


async def _come_back(team: Team, first: Member, second: Member, client: Client) -> None:
    await _until_it_owns(first)
    await persistently(first.work)
    before = team.acknowledged[0]
    await asyncio.sleep(_SILENCE)
    await _until_it_owns(second)
    await persistently(second.work)
    assert team.acknowledged[0] > before
    with contextlib.suppress(Refused):
        # If this is not refused, the group stands where it stood long ago.
        await first.commit(0, before)
    await persistently(lambda: team.check_end(client))


async def _until_it_owns(member: Member) -> None:
    while not member.owned:
        await persistently(member.beat)
        await asyncio.sleep(1.0)
