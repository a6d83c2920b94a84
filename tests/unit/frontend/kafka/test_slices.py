"""A request that names very many partitions does not keep the others waiting."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from millpond.engine.partitions.partitions import Partitions
from millpond.frontend.kafka.fetch_sessions import FetchSessions
from millpond.frontend.kafka.handlers import list_offsets, metadata, offset_fetch
from millpond.wire.kafka.api import ApiKey, ErrorCode
from millpond.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from millpond.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from millpond.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from millpond.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.support.cluster.memory_broker import batch, fetch, memory_broker, produce, values_of
from tests.support.time.virtual_loop import run

MANY = 20_000
KNOWN = 3

# A few milliseconds of the loop.
AT_ONCE_MAX = 1_000


def _offsets() -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(number, -1, -1) for number in range(MANY)]
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", asked)])


def _fetch() -> FetchRequest:
    asked = [
        FetchPartition(number, fetch_offset=0, partition_max_bytes=1 << 20)
        for number in range(MANY)
    ]
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic("t", partitions=asked)]
    )


def _metadata() -> MetadataRequest:
    names = ["t", *(f"a name that cannot be {number}" for number in range(MANY))]
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], True)


Codes = Callable[[Any], list[int]]

# API, version, request, the answer's codes, and where each partition or name is looked at.
CASES: list[tuple[ApiKey, int, Callable[[], Any], Codes, tuple[Any, str]]] = [
    (
        ApiKey.LIST_OFFSETS,
        7,
        _offsets,
        lambda answer: [one.error_code for one in answer.topics[0].partitions],
        (list_offsets, "_find"),
    ),
    (
        ApiKey.FETCH,
        12,
        _fetch,
        lambda answer: [one.error_code for one in answer.responses[0].partitions],
        (Partitions, "replica"),
    ),
    (
        ApiKey.METADATA,
        9,
        _metadata,
        lambda answer: [one.error_code for one in answer.topics],
        (metadata, "_wanted_topic"),
    ),
]


@pytest.mark.parametrize(("api", "version", "request_of", "codes_of", "place"), CASES)
def test_others_have_their_turn_after_each_slice_of_a_huge_request(
    monkeypatch: pytest.MonkeyPatch,
    api: ApiKey,
    version: int,
    request_of: Callable[[], Any],
    codes_of: Codes,
    place: tuple[Any, str],
) -> None:
    looked_at = [0]
    look = getattr(*place)

    def counted(*args: Any, **fields: Any) -> Any:
        looked_at[-1] += 1
        return look(*args, **fields)

    async def somebody_else() -> None:
        while True:
            looked_at.append(0)
            await asyncio.sleep(0)

    async def story() -> None:
        async with memory_broker() as broker:
            await broker.create("t", KNOWN)
            client = broker.client()
            client.send(api, version, request_of())
            other = asyncio.ensure_future(somebody_else())
            while not (answers := client.answers()):
                await asyncio.sleep(0)
            other.cancel()
            codes = codes_of(answers[0])
            assert len(codes) >= MANY
            good = 1 if api is ApiKey.METADATA else KNOWN
            assert codes[:good] == [0] * good
            assert ErrorCode.NONE not in codes[good:]
            assert sum(looked_at) >= MANY
            assert max(looked_at) <= AT_ONCE_MAX

    monkeypatch.setattr(*place, counted)
    run(story())


async def test_a_huge_fetch_waits_for_data_and_the_answers_keep_their_order() -> None:
    async with memory_broker() as broker:
        await broker.create("t", KNOWN)
        huge, writer = broker.client(), broker.client()
        request = _fetch()
        request.max_wait_ms = 10_000
        request.topics[0].partitions = [
            FetchPartition(number % KNOWN, fetch_offset=0, partition_max_bytes=1 << 20)
            for number in range(MANY)
        ]
        waiting = asyncio.ensure_future(huge.ask(ApiKey.FETCH, 12, request))
        behind = asyncio.ensure_future(huge.ask(ApiKey.FETCH, 12, fetch(wait_ms=0)))
        await asyncio.sleep(1)
        assert not waiting.done()
        await writer.ask(ApiKey.PRODUCE, 9, produce(batch(b"news")))
        first = await waiting
        assert values_of(first.responses[0].partitions[0].records) == [b"news"]
        assert values_of((await behind).responses[0].partitions[0].records) == [b"news"]


def test_a_session_of_very_many_partitions_is_read_in_slices_and_kept_by_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A session's next request names nothing and stands for all of them."""
    looked_at = [0]
    look, end = Partitions.replica, FetchSessions.end
    threads: set[int] = set()

    def counted(*args: Any) -> Any:
        looked_at[-1] += 1
        return look(*args)

    def noted(*args: Any) -> Any:
        threads.add(threading.get_ident())
        return end(*args)

    async def somebody_else() -> None:
        while True:
            looked_at.append(0)
            await asyncio.sleep(0)

    async def story() -> None:
        async with memory_broker() as broker:
            await broker.create("t", KNOWN)
            client = broker.client()
            opening = _fetch()
            opening.session_epoch = 0
            opened = await client.ask(ApiKey.FETCH, 12, opening)
            assert opened.session_id
            looked_at.append(0)
            client.send(
                ApiKey.FETCH,
                12,
                FetchRequest(
                    max_wait_ms=0,
                    min_bytes=1,
                    max_bytes=1 << 20,
                    session_id=opened.session_id,
                    session_epoch=1,
                ),
            )
            other = asyncio.ensure_future(somebody_else())
            while not (answers := client.answers()):
                await asyncio.sleep(0)
            other.cancel()
            assert answers[0].session_id == opened.session_id

    monkeypatch.setattr(Partitions, "replica", counted)
    monkeypatch.setattr(FetchSessions, "end", noted)
    run(story())
    assert sum(looked_at) >= 2 * MANY
    assert max(looked_at[1:]) <= AT_ONCE_MAX
    assert threads == {threading.get_ident()}


def test_offsets_of_very_many_partitions_are_found_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = [0]
    look = offset_fetch._partition

    def counted(*args: Any) -> Any:
        looked_at[-1] += 1
        return look(*args)

    async def somebody_else() -> None:
        while True:
            looked_at.append(0)
            await asyncio.sleep(0)

    async def story() -> None:
        async with memory_broker() as broker:
            await broker.create("t", KNOWN)
            await broker.engine.groups.prepare()
            client = broker.client()
            asked = [
                OffsetFetchRequestTopics("t", partition_indexes=list(range(MANY))),
                *(OffsetFetchRequestTopics(f"u{at}", partition_indexes=[0]) for at in range(MANY)),
            ]
            groups = [OffsetFetchRequestGroup("g", topics=asked), OffsetFetchRequestGroup("h")]
            client.send(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups))
            other = asyncio.ensure_future(somebody_else())
            while not (answers := client.answers()):
                await asyncio.sleep(0)
            other.cancel()
            first, second = answers[0].groups
            assert [one.name for one in first.topics] == [one.name for one in asked]
            found = [one.partition_index for one in first.topics[0].partitions]
            assert found == list(range(MANY))
            assert all(len(one.partitions) == 1 for one in first.topics[1:])
            assert (second.group_id, second.topics) == ("h", [])
            assert sum(looked_at) == 2 * MANY
            assert max(looked_at) <= 2 * AT_ONCE_MAX

    monkeypatch.setattr(offset_fetch, "_partition", counted)
    run(story())
