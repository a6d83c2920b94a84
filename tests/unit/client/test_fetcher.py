"""Reading: positions, leaders, transactions, damage."""

import asyncio
from typing import Any

import pytest

from millpond.base.errors import CorruptBatch, UnreadableBatch
from millpond.base.ids import TopicPartition
from millpond.client import (
    BlockingClient,
    BrokerRefused,
    ClientError,
    Cluster,
    Fetcher,
    Isolation,
    OutOfTime,
    WhenOutOfRange,
)
from millpond.client.fetcher import FetchedBatch
from millpond.record import EndTxnMarker, build_batch, read_header
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.kafka.fake_kafka import DROP, FakeKafka, tp
from tests.support.storage.poison import POISON, poisoned
from tests.unit.client.test_cluster import cluster_of, run


def batch(*values: bytes, **options: Any) -> bytearray:
    return build_batch([(1000, None, value, ()) for value in values], **options)


async def read(fetcher: Fetcher, count: int) -> list[tuple[TopicPartition, int, bytes | None]]:
    """The next ``count`` records or more."""
    found: list[tuple[TopicPartition, int, bytes | None]] = []
    while len(found) < count:
        for item in await fetcher.batches():
            found += [(item.partition, rec.offset, rec.value) for rec in item.records()]
    return found


def test_reads_from_a_position_on_and_waits_for_more() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.append("t", 0, batch(b"a", b"b", b"c"))
            async with Fetcher(cluster, {tp("t"): 1}, max_wait_ms=2000) as fetcher:
                assert await read(fetcher, 2) == [(tp("t"), 1, b"b"), (tp("t"), 2, b"c")]
                assert fetcher.positions == {tp("t"): 3}
                assert fetcher.at_end()
                kafka.append("t", 0, batch(b"d"))
                assert await read(fetcher, 1) == [(tp("t"), 3, b"d")]

    run(story())


def test_nothing_new_is_an_empty_list() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Fetcher(cluster, {tp("t"): 0}, max_wait_ms=5) as fetcher:
                assert not fetcher.at_end()  # it has not heard yet
                assert await fetcher.batches() == []
                assert fetcher.at_end()

    run(story())


def test_all_leaders_are_read_at_once() -> None:
    async def story() -> None:
        async with FakeKafka(nodes=3) as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 6)
            kafka.add_topic("u", 1)
            for number in range(6):
                kafka.append("t", number, batch(b"%d" % number))
            kafka.append("u", 0, batch(b"u"))
            wanted = {tp("t", number): 0 for number in range(6)} | {tp("u"): 0}
            async with Fetcher(cluster, wanted, max_wait_ms=5000) as fetcher:
                found = await read(fetcher, 7)
                assert {value for _, _, value in found} == {
                    b"0",
                    b"1",
                    b"2",
                    b"3",
                    b"4",
                    b"5",
                    b"u",
                }
                # One leader without news does not hold up the others.
                kafka.append("t", 4, batch(b"more"))
                assert await read(fetcher, 1) == [(tp("t", 4), 1, b"more")]

    run(story())


def test_other_requests_do_not_wait_behind_a_long_poll() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Fetcher(cluster, {tp("t"): 0}, max_wait_ms=60_000) as fetcher:
                reading = asyncio.ensure_future(fetcher.batches())
                while not kafka.asked(ApiKey.FETCH):
                    await asyncio.sleep(0.001)
                assert len(await cluster.topics()) == 1
                reading.cancel()

    run(story())


def test_cancelling_a_read_loses_nothing() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Fetcher(cluster, {tp("t"): 0}, max_wait_ms=5000) as fetcher:
                for number in range(20):
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.001):
                            await fetcher.batches()
                    kafka.append("t", 0, batch(b"%d" % number))
                    assert await read(fetcher, 1) == [(tp("t"), number, b"%d" % number)]

    run(story())


def test_leaders_that_move_or_break_are_found_again() -> None:
    async def story() -> None:
        async with FakeKafka(nodes=2) as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.FETCH, DROP, ErrorCode.LEADER_NOT_AVAILABLE)
            kafka.append("t", 0, batch(b"a"))
            async with Fetcher(cluster, {tp("t"): 0}, max_wait_ms=5) as fetcher:
                assert await read(fetcher, 1) == [(tp("t"), 0, b"a")]
                kafka.partition("t").leader = 2
                kafka.append("t", 0, batch(b"b"))
                assert await read(fetcher, 1) == [(tp("t"), 1, b"b")]
                await kafka.stop_node(1)
                kafka.append("t", 0, batch(b"c"))
                assert await read(fetcher, 1) == [(tp("t"), 2, b"c")]

    run(story())


def test_giving_up_when_nobody_answers() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka, timeout_s=0.1) as cluster:
            kafka.add_topic("t")
            async with Fetcher(cluster, {tp("t"): 0}, max_wait_ms=5) as fetcher:
                await fetcher.batches()
                await kafka.stop_node(1)
                while True:
                    await fetcher.batches()

    with pytest.raises(OutOfTime, match="not done in"):
        run(story())


def test_a_topic_that_is_not_there() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka, unknown_topic_s=0.01) as cluster:
            kafka.add_topic("t")
            for partition in (tp("nosuch"), tp("t", 1)):
                async with Fetcher(cluster, {partition: 0}) as fetcher:
                    with pytest.raises(BrokerRefused, match=r"nosuch|t-1"):
                        await read(fetcher, 1)

    run(story())


def test_partitions_added_later_are_found() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 1)
            await cluster.topic("t")
            kafka.add_topic("t", 3)
            kafka.append("t", 2, batch(b"new"))
            async with Fetcher(cluster, {tp("t", 2): 0}) as fetcher:
                assert await read(fetcher, 1) == [(tp("t", 2), 0, b"new")]

    run(story())


class TestOutOfRange:
    def test_is_an_error_unless_said_otherwise(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                kafka.add_topic("t", 2)
                kafka.append("t", 1, batch(b"fine"))
                async with Fetcher(cluster, {tp("t"): 99, tp("t", 1): 0}) as fetcher:
                    # What came with the error is not lost.
                    assert await read(fetcher, 1) == [(tp("t", 1), 0, b"fine")]
                    with pytest.raises(BrokerRefused, match="t-0: the offset is before the start"):
                        await fetcher.batches()

        run(story())

    @pytest.mark.parametrize(
        ("policy", "first"), [(WhenOutOfRange.EARLIEST, 5), (WhenOutOfRange.LATEST, 7)]
    )
    def test_may_go_to_either_end(self, policy: WhenOutOfRange, first: int) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                kafka.add_topic("t")
                log = kafka.partition("t")
                log.start = log.end = 5
                kafka.append("t", 0, batch(b"5", b"6"))
                async with Fetcher(
                    cluster, {tp("t"): 0}, when_out_of_range=policy, max_wait_ms=5
                ) as fetcher:
                    found = []
                    while fetcher.positions[tp("t")] < 7:
                        found += await fetcher.batches()
                    kafka.append("t", 0, batch(b"7"))
                    found += await fetcher.batches()
                    assert found[0].records()[0].offset == first

        run(story())


class TestTransactions:
    def write(self, kafka: FakeKafka) -> None:
        """Committed by producer 1, aborted by 2 and then committed by 2, and plain records."""
        kafka.add_topic("t")

        def transactional(value: bytes, producer_id: int) -> bytearray:
            return batch(
                value,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )

        def end(producer_id: int, committed: bool) -> bytearray:
            marker = EndTxnMarker(committed=committed, coordinator_epoch=0)
            return marker.build(timestamp=1000, producer_id=producer_id, producer_epoch=0)

        kafka.append("t", 0, transactional(b"kept", 1))  # 0
        kafka.append("t", 0, transactional(b"dropped", 2))  # 1
        kafka.append("t", 0, batch(b"plain"))  # 2
        kafka.append("t", 0, end(1, committed=True))  # 3
        kafka.append("t", 0, transactional(b"dropped too", 2))  # 4
        kafka.append("t", 0, end(2, committed=False))  # 5
        kafka.append("t", 0, transactional(b"kept later", 2))  # 6
        kafka.append("t", 0, end(2, committed=True))  # 7
        kafka.partition("t").aborted = [(2, 1)]

    @pytest.mark.parametrize("isolation", Isolation)
    def test_show_what_the_reader_asked_for(self, isolation: Isolation) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                self.write(kafka)
                async with Fetcher(cluster, {tp("t"): 0}, isolation=isolation) as fetcher:
                    found = [value for _, _, value in await read(fetcher, 3)]
                    assert fetcher.positions == {tp("t"): 8}  # markers are passed over
                if isolation is Isolation.READ_COMMITTED:
                    assert found == [b"kept", b"plain", b"kept later"]
                else:
                    assert found == [b"kept", b"dropped", b"plain", b"dropped too", b"kept later"]

        run(story())


def test_damaged_batches_are_refused() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            good = batch(b"good")
            bad = batch(b"bad")
            bad[-2] ^= 1
            kafka.append("t", 0, good)
            kafka.append("t", 0, bad)
            async with Fetcher(cluster, {tp("t"): 0}) as fetcher:
                assert await read(fetcher, 1) == [(tp("t"), 0, b"good")]
                with pytest.raises(CorruptBatch, match="t-0: batch at 1 is damaged"):
                    await fetcher.batches()

    run(story())


def test_partitions_may_be_dropped_and_positions_changed() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 2)
            for number in range(2):
                kafka.append("t", number, batch(b"a", b"b"))
            async with Fetcher(cluster, {tp("t"): 0, tp("t", 1): 0}) as fetcher:
                assert len(await read(fetcher, 4)) == 4
                fetcher.drop(tp("t", 1))
                await fetcher.seek({tp("t"): 1})
                assert await read(fetcher, 1) == [(tp("t"), 1, b"b")]
                fetcher.drop(tp("t"))
                assert await fetcher.batches() == []

    run(story())


def test_a_partition_may_be_dropped_while_it_is_being_fetched() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 2)
            for number in range(2):
                kafka.append("t", number, batch(b"a"))
            async with Fetcher(cluster, {tp("t"): 0, tp("t", 1): 0}, max_wait_ms=5) as fetcher:
                await read(fetcher, 2)  # the next fetch is on its way already
                fetcher.drop(tp("t", 1))
                for number in range(2):
                    kafka.append("t", number, batch(b"b"))
                assert await read(fetcher, 1) == [(tp("t"), 1, b"b")]

    run(story())


def test_records_one_by_one() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.append("t", 0, batch(b"a", b"b"))
            async with Fetcher(cluster, {tp("t"): 0}) as fetcher:
                found = []
                async for partition, record in fetcher.records():
                    found.append((partition, record.value))
                    if len(found) == 2:
                        break
                assert found == [(tp("t"), b"a"), (tp("t"), b"b")]

    run(story())


class TestBlocking:
    """The same without an event loop of one's own; the fake runs beside it in this thread's loop."""

    def test_everything_in_one_story(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka:
                kafka.add_topic("old")
                await asyncio.to_thread(self.work, kafka.bootstrap)

        run(story())

    def work(self, bootstrap: str) -> None:
        with BlockingClient(bootstrap, timeout_s=30) as client:
            assert client.describe_cluster().cluster_id == "fake"
            assert client.create_topic("t", partitions=2).partitions == 2
            assert [topic.name for topic in client.list_topics()] == ["old", "t"]
            assert len(client.describe_topic("t").partitions) == 2
            for number in range(5):
                appended = client.produce_batch("t", 0, [(1000, None, b"%d" % number, ())])
                assert appended.base_offset == number
            batches = client.fetch_batches({tp("t"): 1}, until={tp("t"): 5}, max_wait_ms=50)
            values = [record.value for item in batches for record in item.records()]
            assert values == [b"1", b"2", b"3", b"4"]
            # Leaving an endless read early is fine.
            for _ in client.fetch_batches({tp("t"): 0}):
                break
            assert list(client.fetch_batches({tp("t"): 5}, until={tp("t"): 5})) == []
            with pytest.raises(BrokerRefused, match="TOPIC_ALREADY_EXISTS"):
                client.create_topic("t")

            async def names(cluster: Cluster) -> list[str]:
                return [topic.name for topic in await cluster.topics()]

            assert client.run(names) == ["old", "t"]
            assert client.delete_topics("t") == {"t": None}
        with pytest.raises(ClientError, match="closed"):
            client.list_topics()
        client.close()


def test_a_batch_that_cannot_be_read_says_where_it_is_and_where_to_go_on() -> None:
    data = bytearray(poisoned(POISON["count 1 of 3"]()))
    data[0:8] = (41).to_bytes(8, "big")
    batch = FetchedBatch(
        partition=TopicPartition("t", 3),
        header=read_header(data),
        data=memoryview(data),
        from_offset=41,
        high_watermark=42,
    )
    with pytest.raises(UnreadableBatch, match=r"t-3.*offsets 41 to 41.*seek to 42") as caught:
        batch.records()
    assert caught.value.next_offset == 42
