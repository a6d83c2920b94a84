"""DeleteRecords where there are several replicas: answered when nobody who is up has the records any more."""

import asyncio
from typing import Any

import pytest

from millpond.metadata.records import BrokerRegistrationChangeRecord
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.cluster.replica_nodes import ReplicaNodes, replica_nodes

WAYS = pytest.mark.parametrize("wire", [False, True], ids=["calls", "bytes"])


def delete(nodes: ReplicaNodes, offset: int, timeout_ms: int = 30_000) -> "asyncio.Future[Any]":
    """What a client is answered for t-0."""
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=timeout_ms
    )

    async def ask() -> tuple[int, int]:
        answer = await nodes.client(1).ask(ApiKey.DELETE_RECORDS, 2, request)
        one = answer.topics[0].partitions[0]
        return one.error_code, one.low_watermark

    return asyncio.ensure_future(ask())


async def filled(nodes: ReplicaNodes) -> None:
    await nodes.make_topic()
    for number in range(10):
        await nodes.write(1, b"%d" % number)
    await asyncio.sleep(2)


def starts(nodes: ReplicaNodes) -> list[int]:
    return [nodes.replica(node).log.start_offset for node in nodes.engines]


@WAYS
async def test_the_answer_comes_when_every_replica_has_moved_its_start(wire: bool) -> None:
    async with replica_nodes(wire=wire) as nodes:
        await filled(nodes)
        began = asyncio.get_running_loop().time()
        assert await delete(nodes, 6) == (ErrorCode.NONE, 6)
        assert starts(nodes) == [6, 6, 6]
        # Followers that wait for news are told at once.
        assert asyncio.get_running_loop().time() - began < 0.1
        assert await delete(nodes, -1) == (ErrorCode.NONE, 10)
        # What is gone already needs no waiting.
        assert await delete(nodes, 3, timeout_ms=0) == (ErrorCode.NONE, 10)


async def test_a_replica_that_is_up_and_does_not_answer_is_waited_for_as_long_as_the_client_says() -> (
    None
):
    async with replica_nodes() as nodes:
        await filled(nodes)
        nodes.cut.add(frozenset({1, 3}))
        await asyncio.sleep(2)
        assert await delete(nodes, 6, timeout_ms=3_000) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        assert starts(nodes) == [6, 6, 0]

        again = delete(nodes, 6)
        await asyncio.sleep(1)
        assert not again.done()
        nodes.cut.clear()
        assert await again == (ErrorCode.NONE, 6)
        assert starts(nodes) == [6, 6, 6]


async def test_a_node_that_is_down_does_not_count_and_deletes_when_it_comes_back() -> None:
    async with replica_nodes() as nodes:
        await filled(nodes)
        await nodes.kill(3)
        await nodes.change(isr=(1, 2))
        waiting = delete(nodes, 6)
        await asyncio.sleep(1)
        assert not waiting.done()
        await nodes.propose(
            BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=3, fenced=True)
        )
        assert await waiting == (ErrorCode.NONE, 6)

        await nodes.start(3)
        await nodes.change(isr=(1, 2), leader=1)
        async with asyncio.timeout(60):
            while nodes.replica(3).log.start_offset != 6:
                await asyncio.sleep(0.1)


async def test_who_leads_no_more_says_so() -> None:
    async with replica_nodes() as nodes:
        await filled(nodes)
        nodes.cut.add(frozenset({1, 3}))
        await asyncio.sleep(2)
        waiting = delete(nodes, 6)
        await asyncio.sleep(1)
        await nodes.change(leader=2)
        code, _low = await waiting
        assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
