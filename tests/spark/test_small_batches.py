"""Small batches: the same rows as from tasks, whoever reads them, and the same plan when they come again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millpond.client import BlockingClient
from tests.spark.reading import Collected, run_once, start, stream, write
from tests.support.processes.broker_process import MillpondProcess


class Planned:
    """One batch as Spark's Python side asks for it: the parts, and the rows that came with them."""

    def __init__(self, broker: MillpondProcess, topic: str, **options: str) -> None:
        from millpond.spark.options import parse_options
        from millpond.spark.source import StreamReader

        given = {
            "kafka.bootstrap.servers": broker.bootstrap,
            "subscribe": topic,
            "smallBatchOffsets": "1000",
        }
        self.reader = StreamReader(
            parse_options({**given, "startingOffsets": "earliest", **options})
        )
        from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        first = self.reader.initialOffset()
        self.end = self.reader.latestOffset(first, ReadAllAvailable())
        self.parts = self.reader.partitions(first, self.end)
        self.is_handed_over = isinstance(self.reader, _SimpleStreamReaderWrapper)
        self.rows = _rows(self.reader.getCache(first, self.end)) if self.is_handed_over else []
        assert not isinstance(self.reader, _SimpleStreamReaderWrapper), "only while it holds rows"

    def read_by_tasks(self) -> list[dict[str, Any]]:
        """What tasks read of the same parts."""
        return [row for part in self.parts for row in _rows(self.reader.read(part))]


def _rows(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def numbers(first: int, end: int) -> list[str]:
    """Values in order."""
    return [f"{number:04d}" for number in range(first, end)]


def test_a_small_batch_has_the_rows_that_tasks_would_read(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, partitions=2)
    write(client, topic, 0, numbers(0, 30), headers=[("trace", b"\x00\xff"), ("none", None)])
    write(client, topic, 1, numbers(30, 50))
    client.produce_batch(topic, 1, [(-5, None, None, ()), (10**12, b"", b"", ())])
    found = {}
    tasks = {}
    for way, offsets in (("driver", 1000), ("tasks", 0)):
        sink = Counted()
        frame = stream(
            spark,
            broker,
            subscribe=topic,
            startingOffsets="earliest",
            includeHeaders="true",
            smallBatchOffsets=offsets,
        )
        query = run_once(frame, sink, tmp_path / way)
        found[way] = sorted(sink.rows, key=lambda row: (row.partition, row.offset))
        tasks[way] = sink.tasks
        (progress,) = [one for one in query.recentProgress if one.numInputRows]
        assert json.loads(progress.sources[0].latestOffset) == {topic: {"0": 30, "1": 22}}

    assert found["driver"] == found["tasks"]
    assert len(found["driver"]) == 52
    assert tasks == {"driver": [1], "tasks": [2]}


class Counted(Collected):
    """Knows how many tasks each batch had, too."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[int] = []

    def __call__(self, frame: Any, batch_id: int) -> None:
        self.tasks.append(frame.rdd.getNumPartitions())
        super().__call__(frame, batch_id)


def test_small_and_large_batches_follow_each_other_and_nothing_is_missing(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, partitions=2)
    sink = Counted()
    frame = stream(spark, broker, subscribe=topic, startingOffsets="earliest", smallBatchOffsets=50)
    for first, end in ((0, 10), (10, 90), (90, 95)):
        for partition in range(2):
            write(client, topic, partition, numbers(first, end))
        run_once(frame, sink, tmp_path / "checkpoint")

    assert sink.texts == numbers(0, 95) * 2
    assert sink.tasks == [1, 2, 1]


def test_rows_that_are_lost_on_the_way_are_read_again_by_a_task(
    broker: MillpondProcess, client: BlockingClient, topic: str
) -> None:
    client.create_topic(topic, partitions=3)
    for partition in range(3):
        write(client, topic, partition, numbers(0, 7 * partition + 7))

    planned = Planned(broker, topic)

    assert planned.is_handed_over
    assert len(planned.parts) == 1, "Spark takes rows for one task only"
    assert len(planned.rows) == 42
    assert planned.read_by_tasks() == planned.rows


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        pytest.param({}, [300_000, 400_000], id="too many bytes"),
        pytest.param({"smallBatchOffsets": "1"}, [10, 10], id="too many offsets"),
        pytest.param({"smallBatchOffsets": "0"}, [10], id="switched off"),
        pytest.param({"minPartitions": "2"}, [10, 10], id="tasks were asked for"),
        pytest.param({"maxRecordsPerPartition": "1"}, [10], id="shares were asked for"),
    ],
)
def test_what_is_not_small_is_for_tasks_and_again_when_it_comes_again(
    broker: MillpondProcess,
    client: BlockingClient,
    topic: str,
    options: dict[str, str],
    sizes: list[int],
) -> None:
    client.create_topic(topic, partitions=len(sizes))
    for partition, size in enumerate(sizes):
        write(client, topic, partition, ["x" * size])

    plans = [Planned(broker, topic, **options) for _ in range(2)]

    assert not any(planned.is_handed_over for planned in plans)
    assert plans[0].parts == plans[1].parts
    assert len(plans[0].parts) == len(sizes)
    assert len(plans[0].read_by_tasks()) == len(sizes)


def test_a_batch_of_nothing_but_an_aborted_transaction_is_empty_and_the_stream_goes_on(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    from confluent_kafka import Producer

    client.create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    sink = Collected()
    frame = stream(
        spark,
        broker,
        subscribe=topic,
        kafka_isolation_level="read_committed",
        smallBatchOffsets=1000,
    )
    query = start(frame, sink, tmp_path / "checkpoint")
    try:
        query.processAllAvailable()
        for value, end in (
            (b"taken back", producer.abort_transaction),
            (b"meant", producer.commit_transaction),
        ):
            producer.begin_transaction()
            producer.produce(topic, value)
            producer.flush(30)
            end(30)
            query.processAllAvailable()
    finally:
        query.stop()

    assert sink.texts == ["meant"]
