"""The quorum under faults: hundreds of short lives of a cluster, each decided by its seed."""

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from millpond.base.ids import Offset
from millpond.raft import leading
from millpond.raft import replica as replica_module
from millpond.raft.epochs import JUMP_MAX
from millpond.raft.messages import ReplicaKey, Vote
from millpond.raft.replica import Replica
from millpond.raft.roles import Leader
from millpond.raft.storage import ElectionState
from millpond.raft.voters import VoterSet
from tests.sim.quorum import break_something, elect_again, forge_something, live
from tests.sim.raft_disk import MemoryLog, MemoryStore
from tests.sim.raft_world import Broken, World

# The quorum alone; the lives of whole clusters (``test_cluster``) have it in them, too.
SEEDS = max(12, int(os.environ.get("SEEDS", "12")) // 5)
_LIVES_MAX = 40

# A life that ends badly becomes a named test: what was wrong → the seed. It stays beside the test of what was
# mended, because a seed makes another life when the dice of the simulation change.
PINNED = {
    "an empty disk that votes makes a leader of who lacks something": 2,
    "a leader that removed itself and restarted does not stand again": 36,
}


def lived(seed: int) -> World:
    """A life that must end well; how to see it again if it does not."""
    try:
        return live(World(seed))
    except Exception as error:
        error.add_note(f"Again, with its lines: python -m tests.sim.quorum {seed}")
        raise


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_the_quorum_agreed_on_stays_agreed(seed: int) -> None:
    assert lived(seed).acknowledged


@pytest.mark.parametrize("what", PINNED)
def test_what_went_wrong_once(what: str) -> None:
    assert lived(PINNED[what]).acknowledged


@pytest.mark.parametrize("seed", range(4))
def test_forged_messages_do_no_harm(seed: int) -> None:
    world = live(World(seed), forge_something)
    assert world.acknowledged
    assert max(world.leaders) < JUMP_MAX


def test_some_life_sees_everything() -> None:
    worlds = [live(World(seed)) for seed in range(10)]
    assert max(len(world.leaders) for world in worlds) > 5
    assert sum(len(world.acknowledged) for world in worlds) > 500
    assert any(node.log.snapshot for world in worlds for node in world.nodes)
    assert sum(world.wiped for world in worlds) > 5
    assert any(
        node.replica is not None and node.replica.voter_history.latest_offset > 0
        for world in worlds
        for node in world.nodes
    )


# --- the checkers can fail ------------------------------------------------------------------------


class ForgetfulStore(MemoryStore):
    """A vote that was given is not written down."""

    def save(self, state: ElectionState) -> None:
        self.state = ElectionState(epoch=state.epoch, is_blank=state.is_blank)


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
        if self.state.is_blank:
            return super()._grants(request)
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
        self.state = replace(self.state, voted=None)
        return super()._grants(request)


class CarefreeReplica(Replica):
    """Votes with an empty disk as if it had always been empty."""

    def _grants(self, request: Vote) -> bool:
        if self.state.is_blank:
            self.state = replace(self.state, is_blank=False)
        return super()._grants(request)


class RestedReplica(Replica):
    """Says of itself that it has not backed anybody for very long."""

    @property
    def _backed_other_ms(self) -> int:
        return -100_000

    @_backed_other_ms.setter
    def _backed_other_ms(self, _now_ms: int) -> None:
        pass


class CredulousReplica(Replica):
    """Votes for everybody whose epoch is new."""

    def _may_be_voter(self, request: Vote) -> bool:
        return True


def _hasty(_role: Leader, _voters: VoterSet, _own: ReplicaKey, own_end: Offset) -> Offset:
    return own_end


_TWO_LEADERS = "is led by . and by ."
_LOST = "agreed to something else|which was committed"

# What is wrong → (how it gets in, what happens there, what the checkers say to it).
PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[World], None], str]] = {
    "a vote is forgotten in a crash": (
        lambda patch: patch.setattr(World, "make_store", staticmethod(ForgetfulStore)),
        elect_again,
        _TWO_LEADERS,
    ),
    "what is not flushed is claimed": (
        lambda patch: patch.setattr(World, "make_log", staticmethod(BoastfulLog)),
        break_something,
        _LOST,
    ),
    "a short log is elected": (
        lambda patch: patch.setattr(World, "replica_class", PartialReplica),
        break_something,
        _LOST,
    ),
    "two votes in an epoch": (
        lambda patch: patch.setattr(World, "replica_class", TwoFacedReplica),
        elect_again,
        _TWO_LEADERS,
    ),
    "an empty disk votes": (
        lambda patch: patch.setattr(World, "replica_class", CarefreeReplica),
        break_something,
        _LOST,
    ),
    "a voter forgets whom it backed": (
        lambda patch: patch.setattr(World, "replica_class", RestedReplica),
        break_something,
        "its successor believes",
    ),
    "a leader counts a fetch from when it reads it": (
        lambda patch: patch.setattr(World, "arrived_ms", staticmethod(lambda node: node.clock())),
        break_something,
        "its successor believes",
    ),
    "any epoch is believed": (
        lambda patch: patch.setattr(replica_module, "is_credible", lambda _own, _asked: True),
        forge_something,
        "nobody leads",
    ),
    "a stranger is voted for": (
        lambda patch: patch.setattr(World, "replica_class", CredulousReplica),
        forge_something,
        # Or one that has no vote is led into an epoch that the others never come to.
        "which is no voter|the logs end apart",
    ),
    "the leader alone agrees": (
        lambda patch: patch.setattr(leading, "agreed_end", _hasty),
        break_something,
        _LOST,
    ),
}


def test_elections_without_end_do_no_harm() -> None:
    for seed in range(2):
        assert live(World(seed), elect_again).acknowledged


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the checker whose matter it is. Without the bug the same lives end well: see above."""
    plant, strike, finding = PLANTED[bug]
    plant(monkeypatch)
    with pytest.raises(Broken, match=finding):
        _live_all(strike)


def _live_all(strike: Callable[[World], None]) -> None:
    for seed in range(_LIVES_MAX):
        live(World(seed), strike)
