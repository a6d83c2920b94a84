"""A disk changes what was written, and other replicas have it still: nobody need do anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from millpond.base.errors import CorruptLog
from millpond.base.ids import TopicPartition
from millpond.log.repair import RepairPlan
from millpond.log.segment import Damage
from millpond.record.batch import iter_batches
from tests.support.cluster.replica_nodes import ReplicaNodes, replica_nodes
from tests.support.time.virtual_loop import run

WAYS = pytest.mark.parametrize("wire", [False, True], ids=["calls", "bytes"])
FIRST = "data/t-0/00000000000000000000.log"
WRITTEN = [b"%d" % number * 40 for number in range(12)]


@asynccontextmanager
async def nodes_with_records(*, count: int = 3, wire: bool = False) -> AsyncIterator[ReplicaNodes]:
    """Twelve records in a closed segment on each node, known everywhere to be committed."""
    async with replica_nodes(count, wire=wire) as nodes:
        await nodes.make_topic()
        for value in WRITTEN:
            await nodes.write(1, value)
        async with asyncio.timeout(60):
            while {nodes.replica(node).high_watermark for node in nodes.engines} != {12}:
                await asyncio.sleep(0.01)
        for node in nodes.engines:
            nodes.replica(node).log.roll(nodes.engines[node].runtime.clock.now_ms())
        yield nodes


def rot(nodes: ReplicaNodes, node: int, *offsets: int) -> None:
    """A bit of each of these records is another one now."""
    for position, header in iter_batches(nodes.storages[node].read_all(FIRST) or b""):
        if header.base_offset in offsets:
            nodes.storages[node].flip(FIRST, position + header.size - 2)


def read_into(nodes: ReplicaNodes, node: int) -> None:
    """Somebody notices."""
    with pytest.raises(CorruptLog):
        nodes.values(node)


async def repaired(nodes: ReplicaNodes, node: int) -> None:
    async with asyncio.timeout(600):
        while nodes.replica(node).log.damage:
            await asyncio.sleep(0.1)


@WAYS
@pytest.mark.parametrize("node", [1, 2], ids=["leader", "follower"])
def test_damage_is_repaired_from_another_replica(
    wire: bool, node: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with nodes_with_records(wire=wire) as nodes:
            sound = nodes.storages[3].read_all(FIRST)
            rot(nodes, node, 4, 9)
            read_into(nodes, node)

            await repaired(nodes, node)

            assert nodes.values(node) == WRITTEN
            assert nodes.storages[node].read_all(FIRST) == sound
            assert not nodes.engines[node].log_dirs.damaged

    run(story())
    assert "offsets 4 to 4, damaged on this disk (wrong checksum), are repaired" in caplog.text


async def test_a_reader_waits_a_moment_and_gets_everything() -> None:
    async with nodes_with_records() as nodes:
        rot(nodes, 1, 4)
        partition = nodes.replica(1)
        found: list[bytes] = []
        async with asyncio.timeout(60):
            while len(found) < 12:
                try:
                    found = nodes.values(1)
                except CorruptLog:
                    assert nodes.engines[1].repairs.may_come_back(partition, 4)
                    await asyncio.sleep(0.05)
        assert found == WRITTEN


async def test_each_of_two_repairs_what_the_other_has() -> None:
    async with nodes_with_records(count=2) as nodes:
        rot(nodes, 1, 4)
        rot(nodes, 2, 7)
        read_into(nodes, 1)
        read_into(nodes, 2)
        await repaired(nodes, 1)
        await repaired(nodes, 2)
        assert nodes.values(1) == nodes.values(2) == WRITTEN


async def test_nobody_can_be_asked_now_and_later_somebody_can() -> None:
    async with nodes_with_records() as nodes:
        nodes.cut |= {frozenset({1, 2}), frozenset({1, 3})}
        rot(nodes, 1, 4)
        read_into(nodes, 1)
        await asyncio.sleep(20)
        assert nodes.replica(1).log.damage
        assert nodes.engines[1].repairs.may_come_back(nodes.replica(1), 4)
        nodes.cut.clear()
        await repaired(nodes, 1)
        assert nodes.values(1) == WRITTEN


def test_what_all_have_lost_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with nodes_with_records() as nodes:
            for node in (1, 2, 3):
                rot(nodes, node, 4)
            rot(nodes, 1, 9)
            read_into(nodes, 1)
            partition = nodes.replica(1)
            repairs = nodes.engines[1].repairs
            async with asyncio.timeout(60):
                while repairs.may_come_back(partition, 4):
                    await asyncio.sleep(0.1)
            assert repairs.may_come_back(partition, 9)
            assert [one.first_offset for one in partition.log.damage] == [4]
            assert partition.log.read(9, 1, upto=12).data

    run(story())
    assert "no other replica can give them now: they are lost; node 2:" in caplog.text


async def test_a_lone_node_serves_the_rest() -> None:
    async with nodes_with_records(count=1) as nodes:
        rot(nodes, 1, 4)
        read_into(nodes, 1)
        assert not nodes.engines[1].repairs.may_come_back(nodes.replica(1), 4)
        await asyncio.sleep(60)
        assert [one.first_offset for one in nodes.replica(1).log.damage] == [4]
        assert nodes.replica(1).log.read(5, 1, upto=12).data


async def test_who_complains_without_a_reason_does_not_have_all_of_it_read_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    surveys = []
    survey = RepairPlan.survey

    def noted(self: RepairPlan) -> list[Damage]:
        surveys.append(self.base_offset)
        return survey(self)

    monkeypatch.setattr(RepairPlan, "survey", noted)
    async with nodes_with_records() as nodes:
        partition = nodes.replica(1)
        assert nodes.engines[1].repairs.may_come_back(partition, 4)
        for _ in range(600):
            partition.log.suspect(0)
            await asyncio.sleep(0.1)
        assert 3 <= len(surveys) <= 8
        assert not nodes.engines[1].repairs.may_come_back(partition, 4)
        rot(nodes, 1, 4)
        read_into(nodes, 1)
        await repaired(nodes, 1)
        assert nodes.values(1) == WRITTEN


async def test_a_partition_that_goes_meanwhile_is_forgotten() -> None:
    async with nodes_with_records() as nodes:
        nodes.cut |= {frozenset({1, 2}), frozenset({1, 3})}
        rot(nodes, 1, 4)
        read_into(nodes, 1)
        await asyncio.sleep(5)
        await nodes.change(replicas=(2, 3), isr=(2, 3), leader=2)
        await asyncio.sleep(600)
        assert TopicPartition("t", 0) not in nodes.engines[1].log_dirs.damaged
