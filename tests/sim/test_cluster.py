"""Whole clusters under faults: real engines, real Kafka bytes, simulated time, disks and networks.

``make sim SEEDS=5000`` lives as many lives as one likes. A life that ends badly prints the command that
lives it again with every line of what happened.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from millpond.base.errors import MillpondError
from tests.sim.cluster.apart import two_lose_each_other
from tests.sim.cluster.busy import a_busy_machine
from tests.sim.cluster.delays import delays_survive_faults
from tests.sim.cluster.disks import (
    FAILING_DIRECTORIES,
    FAILING_DISKS,
    disks_fail_for_a_while,
)
from tests.sim.cluster.ends import an_end_is_seen
from tests.sim.cluster.hosts import queues_find_their_hosts
from tests.sim.cluster.lives import life_of, one_life
from tests.sim.cluster.planted import LIVES_MAX, PLANTED
from tests.sim.cluster.rot import a_leaders_disk_rots
from tests.sim.cluster.silence import a_member_comes_back
from tests.sim.cluster.trace import Broken
from tests.sim.cluster.unreadable import a_log_cannot_be_opened, metadata_cannot_be_read
from tests.sim.cluster.votes import voters_die_after_voting
from tests.sim.cluster.world import Shape, World, live
from tests.sim.conftest import FIGURES

SEEDS = int(os.environ.get("SEEDS", "8"))


# One node is simple; most of what can go wrong takes several.
SEEDS_ALONE = max(2, SEEDS // 25)

# A life that ends badly becomes a named test: what was wrong → the seed. It stays beside the test of what was
# mended, because a seed makes another life when the dice of the simulation change.
PINNED = {
    "a life that meets most kinds of trouble": 10,
    "a lease that ends before the fetches of a quiet quorum come again": 259,
    "a node killed before it hears of its registration is taken for one that lost its disk": 368,
    "a replica leads that fell silent before the leader, which has lost its power": 122,
}

_DEFAULTS = Shape(nodes=3, has_default_timeouts=True, settings={"replica.fetch.wait.max.ms": "500"})


def lived(seed: int, nodes: int | None = None) -> World:
    """A life that must end well; how to see it again if it does not."""
    world = World(seed, life_of(seed, nodes))
    try:
        return one_life(world)
    except Exception as error:
        again = f"{seed} --nodes {nodes}" if nodes else f"{seed}"
        error.add_note(f"Again, with its lines: python -m tests.sim.cluster {again}")
        raise


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_acknowledged_is_lost(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    world = lived(seed)
    record_property(FIGURES, world.figures())
    assert world.now >= 600
    assert world.history.acknowledged


@pytest.mark.parametrize("seed", range(SEEDS_ALONE))
def test_nothing_acknowledged_is_lost_by_a_node_alone(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    world = lived(seed, nodes=1)
    record_property(FIGURES, world.figures())
    assert world.history.acknowledged


@pytest.mark.parametrize("what", PINNED)
def test_what_went_wrong_once(what: str) -> None:
    assert lived(PINNED[what]).history.acknowledged


def test_one_seed_is_one_life() -> None:
    first, second = (World(5, life_of(5)) for _ in range(2))
    one_life(first)
    one_life(second)
    assert first.trace.digest == second.trace.digest


def test_a_life_does_not_depend_on_the_order_of_hashes() -> None:
    ends = {
        subprocess.run(
            [sys.executable, "-m", "tests.sim.cluster", "8", "--only", "nothing"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.rpartition("digest ")[2]
        for seed in ("1", "2")
    }
    assert len(ends) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_voter_that_dies_after_voting_remembers(seed: int) -> None:
    live(World(seed, Shape(nodes=3)), voters_die_after_voting)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "story",
    [
        a_leaders_disk_rots,
        a_member_comes_back,
        an_end_is_seen,
        metadata_cannot_be_read,
        a_log_cannot_be_opened,
        queues_find_their_hosts,
    ],
)
def test_what_has_a_story_of_its_own(story: Callable[[World], None], seed: int) -> None:
    live(World(seed, Shape(nodes=3)), story)


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("seed", range(max(3, SEEDS // 4)))
def test_delayed_records_are_delivered_once(seed: int, nodes: int) -> None:
    live(World(seed, Shape(nodes=nodes, fault_pause=6.0)), delays_survive_faults)


@pytest.mark.parametrize("policy", ["os", "group"])
@pytest.mark.parametrize("seed", range(max(3, SEEDS // 4)))
def test_disks_fail_for_a_while_and_nothing_stands_twice(seed: int, policy: str) -> None:
    shape = replace(
        FAILING_DISKS, settings={**(FAILING_DISKS.settings or {}), "log.flush.policy": policy}
    )
    world = live(World(seed, shape), disks_fail_for_a_while)
    assert world.history.acknowledged > 100


@pytest.mark.parametrize("policy", ["os", "group"])
@pytest.mark.parametrize("seed", range(max(3, SEEDS // 4)))
def test_one_of_two_directories_fails_and_the_node_serves_on(seed: int, policy: str) -> None:
    shape = replace(
        FAILING_DIRECTORIES,
        settings={**(FAILING_DIRECTORIES.settings or {}), "log.flush.policy": policy},
    )
    world = live(World(seed, shape), disks_fail_for_a_while)
    assert world.history.acknowledged > 100


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("story", [a_busy_machine, two_lose_each_other])
def test_what_has_a_story_with_default_timeouts(story: Callable[[World], None], seed: int) -> None:
    live(World(seed, _DEFAULTS), story)


# --- the checkers can fail ------------------------------------------------------------------------


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the checker whose matter it is; what else breaks first does not count."""
    planted = PLANTED[bug]
    planted.plant(monkeypatch)
    for seed in range(LIVES_MAX):
        try:
            live(World(seed, planted.shape), planted.story)
        except (AssertionError, MillpondError) as error:
            if isinstance(error, Broken) and re.search(planted.finding, str(error)):
                return
    pytest.fail(f"{bug}: {LIVES_MAX} lives and nobody noticed")


@pytest.mark.parametrize("bug", PLANTED)
def test_nothing_is_found_where_no_bug_is_planted(bug: str) -> None:
    live(World(0, PLANTED[bug].shape), PLANTED[bug].story)
