"""The loop behind every reader: pauses, retries, positions out of range, partitions dropped meanwhile."""

import asyncio
from collections.abc import Collection

import pytest

from millpond.base.ids import TopicPartition
from millpond.client import Cluster, NoBroker, OutOfTime, RawFetch, fetch_raw
from millpond.client._fetch_loop import FetchLimits, FetchLoop
from millpond.client.errors import BrokerRefused
from millpond.record import build_batch, iter_batches
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.kafka.fake_kafka import DROP, FakeKafka, tp
from tests.unit.client.test_cluster import cluster_of, run

LIMITS = FetchLimits(max_wait_ms=5)


class Taken:
    """What a loop has given to its user."""

    def __init__(self) -> None:
        self.responses: list[RawFetch] = []

    def __call__(self, response: RawFetch, position: int) -> int:
        self.responses.append(response)
        ends = [header.next_offset for _, header in iter_batches(response.data)]
        return max([position, *ends])


def batch(*values: bytes) -> bytearray:
    return build_batch([(1000, None, value, ()) for value in values])


def loop_of(cluster: Cluster, taken: Taken, positions: dict[TopicPartition, int]) -> FetchLoop:
    return FetchLoop(cluster, positions, LIMITS, lane="test", take=taken, is_ahead=False)


def test_a_throttled_response_is_no_error_and_delays_the_next_fetch() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.append("t", 0, batch(b"a"))
            kafka.empty_fetches += (1, 60_000)
            taken = Taken()
            loop = loop_of(cluster, taken, {tp("t"): 0})
            for _ in range(2):
                await loop.step()
                assert not taken.responses
                assert not loop.has_obstacle
            for _ in range(2):  # also after a seek
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await loop.step()
                await loop.seek({tp("t"): 0})
            assert kafka.asked(ApiKey.FETCH) == 2

    run(story())


def test_a_partition_that_a_leader_leaves_out_is_asked_for_again() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.append("t", 0, batch(b"a"))
            kafka.empty_fetches.append(0)
            taken = Taken()
            loop = loop_of(cluster, taken, {tp("t"): 0})
            await loop.step()
            assert loop.has_obstacle
            while not taken.responses:
                await loop.step()
            assert loop.positions == {tp("t"): 1}
            await loop.close()

    run(story())


def test_retries_end_with_the_time_out_and_its_message() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka, timeout_s=0.1) as cluster:
            kafka.add_topic("t")
            loop = FetchLoop(
                cluster,
                {tp("t"): 7},
                LIMITS,
                lane="test",
                take=Taken(),
                what=lambda: "reading t-0 at offset 7",
                retries=(NoBroker, BrokerRefused),
            )
            kafka.trouble(ApiKey.FETCH, *[DROP] * 1000)
            while True:
                await loop.step()

    with pytest.raises(OutOfTime, match="reading t-0 at offset 7: not done in"):
        run(story())


def test_positions_out_of_range_are_moved_unless_dropped_meanwhile() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 2)
            kafka.append("t", 0, batch(b"a"))
            taken = Taken()

            async def move(partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
                assert set(partitions) == {tp("t"), tp("t", 1)}
                del loop.positions[tp("t", 1)]
                return dict.fromkeys(partitions, 0)

            loop = FetchLoop(
                cluster,
                {tp("t"): 99, tp("t", 1): 99},
                LIMITS,
                lane="test",
                take=taken,
                move=move,
                is_ahead=False,
            )
            while not taken.responses:
                await loop.step()
            assert loop.positions == {tp("t"): 1}
            await loop.close()

    run(story())


def test_a_step_without_partitions_does_nothing() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            await loop_of(cluster, Taken(), {}).step()
            assert kafka.asked(ApiKey.FETCH) == 0

    run(story())


def test_raw_fetches_are_the_same_request() -> None:
    async def story() -> None:
        async with FakeKafka(nodes=2) as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 3)
            kafka.append("t", 0, batch(b"a"))
            kafka.append("t", 1, batch(b"b", b"c"))
            kafka.trouble(ApiKey.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            positions = {tp("t"): 0, tp("t", 1): 0, tp("t", 2): 5}
            found = await fetch_raw(cluster, positions, max_wait_ms=0, min_bytes=0)
            ends = {
                place.partition: one.high_watermark
                for place, one in found.items()
                if isinstance(one, RawFetch)
            }
            assert ends == {0: 1, 1: 2}
            refused = found[tp("t", 2)]
            assert isinstance(refused, BrokerRefused)
            assert refused.code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(story())
