"""Whole engines that replicate to each other: leaders change, nodes die, and what was acknowledged stays."""

import asyncio
from typing import Any

import pytest

from millpond.base.errors import NotEnoughReplicas, NotLeader
from millpond.base.ids import LeaderEpoch
from millpond.engine.api import Partition
from millpond.engine.peers import ReplicaFetch, ReplicaRead, ReplicaReads
from millpond.engine.replication import fetchers
from millpond.engine.replication.follower_reads import FollowerReads
from millpond.log.checkpoint import HIGH_WATERMARKS_FILE, read_offsets
from millpond.replication.fetch_session import SESSION_BEGINS
from millpond.replication.following import FollowStep, take
from tests.support.cluster.replica_nodes import ReplicaNodes, replica_nodes

WAYS = pytest.mark.parametrize("wire", [False, True], ids=["calls", "bytes"])


async def settled(nodes: ReplicaNodes, index: int = 0) -> None:
    """Until every follower that is up has what its leader has, and knows how much of it is committed."""
    async with asyncio.timeout(60):
        while True:
            replicas = [one.partitions.replica("t", index) for one in nodes.engines.values()]
            marks = {(one.log.end_offset, one.high_watermark) for one in replicas}
            if len(marks) == 1:
                return
            await asyncio.sleep(0.01)


@WAYS
async def test_what_is_acknowledged_to_all_is_on_every_node(wire: bool) -> None:
    async with replica_nodes(wire=wire) as nodes:
        await nodes.make_topic()
        for number in range(20):
            await nodes.write(1, b"%d" % number)
        ends = [nodes.replica(node).log.end_offset for node in (1, 2, 3)]
        assert ends == [20, 20, 20]
        await settled(nodes)
        assert nodes.values(1) == nodes.values(2) == nodes.values(3)


async def test_acks_1_does_not_wait_for_followers() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        assert nodes.append(1, b"v", acks=1) is None
        assert nodes.append(1, b"v", acks=-1) is not None
        await settled(nodes)


async def test_a_killed_leader_takes_nothing_acknowledged_with_it() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        acknowledged = []
        for number in range(10):
            await nodes.write(1, b"%d" % number)
            acknowledged.append(b"%d" % number)
        await nodes.kill(1)
        await nodes.change(isr=(2, 3), leader=2)
        await nodes.write(2, b"after")
        assert nodes.values(2) == nodes.values(3) == [*acknowledged, b"after"]


@WAYS
async def test_a_deposed_leader_cuts_off_what_nobody_else_has(wire: bool) -> None:
    async with replica_nodes(wire=wire) as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"both")
        await settled(nodes)
        nodes.cut |= {frozenset({1, 2}), frozenset({1, 3})}
        lost = nodes.append(1, b"only here")
        await nodes.change(isr=(2, 3), leader=2, to=(2, 3))
        await nodes.write(2, b"new")
        assert not lost.done()

        nodes.cut.clear()
        await nodes.change(isr=(2, 3), leader=2, to=(1,))
        with pytest.raises(NotLeader, match="node 2 leads"):
            await lost
        with pytest.raises(NotLeader, match="node 2 leads"):
            nodes.append(1, b"refused")
        await settled(nodes)
        assert nodes.values(1) == [b"both", b"new"]


async def test_a_node_that_comes_back_follows_and_is_in_sync_again() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"a")
        await nodes.kill(1)
        await nodes.change(isr=(2, 3), leader=2)
        await nodes.write(2, b"b")
        await nodes.start(1)
        # A node that is its own quorum begins an epoch when it was killed; here all of them do.
        await nodes.change(isr=(2, 3), leader=2)
        async with asyncio.timeout(60):
            while nodes.isr(2) != {1, 2, 3}:
                await asyncio.sleep(0.1)
        await nodes.write(2, b"c")
        assert nodes.values(1) == [b"a", b"b", b"c"]


@WAYS
async def test_a_follower_that_cannot_be_reached_is_not_waited_for_after_a_while(
    wire: bool,
) -> None:
    async with replica_nodes(wire=wire, replica_lag_time_max_ms="3000") as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"a")
        nodes.cut.add(frozenset({1, 3}))
        before = asyncio.get_running_loop().time()
        await nodes.write(1, b"b")
        assert asyncio.get_running_loop().time() - before > 2
        assert nodes.isr() == {1, 2}
        await nodes.write(1, b"c")
        nodes.cut.clear()
        async with asyncio.timeout(60):
            while nodes.isr() != {1, 2, 3}:
                await asyncio.sleep(0.1)
        assert nodes.values(3) == [b"a", b"b", b"c"]


async def test_too_few_in_sync_refuse_a_write_for_all() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic(min_insync_replicas="2")
        await nodes.kill(2)
        await nodes.kill(3)
        await nodes.change(isr=(1,), leader=1)
        with pytest.raises(NotEnoughReplicas):
            nodes.append(1, b"v")
        assert nodes.append(1, b"v", acks=1) is None
        assert nodes.replica(1).high_watermark == 0
        report = nodes.engines[1].replicas.report()
        assert [len(report.under_replicated), len(report.under_min_isr)] == [1, 1]


async def test_with_flushes_acknowledged_is_on_every_disk() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic(flush_policy="group")
        for number in range(5):
            await nodes.write(1, b"%d" % number)
            points = [nodes.replica(node).log.recovery_point for node in (1, 2, 3)]
            assert points == [number + 1] * 3
        # Power fails everywhere at once.
        for node in (1, 2, 3):
            await nodes.kill(node)
            nodes.storages[node].lose_power()
        for node in (1, 2, 3):
            await nodes.start(node)
        for node in (1, 2, 3):
            assert nodes.values(node) == [b"0", b"1", b"2", b"3", b"4"]


async def test_the_high_watermark_is_known_again_after_a_restart() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"a")
        await settled(nodes)
        await nodes.engines.pop(3).stop()
        path = f"data/{HIGH_WATERMARKS_FILE}"
        assert list(read_offsets(nodes.storages[3], path).values()) == [1]
        nodes.cut |= {frozenset({1, 3}), frozenset({2, 3})}
        await nodes.start(3)
        assert nodes.replica(3).high_watermark == 1


async def test_a_replica_that_was_moved_away_is_deleted_and_can_come_again() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"a")
        await settled(nodes)
        await nodes.change(replicas=(1, 2), isr=(1, 2))
        with pytest.raises(NotLeader, match="no replica on node 3"):
            nodes.replica(3)
        assert "data/t-0/partition.metadata" not in nodes.storages[3].files()
        await nodes.change(replicas=(1, 2, 3))
        await settled(nodes)
        assert nodes.values(3) == [b"a"]


async def test_coordinators_hear_who_leads() -> None:
    async with replica_nodes() as nodes:
        await nodes.make_topic()
        heard: list[tuple[int, bool, LeaderEpoch]] = []

        def hear(partition: Partition, gained: bool, epoch: LeaderEpoch) -> None:
            heard.append((partition.node_id, gained, epoch))

        for engine in nodes.engines.values():
            engine.partitions.on_leadership(hear)
        await nodes.change(leader=2)
        assert sorted(heard) == [(1, False, 1), (2, True, 1)]


@WAYS
async def test_many_partitions_are_followed_by_one_loop(wire: bool) -> None:
    async with replica_nodes(wire=wire, replica_fetch_response_max_bytes="4096") as nodes:
        await nodes.make_topic(partitions=20)
        waiting = [nodes.append(1, bytes(500), index=index) for index in range(20)]
        await asyncio.wait(waiting)
        for index in range(20):
            assert nodes.replica(3, index).log.end_offset == 1


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_who_catches_up_may_be_held_back(side: str) -> None:
    limit: Any = {f"{side}_replication_throttled_rate": "10000"}
    meant: Any = {f"{side}_replication_throttled_replicas": "*"}
    async with replica_nodes(
        replica_fetch_max_bytes="20000", replica_lag_time_max_ms="2000", **limit
    ) as nodes:
        await nodes.make_topic(**meant)
        nodes.cut |= {frozenset({1, 3}), frozenset({2, 3})}
        await nodes.write(1, b"until it is not waited for any more")
        # In sync: as fast as it goes.
        began = asyncio.get_running_loop().time()
        for _ in range(30):
            await nodes.write(1, bytes(10_000))
        assert asyncio.get_running_loop().time() - began < 1
        nodes.cut.clear()
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(120):
            while nodes.isr() != {1, 2, 3}:
                await asyncio.sleep(0.1)
        assert 10 < asyncio.get_running_loop().time() - began < 60


async def test_a_leader_that_always_says_the_same_is_not_asked_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with replica_nodes(2) as nodes:
        await nodes.make_topic()
        await nodes.write(1, b"a")
        asked = 0

        async def parts(self: FollowerReads, request: ReplicaFetch) -> ReplicaReads:
            nonlocal asked
            asked += 1
            return ReplicaReads(
                reads=[
                    ReplicaRead(
                        topic_id=one.topic_id,
                        partition=one.partition,
                        diverging=(one.last_epoch, one.fetch_offset),
                    )
                    for one in request.positions
                ]
            )

        monkeypatch.setattr(FollowerReads, "serve", parts)
        await asyncio.sleep(20)
        assert 0 < asked < 60
        assert nodes.values(2) == [b"a"]


async def test_a_mistake_with_one_partition_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with replica_nodes(2) as nodes:
        await nodes.make_topic(3)

        def mistaken(partition: Partition, *arguments: Any, **named: Any) -> FollowStep:
            if partition.index == 0:
                raise ValueError("a mistake")
            return take(partition, *arguments, **named)

        monkeypatch.setattr(fetchers, "take", mistaken)
        for index in range(3):
            nodes.append(1, b"a", index=index)
        await asyncio.sleep(5)
        assert [nodes.values(2, index) for index in range(3)] == [[], [b"a"], [b"a"]]
        monkeypatch.undo()
        await asyncio.sleep(5)
        assert nodes.values(2) == [b"a"]


async def test_followers_that_ask_once_are_not_remembered() -> None:
    async with replica_nodes(1) as nodes:
        await nodes.make_topic()
        replicas = nodes.engines[1].replicas

        async def asks(node: int) -> None:
            answer = await replicas.serve(
                ReplicaFetch(
                    node_id=node,
                    broker_epoch=1,
                    wait_ms=100,
                    bytes_min=1,
                    bytes_max=1,
                    positions=(),
                    session_epoch=SESSION_BEGINS,
                )
            )
            assert answer == ReplicaReads(reads=[])

        # One of them asks twice at a time.
        async with asyncio.TaskGroup() as group:
            for node in (1000, 1001, 1001):
                group.create_task(asks(node))
        assert not len(replicas._reads.sessions)
