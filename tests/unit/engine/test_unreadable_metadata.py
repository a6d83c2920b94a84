"""A disk that cannot be read for a while: what is agreed is applied all the same, a moment later."""

import asyncio
import logging
from collections import deque

import pytest

from millpond.base import limits
from millpond.engine.quorum.effects import queue_effect
from millpond.raft.messages import (
    Committed,
    Deposed,
    Effect,
    LeaderChanged,
    SnapshotId,
    SnapshotInstalled,
)
from tests.support.time.virtual_loop import run
from tests.unit.engine.test_quorum_host import VOTERS, cluster, known

METADATA = "__cluster_metadata"


def test_a_follower_applies_what_was_agreed_while_it_could_not_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with cluster() as nodes:
            await nodes.propose(1)
            await nodes.agreed(1)
            leader = await nodes.leader()
            (node, *_) = (one for one in VOTERS if one != leader)
            nodes.storages[node].fail_reads = METADATA
            await nodes.propose(2)
            host = nodes.host(node)
            while host.high_watermark < nodes.host(leader).high_watermark:
                await asyncio.sleep(0.01)
            await asyncio.sleep(60)
            assert known(host) == {"1"}
            # Once at first and every half a minute; tried more often than that.
            said = [one for one in caplog.records if "cannot be carried out now" in one.message]
            assert 2 <= len(said) <= 4
            nodes.storages[node].fail_reads = ""
            await asyncio.sleep(limits.QUORUM_EFFECT_RETRY_MS_MAX / 1000 + 0.1)
            assert known(host) == {"1", "2"}
            assert caplog.messages[-1].endswith("nothing was left out")

    with caplog.at_level(logging.WARNING, "millpond.engine.quorum.quorum_driver"):
        run(story())


async def test_a_leader_that_cannot_read_for_its_followers_lets_another_lead() -> None:
    async with cluster() as nodes:
        await nodes.propose(1)
        await nodes.agreed(1)
        leader = await nodes.leader()
        nodes.storages[leader].fail_reads = METADATA
        before = asyncio.get_running_loop().time()
        for value in (2, 3):
            await nodes.propose(value)
        assert await nodes.leader() != leader
        assert asyncio.get_running_loop().time() - before < 2
        nodes.storages[leader].fail_reads = ""
        await nodes.agreed(1, 2, 3)


@pytest.mark.parametrize(
    ("waiting", "effect", "left"),
    [
        ([], Committed(5), [Committed(5)]),
        ([Committed(5)], Committed(9), [Committed(9)]),
        # What was agreed before an epoch ended is applied before its proposals are given up.
        ([Committed(5), Deposed(1)], Committed(9), [Committed(5), Deposed(1), Committed(9)]),
        # A snapshot stands for what the log no longer has.
        (
            [LeaderChanged(1, 2), Committed(5), SnapshotInstalled(SnapshotId(7, 1)), Committed(8)],
            SnapshotInstalled(SnapshotId(8, 1)),
            [LeaderChanged(1, 2), SnapshotInstalled(SnapshotId(8, 1))],
        ),
        (
            [Committed(9)],
            SnapshotInstalled(SnapshotId(8, 1)),
            [Committed(9), SnapshotInstalled(SnapshotId(8, 1))],
        ),
    ],
)
def test_what_waits_is_what_still_has_to_be_done(
    waiting: list[Effect], effect: Effect, left: list[Effect]
) -> None:
    line = deque(waiting)
    queue_effect(line, effect)
    assert list(line) == left
