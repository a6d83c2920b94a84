"""Finding brokers and leaders, agreeing on versions, trying again, giving up with a reason."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from millpond.client import (
    EARLIEST,
    LATEST,
    Admin,
    BrokerRefused,
    ClientError,
    Cluster,
    ConnectionLost,
    NewTopic,
    NoBroker,
    OffsetAt,
    OutOfTime,
)
from millpond.client._model import parse_bootstrap
from millpond.wire.kafka.api import ApiKey, ErrorCode
from tests.support.kafka.fake_kafka import DROP, SILENCE, FakeKafka, tp
from tests.support.processes.ports import free_port

T = TypeVar("T")


def run(story: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await story

    return asyncio.run(bounded())


def cluster_of(kafka: FakeKafka, **options: Any) -> Cluster:
    return Cluster(kafka.bootstrap, **({"backoff_s": 0.001, "timeout_s": 30.0} | options))


class TestAddresses:
    def test_forms(self) -> None:
        assert parse_bootstrap("a:1, b:2") == (("a", 1), ("b", 2))
        assert parse_bootstrap(["a:1"]) == (("a", 1),)
        assert parse_bootstrap("localhost") == (("localhost", 9092),)
        assert parse_bootstrap("[::1]:9093,[::1]") == (("::1", 9093), ("::1", 9092))

    @pytest.mark.parametrize("text", ["", ":9092", "a:b", "a:1,,b:2"])
    def test_what_is_no_address(self, text: str) -> None:
        with pytest.raises(ClientError, match="host:port"):
            parse_bootstrap(text)

    @pytest.mark.parametrize("text", ["a:0", "a:70000"])
    def test_what_is_no_port(self, text: str) -> None:
        with pytest.raises(ClientError, match="ports are 1 to 65535"):
            parse_bootstrap(text)


class TestFirstContact:
    def test_nobody_there_is_said_at_once(self) -> None:
        address = f"127.0.0.1:{free_port()}"

        async def story() -> None:
            async with Cluster(address) as cluster:
                await cluster.topics()

        with pytest.raises(NoBroker) as caught:
            run(story())
        assert f"no broker answers at {address}" in str(caught.value)
        assert "connection refused" in str(caught.value)
        assert "millpond up" in str(caught.value)

    def test_the_second_address_will_do(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka:
                kafka.add_topic("t")
                async with Cluster(f"127.0.0.1:{free_port()},{kafka.bootstrap}") as cluster:
                    assert [topic.name for topic in await cluster.topics()] == ["t"]

        run(story())

    def test_something_else_at_the_address(self) -> None:
        async def story() -> None:
            async def speak_http(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter
            ) -> None:
                await reader.read(100)
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                writer.close()

            server = await asyncio.start_server(speak_http, "127.0.0.1", 0)
            async with server:
                port = server.sockets[0].getsockname()[1]
                async with Cluster(f"127.0.0.1:{port}") as cluster:
                    await cluster.topics()

        with pytest.raises(NoBroker, match="not what a Kafka broker would answer"):
            run(story())

    def test_someone_who_says_nothing(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka:
                kafka.trouble(ApiKey.API_VERSIONS, SILENCE)
                async with Cluster(kafka.bootstrap, connect_s=0.05) as cluster:
                    await cluster.topics()

        with pytest.raises(NoBroker, match=r"did not answer within 0\.05 s"):
            run(story())


class TestVersions:
    def test_the_newest_that_both_know(self) -> None:
        async def story() -> None:
            async with FakeKafka(versions={ApiKey.METADATA: (0, 9)}) as kafka:
                async with cluster_of(kafka) as cluster:
                    await cluster.topics()
                [version] = [v for _, key, v, _ in kafka.requests if key == ApiKey.METADATA]
                assert version == 9

        run(story())

    def test_an_old_broker_that_does_not_know_our_question(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka:
                kafka.trouble(ApiKey.API_VERSIONS, ErrorCode.UNSUPPORTED_VERSION)
                async with cluster_of(kafka) as cluster:
                    assert await cluster.topics() == []
                asked = [v for _, key, v, _ in kafka.requests if key == ApiKey.API_VERSIONS]
                assert asked == [3, 0]

        run(story())

    @pytest.mark.parametrize("offered", [(0, -1), (90, 99)])
    def test_what_the_broker_cannot_do(self, offered: tuple[int, int]) -> None:
        async def story() -> None:
            versions = {ApiKey.DESCRIBE_CLUSTER: offered}
            async with FakeKafka(versions=versions) as kafka, cluster_of(kafka) as cluster:
                await Admin(cluster).describe_cluster()

        with pytest.raises(BrokerRefused, match="DescribeCluster") as caught:
            run(story())
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION


class TestTopics:
    def test_metadata_is_kept(self) -> None:
        async def story() -> None:
            async with FakeKafka(nodes=2) as kafka:
                kafka.add_topic("orders", 3)
                async with cluster_of(kafka) as cluster:
                    first = await cluster.topic("orders")
                    assert await cluster.topic("orders") is first
                    assert kafka.asked(ApiKey.METADATA) == 1
                    assert [item.leader for item in first.partitions] == [1, 2, 1]
                    info = await cluster.info()
                    assert (info.cluster_id, len(info.brokers)) == ("fake", 2)

        run(story())

    def test_an_unknown_topic_is_unknown_after_a_moment(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka, unknown_topic_s=0.5) as cluster:
                with pytest.raises(BrokerRefused, match="nosuch: there is no such topic") as caught:
                    await cluster.topic("nosuch")
                assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                assert kafka.asked(ApiKey.METADATA) > 1

        run(story())

    def test_a_topic_that_appears_while_we_ask(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                kafka.add_topic("late")
                kafka.trouble(
                    ApiKey.METADATA,
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    ErrorCode.LEADER_NOT_AVAILABLE,
                )
                assert (await cluster.topic("late")).name == "late"
                assert kafka.asked(ApiKey.METADATA) == 3

        run(story())

    def test_making_topics_by_asking_is_a_choice(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka, unknown_topic_s=0) as cluster:
                kafka.auto_create = True
                with pytest.raises(BrokerRefused):
                    await cluster.topic("new")
                assert (await cluster.topic("new", create=True)).name == "new"

        run(story())


class TestTryingAgain:
    def test_a_broken_connection_is_replaced(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                kafka.trouble(ApiKey.METADATA, DROP, DROP)
                assert await cluster.topics() == []
                assert kafka.asked(ApiKey.METADATA) == 3

        run(story())

    def test_another_broker_takes_over(self) -> None:
        async def story() -> None:
            async with FakeKafka(nodes=2) as kafka, cluster_of(kafka) as cluster:
                await cluster.topics()
                await kafka.stop_node(1)
                assert await cluster.topics() == []

        run(story())

    def test_the_deadline_names_the_obstacle(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                await cluster.topics()
                await kafka.stop_node(1)
                await cluster.topics(timeout_s=0.1)

        with pytest.raises(
            OutOfTime, match=r"listing topics: not done in 0\.1 s .*no broker answers"
        ):
            run(story())

    def test_silence_ends_with_the_deadline_and_the_connection(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                await cluster.topics()
                kafka.trouble(ApiKey.METADATA, SILENCE)
                with pytest.raises(OutOfTime, match="did not answer"):
                    await cluster.topics(timeout_s=0.05)
                # The next call does not queue up behind the silent one.
                assert await cluster.topics() == []

        run(story())

    def test_a_silent_connection_is_given_up_before_the_deadline(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka, request_s=0.05) as cluster:
                kafka.trouble(ApiKey.METADATA, SILENCE)
                assert await cluster.topics() == []

        run(story())

    def test_a_closed_client_says_so(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka:
                cluster = cluster_of(kafka)
                await cluster.topics()
                kafka.trouble(ApiKey.METADATA, SILENCE)
                async with asyncio.TaskGroup() as tasks:
                    waiting = tasks.create_task(expect_closed(cluster))
                    while kafka.asked(ApiKey.METADATA) < 2:
                        await asyncio.sleep(0)
                    await cluster.close()
                    await waiting
                with pytest.raises(ClientError, match="closed"):
                    await cluster.topics()

        async def expect_closed(cluster: Cluster) -> None:
            with pytest.raises(ClientError, match="closed"):
                await cluster.topics()

        run(story())


class TestLeaders:
    def test_each_partition_is_asked_of_its_leader(self) -> None:
        async def story() -> None:
            async with FakeKafka(nodes=3) as kafka, cluster_of(kafka) as cluster:
                kafka.add_topic("t", 6)
                kafka.partition("t", 4).end = 44
                asked = {tp("t", number): LATEST for number in range(6)}
                found = await Admin(cluster).list_offsets(asked)
                assert found[tp("t", 4)] == OffsetAt(offset=44, timestamp=-1, leader_epoch=-1)
                assert kafka.asked(ApiKey.LIST_OFFSETS) == 3

        run(story())

    def test_a_moved_leader_is_found_again(self) -> None:
        async def story() -> None:
            async with FakeKafka(nodes=2) as kafka, cluster_of(kafka) as cluster:
                kafka.add_topic("t", 1)
                await Admin(cluster).list_offsets({tp("t"): LATEST})
                kafka.partition("t").leader = 2
                found = await Admin(cluster).list_offsets({tp("t"): EARLIEST})
                assert isinstance(found[tp("t")], OffsetAt)
                assert [node for node, key, _, _ in kafka.requests if key == 2] == [1, 1, 2]

        run(story())

    def test_a_partition_without_a_leader_may_get_one(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                kafka.add_topic("t")
                kafka.partition("t").leader = -1

                async def elect() -> None:
                    while kafka.asked(ApiKey.METADATA) < 3:
                        await asyncio.sleep(0.001)
                    kafka.partition("t").leader = 1

                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(elect())
                    found = await Admin(cluster).list_offsets({tp("t"): LATEST})
                assert isinstance(found[tp("t")], OffsetAt)

        run(story())

    def test_one_bad_partition_does_not_spoil_the_rest(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka, unknown_topic_s=0) as cluster:
                kafka.add_topic("t", 1)
                asked = {tp("t"): LATEST, tp("t", 7): LATEST, tp("nosuch"): LATEST}
                found = await Admin(cluster).list_offsets(asked)
                assert isinstance(found[tp("t")], OffsetAt)
                for partition in (tp("t", 7), tp("nosuch")):
                    refusal = found[partition]
                    assert isinstance(refusal, BrokerRefused)
                    assert refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        run(story())

    def test_an_unreachable_leader_is_named_with_its_address(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka, timeout_s=1) as cluster:
                kafka.add_topic("t")
                kafka.partition("t").leader = 9
                kafka.hosts[9] = ("127.0.0.1", free_port())
                await Admin(cluster).list_offsets({tp("t"): LATEST})

        with pytest.raises(OutOfTime, match=r"broker 9 is said to be at .*advertised\.listeners"):
            run(story())

    def test_an_error_that_stays_is_not_tried_again(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                kafka.add_topic("t")
                kafka.trouble(ApiKey.LIST_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                found = await Admin(cluster).list_offsets({tp("t"): LATEST})
                refusal = found[tp("t")]
                assert isinstance(refusal, BrokerRefused)
                assert "TOPIC_AUTHORIZATION_FAILED" in str(refusal)
                assert kafka.asked(ApiKey.LIST_OFFSETS) == 1

        run(story())


class TestAdmin:
    def test_topics_come_and_go(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka, unknown_topic_s=0) as cluster:
                admin = Admin(cluster)
                created = await admin.create_topic("a", partitions=4)
                assert (created.name, created.partitions) == ("a", 4)
                assert len((await admin.describe_topic("a")).partitions) == 4
                with pytest.raises(BrokerRefused, match="a: said the fake") as caught:
                    await admin.create_topic("a")
                assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS

                outcomes = await admin.create_topics(
                    [NewTopic(name="a"), NewTopic(name="b")], validate_only=True
                )
                assert isinstance(outcomes["a"], BrokerRefused)
                assert not isinstance(outcomes["b"], BrokerRefused)

                deleted = await admin.delete_topics(["a", "b"])
                assert deleted["a"] is None
                assert isinstance(deleted["b"], BrokerRefused)
                with pytest.raises(BrokerRefused):
                    await cluster.topic("a")  # no old metadata is used

        run(story())

    def test_the_controller_is_found_again(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                kafka.trouble(ApiKey.CREATE_TOPICS, ErrorCode.NOT_CONTROLLER, DROP)
                await Admin(cluster).create_topic("a")
                assert kafka.asked(ApiKey.CREATE_TOPICS) == 3

        run(story())

    def test_a_controller_without_an_address_is_asked_through_any_broker(self) -> None:
        async def story() -> None:
            async with FakeKafka() as kafka, cluster_of(kafka) as cluster:
                kafka.controller_id = 7
                await Admin(cluster).create_topic("a")
                assert "a" in kafka.topics

        run(story())

    def test_unknown_error_codes_are_still_errors(self) -> None:
        error = BrokerRefused(9999)
        assert error.code == 9999
        assert not error.is_retriable
        assert "error 9999" in str(error)
        assert issubclass(ConnectionLost, NoBroker)
