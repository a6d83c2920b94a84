"""Share groups whose records are handed out on one node while another keeps what became of them."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from millpond.base.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest
from millpond.engine.api import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from millpond.engine.peers import (
    DeleteShareState,
    InitializeShareState,
    ReadShareState,
    ShareStateRead,
    SummarizeShareState,
    WriteShareState,
)
from millpond.group.share.records import ACKNOWLEDGED, ShareKey, StateBatch
from millpond.wire.kafka.api import ErrorCode
from tests.support.cluster.coordinator_nodes import (
    ONE,
    THREE,
    TWO,
    CoordinatorNodes,
    coordinator_nodes,
)
from tests.support.cluster.memory_broker import batch
from tests.support.kafka.share_reader import ACCEPT, GROUP, ShareReader, configure
from tests.support.time.virtual_loop import run

ways = pytest.mark.parametrize("wire", [False, True], ids=["calls", "bytes"])


def with_nodes(story: Callable[[CoordinatorNodes], Awaitable[None]], *, wire: bool = False) -> None:
    async def whole() -> None:
        async with coordinator_nodes(wire=wire) as nodes:
            for node in (ONE, TWO, THREE):
                await configure(nodes[node], share_auto_offset_reset="earliest")
            await story(nodes)

    run(whole())


async def member(nodes: CoordinatorNodes, node: int) -> ShareReader:
    reader = ShareReader(
        nodes[node], "ann", nodes.engines[node].metadata.image.topics["t"].topic_id
    )
    await reader.join()
    return reader


def write(nodes: CoordinatorNodes, node: int, *values: bytes) -> None:
    nodes.engines[node].partitions.append("t", 0, bytearray(batch(*values)))


async def taken(reader: ShareReader, count: int) -> list[tuple[int, int]]:
    """What is handed out once the state has been read."""
    for _ in range(50):
        got = await reader.take(records_max=count, share_acquire_mode=1)
        if got:
            return list(got)
        await asyncio.sleep(0.1)
    return []


@ways
def test_what_was_accepted_is_known_to_the_next_leader(wire: bool) -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        write(nodes, TWO, b"a", b"b", b"c")
        await asyncio.sleep(0.1)
        reader = await member(nodes, TWO)
        assert await taken(reader, 2) == [(0, 1), (1, 1)]
        assert await reader.say((0, 0, [ACCEPT])) == ErrorCode.NONE
        assert any(isinstance(one, WriteShareState) for one in nodes.asked)

        await nodes.kill(TWO)
        await nodes.lead(THREE, "t")
        await nodes.lead(THREE, OFFSETS_TOPIC)
        await asyncio.sleep(0.1)

        # Who held a record holds it no more, and has not failed with it.
        assert await taken(await member(nodes, THREE), 5) == [(1, 1), (2, 1)]

    with_nodes(story, wire=wire)


def test_a_keeper_that_dies_is_followed_by_another() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        write(nodes, TWO, b"a", b"b")
        await asyncio.sleep(0.1)
        reader = await member(nodes, TWO)
        assert await taken(reader, 2) == [(0, 1), (1, 1)]
        await nodes.kill(ONE)
        saying = asyncio.ensure_future(reader.say((0, 0, [ACCEPT])))
        await asyncio.sleep(0.2)
        assert not saying.done()

        await nodes.lead(THREE, SHARE_STATE_TOPIC)

        assert await saying == ErrorCode.NONE
        key = ShareKey(GROUP, reader.topic_id, 0)
        kept = await nodes.engines[THREE].peer_handlers.answer(SummarizeShareState(key=key))
        assert kept.start == 1

    with_nodes(story)


def test_a_keeper_refuses_what_is_out_of_date() -> None:
    async def story(nodes: CoordinatorNodes) -> None:
        key = ShareKey("g", nodes.engines[ONE].metadata.image.topics["t"].topic_id, 0)
        ask = nodes.engines[ONE].peer_handlers.answer
        assert await ask(ReadShareState(key=key, leader_epoch=3)) == ShareStateRead()
        done = (StateBatch(5, 6, ACKNOWLEDGED, 1),)
        with pytest.raises(InvalidRequest):
            await ask(WriteShareState(key=key, state_epoch=1, leader_epoch=3, batches=done))
        await ask(InitializeShareState(key=key, state_epoch=2, start=4))
        await ask(ReadShareState(key=key, leader_epoch=3))
        await ask(WriteShareState(key=key, state_epoch=2, leader_epoch=3, batches=done))
        with pytest.raises(FencedLeaderEpoch):
            await ask(WriteShareState(key=key, state_epoch=2, leader_epoch=2, batches=done))
        with pytest.raises(FencedStateEpoch):
            await ask(WriteShareState(key=key, state_epoch=1, leader_epoch=3, batches=done))
        read = await ask(ReadShareState(key=key, leader_epoch=3))
        assert (read.start, [one[:3] for one in read.batches]) == (4, [(5, 6, ACKNOWLEDGED)])
        await ask(DeleteShareState(key=key))
        assert (await ask(SummarizeShareState(key=key))).start == -1

    with_nodes(story)
