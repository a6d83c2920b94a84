"""Transactions whose coordinator, partitions and group are on different nodes: real engines and sessions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from millpond.engine.api import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from millpond.engine.coordinators.transactions import Status, Write
from millpond.engine.peers import JoinTransaction, WriteMarkers
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from tests.support.cluster.coordinator_nodes import (
    ONE,
    THREE,
    TWO,
    CoordinatorNodes,
    coordinator_nodes,
)
from tests.support.kafka.txn_writer import Writer, committed_offset, read_committed
from tests.support.time.virtual_loop import run
from tests.unit.engine.test_groups import Reader, committed

GROUP = "readers"
ways = pytest.mark.parametrize("wire", [False, True], ids=["calls", "bytes"])
generations = pytest.mark.parametrize("second", [False, True], ids=["first", "second"])


class FarWriter(Writer):
    """A producer that asks the coordinator on node 1, and writes to the partitions on node 2."""

    def __init__(
        self, nodes: CoordinatorNodes, *, second_generation: bool, name: str = "tx"
    ) -> None:
        super().__init__(nodes[ONE], name, second_generation=second_generation)
        self._coordinator = self.client
        self._leader = nodes[TWO].client()

    async def send(self, value: bytes, partition: int = 0, **fields: Any) -> int:
        if not self.second_generation and ("t", partition) not in self._announced:
            code = await self.announce("t", partition)
            if code:
                return code
        return await self._over(self._leader, super().send(value, partition, **fields))

    async def commit_offset(self, group: str, offset: int, **fields: Any) -> int:
        assert self.second_generation
        return await self._over(self._leader, super().commit_offset(group, offset, **fields))

    async def _over(self, client: Any, asking: Awaitable[int]) -> int:
        self.client = client
        try:
            return await asking
        finally:
            self.client = self._coordinator


def with_nodes(story: Callable[[CoordinatorNodes], Awaitable[None]], *, wire: bool = False) -> None:
    async def whole() -> None:
        async with coordinator_nodes(wire=wire) as nodes:
            await story(nodes)

    run(whole())


async def begun(nodes: CoordinatorNodes, *, second: bool = True, name: str = "tx") -> FarWriter:
    one = FarWriter(nodes, second_generation=second, name=name)
    assert await one.init() == 0
    return one


async def until_ended(broker: Any, name: str = "tx") -> None:
    for _ in range(200):
        if broker.engine.transactions.describe(name).status in {
            Status.COMPLETE_COMMIT,
            Status.COMPLETE_ABORT,
        }:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the transaction is never ended")


@ways
@generations
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_in_partitions_of_another_node(
    second: bool, commit: bool, wire: bool
) -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes, second=second)
        assert await one.send(b"a") == 0
        assert await one.send(b"b") == 0
        assert await one.send(b"c", 1) == 0
        asked = [one for one in nodes.asked if isinstance(one, JoinTransaction)]
        # The first write to a partition asks, the second does not.
        assert len(asked) == 2
        assert {one.verify_only for one in asked} == {not second}

        assert await one.end(commit=commit) == 0
        await until_ended(nodes[ONE])

        assert await read_committed(nodes[TWO]) == ([b"a", b"b"] if commit else [])
        assert await read_committed(nodes[TWO], 1) == ([b"c"] if commit else [])

    with_nodes(story, wire=wire)


def test_a_group_on_another_node_gets_its_positions_with_the_transaction() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes)
        assert await one.commit_offset(GROUP, 5) == 0
        pending = await committed_offset(nodes[TWO], GROUP)
        assert pending == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)

        assert await one.end(commit=True) == 0
        await until_ended(nodes[ONE])

        assert await committed_offset(nodes[TWO], GROUP) == (5, 0)

    with_nodes(story)


def test_markers_are_tried_until_the_leader_is_reached() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes)
        assert await one.send(b"a") == 0
        nodes.part(ONE, TWO)
        assert await one.end(commit=True) == 0
        await asyncio.sleep(5)
        assert nodes[ONE].engine.transactions.describe("tx").status is Status.PREPARE_COMMIT
        assert await read_committed(nodes[TWO]) == []

        nodes.cut.clear()
        await until_ended(nodes[ONE])

        assert await read_committed(nodes[TWO]) == [b"a"]

    with_nodes(story)


def test_a_partition_that_moved_meanwhile_gets_its_marker_where_it_is() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes)
        assert await one.send(b"a") == 0
        nodes.part(ONE, TWO)
        assert await one.end(commit=True) == 0
        await nodes.lead(THREE, "t")
        await until_ended(nodes[ONE])
        assert await read_committed(nodes[THREE]) == [b"a"]

    with_nodes(story)


def test_a_node_that_cannot_be_asked_is_asked_now_and_then_for_all_that_waits() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        writers = [await begun(nodes, name=f"tx-{number}") for number in range(20)]
        for one in writers:
            assert await one.send(one.name.encode()) == 0
        nodes.part(ONE, TWO)
        for one in writers:
            assert await one.end(commit=True) == 0
        nodes.asked.clear()
        await asyncio.sleep(60)
        assert 0 < len(marked(nodes)) <= 12, "it is not asked for each of them each second"
        nodes.cut.clear()
        nodes.asked.clear()
        for one in writers:
            await until_ended(nodes[ONE], one.name)
        assert sum(len(one.markers) for one in marked(nodes)) == len(writers)
        assert len(marked(nodes)) == 1
        assert len(await read_committed(nodes[TWO])) == len(writers)

    with_nodes(story)


def marked(nodes: CoordinatorNodes) -> list[WriteMarkers]:
    """What was asked for markers."""
    return [one for one in nodes.asked if isinstance(one, WriteMarkers)]


@generations
def test_a_write_waits_for_a_coordinator_that_cannot_be_reached(second: bool) -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes, second=second)
        if not second:
            assert await one.announce("t", 0) == 0
        nodes.part(ONE, TWO)
        assert await one.send(b"a") == ErrorCode.NOT_ENOUGH_REPLICAS  # which is tried again
        nodes.cut.clear()
        assert await one.send(b"a") == 0

    with_nodes(story)


def test_a_write_of_a_producer_that_was_replaced_is_refused() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        old = await begun(nodes)
        new = await begun(nodes)
        assert await old.send(b"a") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await new.send(b"b") == 0

    with_nodes(story)


def test_a_first_generation_write_that_was_not_announced_is_refused() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes, second=False)
        assert await one.announce("t", 1) == 0
        one._announced.add(("t", 0))
        assert await one.send(b"a", announce=False) == ErrorCode.INVALID_TXN_STATE

    with_nodes(story)


def test_a_marker_between_the_question_and_the_write_takes_the_pass_away() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes)
        transactions = nodes[TWO].engine.transactions
        write = Write(nodes[TWO].engine.partitions.partition("t", 0), one.producer_id, one.epoch)
        admission = transactions.admission("tx", [write], joins=True)
        assert admission is not None
        assert await admission.ask() == {}

        transactions.write_marker(
            ("t", 0),
            producer_id=one.producer_id,
            producer_epoch=one.epoch,
            committed=False,
            coordinator_epoch=1,
        )

        assert not transactions._passes.take(write)
        admission.close()

    with_nodes(story)


def test_markers_of_an_older_coordinator_are_refused() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes)
        assert await one.send(b"a") == 0
        assert await one.end(commit=True) == 0
        await until_ended(nodes[ONE])
        question, *_again = [one for one in nodes.asked if isinstance(one, WriteMarkers)]
        (marker,) = question.markers
        stale = type(marker)(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch - 1,
            committed=False,
            partitions=marker.partitions,
        )
        (answer,) = await nodes[TWO].engine.peer_handlers.answer(WriteMarkers(markers=(stale,)))
        (error,) = answer.values()
        assert type(error).__name__ == "MarkerFenced"

    with_nodes(story)


@ways
def test_a_transaction_commits_although_its_coordinator_died_after_deciding(wire: bool) -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes)
        assert await one.send(b"a") == 0
        assert await one.commit_offset(GROUP, 5) == 0
        nodes.part(ONE, TWO)
        assert await one.end(commit=True) == 0
        assert await read_committed(nodes[TWO]) == []

        await nodes.kill(ONE)
        nodes.cut.clear()
        await nodes.lead(THREE, TRANSACTIONS_TOPIC)
        await until_ended(nodes[THREE])

        assert await read_committed(nodes[TWO]) == [b"a"]
        assert await committed_offset(nodes[TWO], GROUP) == (5, 0)

    with_nodes(story, wire=wire)


def test_a_transaction_that_was_open_when_its_coordinator_died_goes_on_at_the_next() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        one = await begun(nodes)
        assert await one.send(b"a") == 0
        await nodes.kill(ONE)
        await nodes.lead(THREE, TRANSACTIONS_TOPIC)
        one._coordinator = one.client = nodes.client(THREE)
        await asyncio.sleep(0.1)

        assert await one.send(b"b", 1) == 0
        assert await one.end(commit=True) == 0
        await until_ended(nodes[THREE])

        assert await read_committed(nodes[TWO]) == [b"a"]
        assert await read_committed(nodes[TWO], 1) == [b"b"]

    with_nodes(story)


def test_a_group_goes_on_at_the_next_coordinator() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        reader = Reader(nodes[TWO])
        await reader.join()
        await reader.sync()
        assert await reader.commit(42) == 0
        await nodes.kill(TWO)
        assert await reader_at(nodes, reader).heartbeat() == ErrorCode.NOT_COORDINATOR

        await nodes.lead(THREE, OFFSETS_TOPIC)
        await asyncio.sleep(0.1)

        assert await reader_at(nodes, reader).heartbeat() == 0  # with the same generation
        assert await committed(nodes[THREE]) == 42
        assert await reader_at(nodes, reader).commit(43) == 0

    with_nodes(story)


def reader_at(nodes: CoordinatorNodes, reader: Reader) -> Reader:
    reader.client = nodes.client(THREE)
    return reader


def test_any_node_says_who_coordinates() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        for asked in (ONE, TWO, THREE):
            found = await coordinator(nodes, asked, key_type=1, key="tx")
            assert (found.node_id, found.host) == (ONE, "node1.test")
            found = await coordinator(nodes, asked, key_type=0, key=GROUP)
            assert (found.node_id, found.host) == (TWO, "node2.test")
        await nodes.lead(-1, OFFSETS_TOPIC)
        found = await coordinator(nodes, ONE, key_type=0, key=GROUP)
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_nodes(story)


async def coordinator(nodes: CoordinatorNodes, node: int, *, key_type: int, key: str) -> Any:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    answer = await nodes.client(node).ask(ApiKey.FIND_COORDINATOR, 4, request)
    return answer.coordinators[0]
