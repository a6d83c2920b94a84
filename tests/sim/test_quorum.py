"""The quorum under faults: hundreds of short lives of a cluster, each decided by its seed."""

import os
from collections.abc import Callable

import pytest

from millpond.base.ids import Offset
from millpond.raft import leading
from millpond.raft.messages import ReplicaKey, Vote
from millpond.raft.replica import Replica
from millpond.raft.roles import Leader
from millpond.raft.storage import ElectionState
from millpond.raft.voters import VoterSet
from tests.sim.raft_disk import MemoryLog, MemoryStore
from tests.sim.raft_world import Broken, World

# The quorum alone; the lives of whole clusters (``test_cluster``) have it in them, too.
SEEDS = max(12, int(os.environ.get("SEEDS", "12")) // 5)
_FAULTY_MS = 120_000
_CALM_MS = 60_000


def live(world: World) -> World:
    """Two minutes of faults, one of calm; then everything must be in order."""
    chance = world.random
    at = 0
    while at < _FAULTY_MS:
        at += chance.randrange(20, 400)
        world.run_until(at)
        world.propose()
        if chance.random() < 0.15:
            _break_something(world)
    _heal(world)
    for _ in range(20):
        at += _CALM_MS // 20
        world.run_until(at)
        world.propose()
    world.run_until(at + 5_000)
    world.check_end()
    return world


def _break_something(world: World) -> None:
    chance = world.random
    world.faults += 1
    node = chance.choice(world.nodes)
    match chance.randrange(9):
        case 0 | 1:
            if node.replica is not None:
                node.crash()
                away = chance.choice([5, 8_000])
                world.after(chance.randrange(1, away), node.restart)
        case 2:
            node.paused_until = world.now + chance.randrange(1, 9_000)
        case 3:
            alone = {n.id for n in chance.sample(world.nodes, chance.randrange(1, 3))}
            ids = range(len(world.nodes))
            world.cut = {(a, b) for a in ids for b in ids if (a in alone) != (b in alone)}
        case 4:
            world.cut = {(node.id, chance.choice(world.nodes).id) for _ in range(3)}
        case 5:
            world.loss = chance.choice([0.0, 0.05, 0.3])
            world.doubling = chance.choice([0.0, 0.2])
            world.delay_max = chance.choice([5, 50, 800])
            world.frailty = chance.choice([0.0, 0.5])
        case 6:
            world.change_voters()
        case 7:
            leaders = [n for n in world.nodes if n.replica is not None and n.replica.is_leader]
            if leaders:
                chance.choice(leaders).step(lambda replica, now: replica.resign(now))
        case _:
            world.cut = set()


def _heal(world: World) -> None:
    world.cut = set()
    world.loss = world.doubling = 0.0
    world.delay_max = 10
    world.frailty = 0.0
    for node in world.nodes:
        node.paused_until = 0
        node.restart()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_the_quorum_agreed_on_stays_agreed(seed: int) -> None:
    world = live(World(seed))
    assert world.acknowledged


def test_some_life_sees_everything() -> None:
    worlds = [live(World(seed)) for seed in range(10)]
    assert max(len(world.leaders) for world in worlds) > 5
    assert sum(len(world.acknowledged) for world in worlds) > 500
    assert any(node.log.snapshot for world in worlds for node in world.nodes)
    assert any(
        node.replica is not None and node.replica.voter_history.latest_offset > 0
        for world in worlds
        for node in world.nodes
    )


# --- the checkers can fail ------------------------------------------------------------------------


class ForgetfulStore(MemoryStore):
    """A vote that was given is not written down."""

    def save(self, state: ElectionState) -> None:
        self.state = ElectionState(epoch=state.epoch)


class BoastfulLog(MemoryLog):
    """Claims that what was appended is durable."""

    _durable = 0

    @property
    def durable_end(self) -> Offset:
        return self.end_offset if self._boast else self._durable

    @durable_end.setter
    def durable_end(self, value: Offset) -> None:
        self._durable = value

    _boast = True

    def lose_power(self) -> None:
        self._boast = False
        super().lose_power()
        self._boast = True


class PartialReplica(Replica):
    """Votes for anybody, however short his log is."""

    def _grants(self, request: Vote) -> bool:
        return super()._grants(
            Vote(
                epoch=request.epoch,
                candidate=request.candidate,
                last_epoch=2**30,
                end_offset=2**60,
                pre_vote=request.pre_vote,
            )
        )


class TwoFacedReplica(Replica):
    """Votes as often as it is asked."""

    def _grants(self, request: Vote) -> bool:
        self.state = ElectionState(epoch=self.state.epoch, leader=self.state.leader)
        return super()._grants(request)


def _hasty(_role: Leader, _voters: VoterSet, _own: ReplicaKey, own_end: Offset) -> Offset:
    return own_end


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a vote is forgotten in a crash": lambda patch: patch.setattr(
        World, "make_store", staticmethod(ForgetfulStore)
    ),
    "what is not flushed is claimed": lambda patch: patch.setattr(
        World, "make_log", staticmethod(BoastfulLog)
    ),
    "a short log is elected": lambda patch: patch.setattr(World, "replica_class", PartialReplica),
    "two votes in an epoch": lambda patch: patch.setattr(World, "replica_class", TwoFacedReplica),
    "the leader alone agrees": lambda patch: patch.setattr(leading, "agreed_end", _hasty),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)
    for seed in range(30, 70):
        try:
            live(World(seed))
        except (Broken, AssertionError):
            return
    pytest.fail(f"{bug}: forty lives and nobody noticed")
