"""What an administrator asks, answered by a real broker in this process."""

from collections.abc import Generator

import pytest

from millpond import Broker
from millpond.client import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Admin,
    BrokerRefused,
    Cluster,
    ConfigOperation,
    OffsetAt,
    Producer,
    ResourceType,
)
from millpond.wire.kafka.api import ErrorCode
from tests.support.kafka.fake_kafka import tp
from tests.unit.client.test_cluster import run

NOON = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Generator[Broker, None, None]:
    with Broker() as running:
        yield running


def test_offsets_by_time_and_deleting_records(broker: Broker) -> None:
    async def story() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            admin = Admin(cluster)
            await admin.create_topic("times", configs={"retention.ms": "-1"})
            async with Producer(cluster) as producer:
                for minute in range(5):
                    await producer.send_batch(
                        "times", 0, [(NOON + minute * 60_000, None, b"x", ())]
                    )

            async def offset(when: int) -> int:
                found = (await admin.list_offsets({tp("times"): when}))[tp("times")]
                assert isinstance(found, OffsetAt)
                return found.offset

            assert await offset(EARLIEST) == 0
            assert await offset(LATEST) == 5
            assert await offset(MAX_TIMESTAMP) == 4
            assert await offset(NOON + 2 * 60_000) == 2
            assert await offset(NOON + 2 * 60_000 + 1) == 3
            assert await offset(NOON + 10**9) == -1

            assert await admin.delete_records({tp("times"): 3}) == {tp("times"): 3}
            assert await offset(EARLIEST) == 3
            refused = (await admin.delete_records({tp("times"): 99}))[tp("times")]
            assert isinstance(refused, BrokerRefused)
            assert refused.code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(story())


def test_settings_of_topics(broker: Broker) -> None:
    async def story() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            admin = Admin(cluster)
            await admin.create_topic("settings", configs={"retention.ms": "1000"})
            await admin.alter_configs(
                "settings",
                {
                    "retention.ms": None,
                    "segment.bytes": "1048576",
                    "cleanup.policy": (ConfigOperation.APPEND, "compact"),
                },
            )
            configs = await admin.describe_configs("settings", documentation=True)
            assert configs["retention.ms"].is_default
            assert configs["segment.bytes"].value == "1048576"
            assert not configs["segment.bytes"].is_default
            assert set((configs["cleanup.policy"].value or "").split(",")) == {"compact", "delete"}
            assert configs["segment.bytes"].documentation

            with pytest.raises(BrokerRefused) as caught:
                await admin.alter_configs("settings", {"retention.ms": "soon"})
            assert caught.value.code == ErrorCode.INVALID_CONFIG
            await admin.alter_configs("settings", {"retention.ms": "77"}, validate_only=True)
            assert (await admin.describe_configs("settings"))["retention.ms"].is_default

    run(story())


def test_settings_of_brokers_and_what_they_hold(broker: Broker) -> None:
    async def story() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            admin = Admin(cluster)
            info = await admin.describe_cluster()
            [node] = info.brokers
            assert str(node) == broker.bootstrap
            configs = await admin.describe_configs(str(node.node_id), resource=ResourceType.BROKER)
            assert "num.partitions" in configs

            await admin.create_topic("held", partitions=2)
            async with Producer(cluster) as producer:
                await producer.send_batch("held", 1, [(NOON, None, b"x" * 1000, ())])
            [directory] = await admin.describe_log_dirs(["held"])
            assert directory.node_id == node.node_id
            assert directory.sizes[tp("held", 0)] == 0
            assert directory.sizes[tp("held", 1)] > 1000
            everything = await admin.describe_log_dirs()
            assert tp("held", 1) in everything[0].sizes

    run(story())


def test_more_partitions(broker: Broker) -> None:
    async def story() -> None:
        async with Cluster(broker.bootstrap) as cluster:
            admin = Admin(cluster)
            await admin.create_topic("growing", partitions=2)
            await admin.create_partitions("growing", 5, validate_only=True)
            assert len((await admin.describe_topic("growing")).partitions) == 2
            await admin.create_partitions("growing", 5)
            assert len((await cluster.topic("growing")).partitions) == 5
            with pytest.raises(BrokerRefused, match="INVALID_PARTITIONS"):
                await admin.create_partitions("growing", 3)

    run(story())
