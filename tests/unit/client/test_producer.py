"""Writing: gathering, order, retries, idempotence, limits."""

import asyncio
from typing import Any

import pytest

from millpond.base.murmur2 import partition_for_key
from millpond.client import (
    ACKS_LEADER,
    ACKS_NONE,
    BrokerRefused,
    ClientError,
    OutOfTime,
    Producer,
)
from millpond.record import Compression, Record, decode_batch, read_header
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.kafka.fake_kafka import DROP, SILENCE, FakeKafka
from tests.unit.client.test_cluster import cluster_of, run


def stored(kafka: FakeKafka, topic: str, partition: int = 0) -> list[Record]:
    return [
        record
        for batch in kafka.partition(topic, partition).batches
        for record in decode_batch(batch)
    ]


def test_records_arrive_with_everything_they_carry() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
                first = await producer.send(
                    "t", b"v", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp_ms=123
                )
                second = await producer.send("t", None)
                assert ((await first).offset, (await second).offset) == (0, 1)
            one, two = stored(kafka, "t")
            assert one == Record(0, 123, b"k", b"v", (("h", b"1"), ("n", None)))
            assert (two.key, two.value) == (None, None)
            assert two.timestamp > 1_600_000_000_000

    run(story())


def test_keys_go_to_their_partition() -> None:
    async def story() -> None:
        async with FakeKafka(nodes=2) as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 5)
            async with Producer(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
                for number in range(100):
                    await producer.send("t", b"v", key=b"key %d" % number)
            for partition in range(5):
                for record in stored(kafka, "t", partition):
                    assert record.key is not None
                    assert partition_for_key(record.key, 5) == partition

    run(story())


class ByFirstLetter:
    """A rule of one's own, with all that a class may have."""

    def __init__(self) -> None:
        self.config: Any = None
        self.closed = False

    def configure(self, config: Any) -> None:
        self.config = config

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partition_count: int
    ) -> int:
        assert topic == "t"
        assert key is None
        assert value is not None
        return value[0] % partition_count

    def close(self) -> None:
        self.closed = True


def test_a_partitioner_of_ones_own_decides() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 3)
            own = ByFirstLetter()
            async with Producer(cluster, partitioner=own, linger_ms=0) as producer:
                for value in (b"a", b"b", b"c", b"d"):
                    await producer.send("t", value)
            assert own.config is not None
            assert own.closed
            for partition in range(3):
                assert all(
                    r.value and r.value[0] % 3 == partition for r in stored(kafka, "t", partition)
                )
            assert sum(len(stored(kafka, "t", partition)) for partition in range(3)) == 4

            async with Producer(cluster, partitioner=lambda *_: 2, linger_ms=0) as producer:
                metadata = await (await producer.send("t", b"x", key=b"k"))
                assert metadata.partition == 2

            async with Producer(cluster, partitioner="roundrobin", linger_ms=0) as producer:
                given = [(await (await producer.send("t", b"x"))).partition for _ in range(6)]
                assert given[:3] == given[3:]
                assert sorted(given[:3]) == [0, 1, 2]

    run(story())


def test_a_partitioner_that_names_no_partition_is_told_so() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 3)
            async with Producer(cluster, partitioner=lambda *_: 3, linger_ms=0) as producer:
                with pytest.raises(ClientError, match="3"):
                    await producer.send("t", b"x")

    run(story())


def test_records_without_a_key_fill_one_batch_before_the_next_partition() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t", 4)
            async with Producer(cluster, batch_size=1000, linger_ms=10_000) as producer:
                for _ in range(200):
                    await producer.send("t", b"x" * 88)
            counts = [
                read_header(batch).record_count
                for partition in range(4)
                for batch in kafka.partition("t", partition).batches
            ]
            assert sum(counts) == 200
            assert counts.count(10) == 20  # 1000 bytes each
            assert all(kafka.partition("t", partition).batches for partition in range(4))

    run(story())


def test_what_is_sent_while_a_batch_is_under_way_goes_together() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
                for number in range(500):
                    await producer.send("t", b"%d" % number, partition=0)
            assert [record.value for record in stored(kafka, "t")] == [
                b"%d" % number for number in range(500)
            ]
            assert len(kafka.partition("t").batches) < 10

    run(story())


def test_linger_waits_for_more() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, linger_ms=20) as producer:
                deliveries = []
                for _ in range(3):
                    deliveries.append(await producer.send("t", b"v"))
                    await asyncio.sleep(0)
                assert [(await delivery).offset for delivery in deliveries] == [0, 1, 2]
            assert len(kafka.partition("t").batches) == 1

    run(story())


@pytest.mark.parametrize("codec", Compression)
def test_batches_are_compressed_as_asked(codec: Compression) -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, compression_type=codec) as producer:
                await producer.send("t", b"v" * 1000)
            assert read_header(kafka.partition("t").batches[0]).compression == codec
            assert stored(kafka, "t")[0].value == b"v" * 1000

    run(story())


def test_whole_batches_stay_whole_and_in_order() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, linger_ms=10_000) as producer:
                await producer.send("t", b"before", partition=0)
                appended = await producer.send_batch(
                    "t", 0, [(1000 + n, None, b"%d" % n, ()) for n in range(3)]
                )
                assert (appended.base_offset, appended.record_count) == (1, 3)
            assert [len(decode_batch(batch)) for batch in kafka.partition("t").batches] == [1, 3]

    run(story())


@pytest.mark.parametrize(
    "trouble",
    [
        [ErrorCode.NOT_LEADER_OR_FOLLOWER],
        [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.NOT_ENOUGH_REPLICAS, DROP, ErrorCode.REQUEST_TIMED_OUT],
        [SILENCE],
    ],
)
def test_what_may_pass_is_tried_again_in_order(trouble: list[Any]) -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, *trouble)
            async with Producer(cluster, request_timeout_ms=1000, retry_backoff_ms=1) as producer:
                for number in range(3):
                    await producer.send_batch("t", 0, [(1, None, b"%d" % number, ())])
            assert [record.value for record in stored(kafka, "t")] == [b"0", b"1", b"2"]
            # The same producer and sequence each time, or the broker could not tell a repetition.
            assert len({producer_id for producer_id, _, _ in kafka.sequences}) == 1
            assert [sequence for _, _, sequence in kafka.sequences] == [0, 1, 2]

    run(story())


def test_a_leader_that_moves_is_followed() -> None:
    async def story() -> None:
        async with FakeKafka(nodes=2) as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
                await producer.send_batch("t", 0, [(1, None, b"a", ())])
                kafka.partition("t").leader = 2
                await producer.send_batch("t", 0, [(1, None, b"b", ())])
            nodes = [node for node, key, _, _ in kafka.requests if key == ApiKey.PRODUCE]
            assert nodes == [1, 1, 2]

    run(story())


def test_a_topic_made_again_under_the_same_name() -> None:
    """Topics are named by id on the wire; the new one has another."""

    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
                await producer.send_batch("t", 0, [(1, None, b"a", ())])
                kafka.add_topic("t")
                await producer.send_batch("t", 0, [(1, None, b"b", ())])
            assert [record.value for record in stored(kafka, "t")] == [b"b"]

    run(story())


def test_a_refusal_reaches_who_asked() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
            async with Producer(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
                with pytest.raises(BrokerRefused, match=r"t-0: .*max\.message\.bytes"):
                    await producer.send_batch("t", 0, [(1, None, b"a", ())])
                # Heard once is enough: leaving does not raise it again.

    run(story())


def test_a_refusal_that_no_one_awaited_is_raised_by_flush() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
            async with Producer(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
                await producer.send("t", b"bad")
                with pytest.raises(BrokerRefused, match="INVALID_RECORD"):
                    await producer.flush()
                assert (await producer.send_and_wait("t", b"good")).offset == 0

    run(story())


def test_after_a_failure_the_sequence_begins_anew() -> None:
    """Nobody knows whether the lost batch was written; going on would look like a gap."""

    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
                await producer.send_batch("t", 0, [(1, None, b"a", ())])
                kafka.trouble(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)
                with pytest.raises(BrokerRefused):
                    await producer.send_batch("t", 0, [(1, None, b"b", ())])
                await producer.send_batch("t", 0, [(1, None, b"c", ())])
            [first, second] = kafka.sequences
            assert first == (second[0], 0, 0)
            assert second[1:] == (1, 0)  # a new epoch of the same producer

    run(story())


def test_a_delivery_that_takes_too_long() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.partition("t").leader = -1
            async with Producer(cluster, delivery_timeout_ms=1000, retry_backoff_ms=1) as producer:
                with pytest.raises(OutOfTime, match=r"writing to t-0: .*no leader"):
                    await producer.send_batch("t", 0, [(1, None, b"a", ())])

    run(story())


def test_acks_0_asks_for_no_answer() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, acks=ACKS_NONE) as producer:
                assert (await producer.send_and_wait("t", b"a")).offset == -1
            await cluster.topics()  # on the same connection, behind it
            assert [record.value for record in stored(kafka, "t")] == [b"a"]

    run(story())


def test_acks_are_said_to_the_broker() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            for acks in (ACKS_LEADER, -1):
                async with Producer(cluster, acks=acks) as producer:
                    await producer.send("t", b"a")
            said = [message.acks for _, key, _, message in kafka.requests if key == ApiKey.PRODUCE]
            assert said == [1, -1]
            with pytest.raises(ClientError, match="acks=all"):
                Producer(cluster, enable_idempotence=True, acks=1)

    run(story())


def test_the_buffer_is_bounded() -> None:
    async def story() -> None:
        async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            kafka.trouble(ApiKey.PRODUCE, SILENCE)
            producer = Producer(cluster, buffer_memory=10_000, batch_size=1000)
            for _ in range(9):
                await producer.send("t", b"x" * 1000)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await producer.send("t", b"x" * 1000)
            await producer.abort()
            with pytest.raises(ClientError, match="closed"):
                await producer.send("t", b"x")

    run(story())


def test_old_brokers_name_topics_by_name() -> None:
    async def story() -> None:
        versions = {ApiKey.PRODUCE: (3, 8), ApiKey.METADATA: (0, 5)}
        async with FakeKafka(versions=versions) as kafka, cluster_of(kafka) as cluster:
            kafka.add_topic("t")
            async with Producer(cluster, linger_ms=0, retry_backoff_ms=1) as producer:
                await producer.send("t", b"a")
            [(_, _, version, message)] = [
                entry for entry in kafka.requests if entry[1] == ApiKey.PRODUCE
            ]
            assert (version, message.topic_data[0].name) == (8, "t")

    run(story())
