"""Whose backlog may be taken over: a group's whose members have stopped, and as a stream."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

import millpond
from millpond.base.ids import TopicPartition
from millpond.client import BlockingClient, BlockingConsumer, Groups
from millpond.spark.pipelines import redistribute
from millpond.spark.pipelines.errors import PipelineError

NO_SPARK: Any = None


@pytest.fixture(scope="module")
def broker() -> Iterator[millpond.Broker]:
    with millpond.Broker() as running:
        yield running


def options(broker: millpond.Broker, **more: Any) -> redistribute.Options:
    given = {"source": ("orders",), "to": "spread", "take_over": "slow", **more}
    return redistribute.Options(bootstrap=broker.bootstrap, **given)


def test_a_group_that_still_reads_is_not_taken_over(broker: millpond.Broker) -> None:
    with BlockingClient(broker.bootstrap) as client:
        client.create_topic("orders", partitions=2)
        client.run(lambda cluster: Groups(cluster).commit("slow", {TopicPartition("orders", 1): 7}))
        assert redistribute._complete(options(broker)).starting == ('{"orders": {"0": -2, "1": 7}}')

        client.produce_batch("orders", 0, [(0, None, b"one", ())])

    consumer = BlockingConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap,
        group_id="slow",
        auto_offset_reset="earliest",
    )
    with consumer:
        next(iter(consumer))  # it has joined
        with pytest.raises(PipelineError, match="--take-over slow: the group has members"):
            redistribute._complete(options(broker))


def test_a_batch_does_not_take_over(broker: millpond.Broker) -> None:
    with pytest.raises(PipelineError, match="leave out --batch and give --available-now"):
        redistribute.run_batch(NO_SPARK, options(broker))


def test_its_topic_is_made_though_the_broker_makes_none_by_itself() -> None:
    with (
        millpond.Broker(auto_create_topics_enable=False) as strict,
        BlockingClient(strict.bootstrap) as client,
    ):
        redistribute.prepare_topic(options(strict, partitions=3))
        assert len(client.describe_topic("spread").partitions) == 3
        with pytest.raises(PipelineError, match="--partitions 4: topic spread has 3"):
            redistribute.prepare_topic(options(strict, partitions=4))
