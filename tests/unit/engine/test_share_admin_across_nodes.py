"""Share groups whose coordinator, state and records are on three nodes: administration, and dead letters."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from millpond.engine.api import OFFSETS_TOPIC
from millpond.engine.peers import AppendBatch, FindOffset, ListShareState
from millpond.group.share.group import ShareState
from millpond.metadata.records import PartitionRecord, TopicRecord
from millpond.record.records import decode_batch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from millpond.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from millpond.wire.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from millpond.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from millpond.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from tests.support.cluster.coordinator_nodes import (
    ONE,
    THREE,
    TWO,
    CoordinatorNodes,
    coordinator_nodes,
)
from tests.support.cluster.memory_broker import batch
from tests.support.kafka.share_reader import ACCEPT, GROUP, REJECT, ShareReader, configure
from tests.support.time.virtual_loop import run

WAYS = pytest.mark.parametrize("wire", [False, True], ids=["calls", "bytes"])
LETTERS = "dlq.pool"

# The state of share groups is at node 1, their coordinator is node 2, and node 3 leads the records.
KEEPER, COORDINATOR, LEADER = ONE, TWO, THREE


def with_nodes(story: Callable[[CoordinatorNodes], Awaitable[None]], *, wire: bool = False) -> None:
    async def whole() -> None:
        async with coordinator_nodes(wire=wire) as nodes:
            for node in (ONE, TWO, THREE):
                await configure(
                    nodes[node],
                    share_auto_offset_reset="earliest",
                    errors_deadletterqueue_topic_name=LETTERS,
                )
            await nodes.lead(LEADER, "t")
            nodes.engines[LEADER].partitions.append("t", 0, bytearray(batch(b"a", b"b", b"c")))
            await asyncio.sleep(0.1)
            await story(nodes)

    run(whole())


def topic_id(nodes: CoordinatorNodes) -> UUID:
    return nodes.engines[LEADER].metadata.image.topics["t"].topic_id


async def member(nodes: CoordinatorNodes, name: str) -> tuple[ShareReader, ShareReader]:
    """A member as its coordinator knows it, and as the leader does."""
    joined = ShareReader(nodes[COORDINATOR], name, topic_id(nodes))
    await joined.join()
    return joined, ShareReader(nodes[LEADER], name, topic_id(nodes))


async def taken(reader: ShareReader, count: int = 5) -> list[tuple[int, int]]:
    """What is handed out once the state has been read."""
    for _ in range(50):
        got = await reader.take(records_max=count, share_acquire_mode=1)
        if got:
            return list(got)
        await asyncio.sleep(0.1)
    return []


async def read_and_leave(nodes: CoordinatorNodes, *offsets: int) -> None:
    """A member accepts some records and goes."""
    joined, reader = await member(nodes, "ann")
    await taken(reader)
    for offset in offsets:
        assert await reader.say((offset, offset, [ACCEPT])) == ErrorCode.NONE
    await reader.fetch(share_session_epoch=-1, topics=[])
    await joined.heartbeat(epoch=-1)


async def described(nodes: CoordinatorNodes, node: int = COORDINATOR) -> Any:
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])
    answer = await nodes.client(node).ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request)
    return answer.groups[0]


def places(group: Any) -> dict[int, tuple[int, int]]:
    assert group.error_code == ErrorCode.NONE, group.error_message
    return {
        one.partition_index: (one.start_offset, one.lag)
        for topic in group.topics
        for one in topic.partitions
    }


async def alter(nodes: CoordinatorNodes, start: int) -> int:
    where = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start)
    request = AlterShareGroupOffsetsRequest(
        group_id=GROUP,
        topics=[AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[where])],
    )
    answer = await nodes.client(COORDINATOR).ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, request)
    return int(answer.error_code or answer.responses[0].partitions[0].error_code)


async def delete_group(nodes: CoordinatorNodes, node: int = COORDINATOR) -> int:
    request = DeleteGroupsRequest(groups_names=[GROUP])
    answer = await nodes.client(node).ask(ApiKey.DELETE_GROUPS, 2, request)
    return int(answer.results[0].error_code)


@WAYS
def test_how_far_a_group_is(wire: bool) -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        await read_and_leave(nodes, 0, 2)
        # One of the two behind the start is finished.
        assert places(await described(nodes))[0] == (1, 1)
        kinds = {type(one) for one in nodes.asked}
        assert {ListShareState, FindOffset} <= kinds

    with_nodes(story, wire=wire)


@WAYS
def test_a_group_begins_elsewhere_gives_up_a_topic_and_goes(wire: bool) -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        joined, _reader = await member(nodes, "bob")
        assert await alter(nodes, 1) == ErrorCode.NON_EMPTY_GROUP
        await joined.heartbeat(epoch=-1)
        await read_and_leave(nodes, 0, 1, 2)
        assert places(await described(nodes))[0] == (3, 0)

        assert await alter(nodes, 1) == ErrorCode.NONE
        assert places(await described(nodes))[0] == (1, 2)
        _joined, reader = await member(nodes, "eve")
        assert await taken(reader) == [(1, 1), (2, 1)]
        await reader.fetch(share_session_epoch=-1, topics=[])
        assert await alter(nodes, 99) == ErrorCode.NON_EMPTY_GROUP
        await _joined.heartbeat(epoch=-1)
        assert await alter(nodes, 99) == ErrorCode.NONE
        assert places(await described(nodes))[0] == (3, 0)

        forget = DeleteShareGroupOffsetsRequest(
            group_id=GROUP, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
        )
        client = nodes.client(COORDINATOR)
        answer = await client.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, forget)
        assert answer.responses[0].error_code == ErrorCode.NONE
        assert places(await described(nodes)) == {}
        assert await delete_group(nodes) == ErrorCode.NONE
        assert (await described(nodes)).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    with_nodes(story, wire=wire)


def test_a_coordinator_that_is_new_finds_groups_that_nobody_is_in() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        await read_and_leave(nodes, 0)
        await nodes.kill(COORDINATOR)
        await nodes.lead(THREE, OFFSETS_TOPIC)
        await asyncio.sleep(0.1)
        request = ShareGroupDescribeRequest(group_ids=[GROUP, "nobody"])
        answer = await nodes.client(THREE).ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, request)
        assert answer.groups[0].group_state == ShareState.EMPTY
        assert answer.groups[1].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert places(await described(nodes, THREE))[0] == (1, 2)
        assert await delete_group(nodes, THREE) == ErrorCode.NONE
        assert (await described(nodes, THREE)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert await delete_group(nodes, THREE) == ErrorCode.GROUP_ID_NOT_FOUND

    with_nodes(story)


def test_a_keeper_that_is_away_is_an_error_and_not_an_empty_group() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        await read_and_leave(nodes, 0)
        nodes.part(KEEPER, COORDINATOR)
        assert (await described(nodes)).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert await delete_group(nodes) == ErrorCode.REQUEST_TIMED_OUT
        nodes.cut.clear()
        assert places(await described(nodes))[0] == (1, 2)

    with_nodes(story)


@WAYS
def test_dead_letters_go_to_a_leader_elsewhere(wire: bool) -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        home = UUID(int=500)
        await nodes.propose(
            TopicRecord(name=LETTERS, topic_id=home),
            PartitionRecord(
                partition_id=0,
                topic_id=home,
                replicas=(KEEPER, COORDINATOR),
                isr=(KEEPER, COORDINATOR),
                leader=KEEPER,
            ),
        )
        _joined, reader = await member(nodes, "ann")
        await taken(reader)
        # The first try finds nobody; the letter is sent again.
        nodes.part(LEADER, KEEPER)
        saying = asyncio.ensure_future(reader.say((1, 1, [REJECT])))
        await asyncio.sleep(0.05)
        nodes.cut.clear()
        assert await saying == ErrorCode.NONE

        async with asyncio.timeout(30):
            while nodes.engines[COORDINATOR].partitions.replica(LETTERS, 0).log.end_offset != 1:
                await asyncio.sleep(0.1)
        partition = nodes.engines[KEEPER].partitions.partition(LETTERS, 0)
        data = partition.log.read(0, 1 << 20, upto=1, at_least_one=True).data
        (letter,) = decode_batch(data, 0)
        assert letter.value == b"b"
        assert dict(letter.headers)["__dlq.errors.offset"] == b"1"
        assert any(isinstance(one, AppendBatch) for one in nodes.asked)

    with_nodes(story, wire=wire)
