"""Streams: every record once, over limits, restarts, new topics, losses and brokers that go away."""

import json
from pathlib import Path
from typing import Any

import pytest

from millpond.base.ids import TopicPartition
from millpond.client import Admin, BlockingClient, Groups
from tests.spark.reading import Collected, run_once, start, stream, write
from tests.support.processes.broker_process import MillpondProcess


def numbers(first: int, end: int) -> list[str]:
    """Values in order, padded so that text sorts like numbers."""
    return [f"{number:04d}" for number in range(first, end)]


def test_available_now_reads_in_bounded_batches_and_goes_on_from_its_checkpoint(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, partitions=2)
    for partition in range(2):
        write(client, topic, partition, numbers(0, 100))
    frame = stream(
        spark,
        broker,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=120,
        kafka_group_id=topic,
    )
    sink = Collected()

    query = run_once(frame, sink, tmp_path / "checkpoint")

    assert sink.sizes == [120, 80]
    assert sink.texts == numbers(0, 100) * 2
    first, last = query.recentProgress[0].sources[0], query.recentProgress[-1].sources[0]
    assert json.loads(first.endOffset) == {topic: {"0": 60, "1": 60}}
    assert json.loads(first.latestOffset) == {topic: {"0": 100, "1": 100}}, "lag can be seen"
    assert json.loads(last.endOffset) == {topic: {"0": 100, "1": 100}}
    places = [TopicPartition(topic, number) for number in range(2)]
    committed = client.run(lambda cluster: Groups(cluster).offsets(topic))
    assert committed == dict.fromkeys(places, 100), "the group is where the query is"

    write(client, topic, 1, numbers(100, 110))
    run_once(frame, sink, tmp_path / "checkpoint")

    assert sink.texts == [*numbers(0, 100), *numbers(0, 110)]


def test_topics_and_partitions_that_come_later_are_read_from_their_start(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    client.create_topic(f"{topic}-a", partitions=1)
    write(client, f"{topic}-a", 0, ["before"])
    sink = Collected()
    query = start(
        stream(spark, broker, subscribePattern=f"{topic}-.*"), sink, tmp_path / "checkpoint"
    )
    try:
        query.processAllAvailable()
        write(client, f"{topic}-a", 0, ["a0"])
        client.create_topic(f"{topic}-b", partitions=1)
        write(client, f"{topic}-b", 0, ["b0"])
        client.run(lambda cluster: Admin(cluster).create_partitions(f"{topic}-a", 2))
        write(client, f"{topic}-a", 1, ["a1"])
        query.processAllAvailable()
    finally:
        query.stop()

    assert sink.texts == ["a0", "a1", "b0"], "from the latest on, and new ones from their start"


def test_a_query_outlives_a_broker_that_goes_away(spark: Any, topic: str, tmp_path: Path) -> None:
    sink = Collected()
    with MillpondProcess(tmp_path / "broker") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topic(topic, partitions=2)
            write(client, topic, 0, numbers(0, 50))
        frame = stream(spark, broker, subscribe=topic, startingOffsets="earliest")
        query = start(frame, sink, tmp_path / "checkpoint")
        try:
            query.processAllAvailable()
            broker.restart()
            with BlockingClient(broker.bootstrap) as client:
                write(client, topic, 1, numbers(50, 100))
            query.processAllAvailable()
            assert query.isActive
        finally:
            query.stop()

    assert sink.texts == numbers(0, 100)


def test_a_query_that_gave_up_waiting_goes_on_from_its_checkpoint(
    spark: Any, topic: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    sink = Collected()
    with MillpondProcess(tmp_path / "broker") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topic(topic, partitions=1)
            write(client, topic, 0, numbers(0, 50))
        frame = stream(
            spark,
            broker,
            subscribe=topic,
            startingOffsets="earliest",
            kafka_default_api_timeout_ms=500,
        )
        query = start(frame, sink, tmp_path / "checkpoint")
        query.processAllAvailable()
        broker.kill()
        with pytest.raises(StreamingQueryException) as raised:
            query.awaitTermination(60)
        for word in (
            f"subscribe={topic}",
            broker.bootstrap,
            "kafka.default.api.timeout.ms",
            "500 ms",
        ):
            assert word in str(raised.value)

        broker.start()
        with BlockingClient(broker.bootstrap) as client:
            write(client, topic, 0, numbers(50, 100))
        run_once(frame, sink, tmp_path / "checkpoint")

    assert sink.texts == numbers(0, 100)


def test_what_was_deleted_before_it_was_read_is_named_and_the_rest_is_read(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    client.create_topic(topic, partitions=1)
    write(client, topic, 0, numbers(0, 10))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    sink = Collected()
    run_once(stream(spark, broker, **options), sink, tmp_path / "checkpoint")
    write(client, topic, 0, numbers(10, 100))
    client.run(lambda cluster: Admin(cluster).delete_records({TopicPartition(topic, 0): 70}))

    with pytest.raises(StreamingQueryException, match=f"{topic}-0, offsets 10 to 69: deleted"):
        run_once(stream(spark, broker, **options), sink, tmp_path / "checkpoint")

    report = tmp_path / "lost.jsonl"
    lenient = stream(spark, broker, **options, failOnDataLoss="false", lossReport=report)
    run_once(lenient, sink, tmp_path / "checkpoint")

    assert sink.texts == [*numbers(0, 10), *numbers(70, 100)]
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert {
        (line["topic"], line["partition"], line["firstOffset"], line["endOffset"]) for line in lines
    } == {(topic, 0, 10, 70)}


def test_a_listener_shows_the_progress_of_any_query_as_a_group(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    from millpond.spark.listener import show_as_group

    client.create_topic(topic, partitions=1)
    write(client, topic, 0, numbers(0, 10))
    listener = show_as_group(spark, broker.bootstrap, f"{topic}-group")
    frame = stream(spark, broker, subscribe=topic, startingOffsets="earliest")
    run_once(frame, Collected(), tmp_path / "checkpoint")
    listener.close()

    committed = client.run(lambda cluster: Groups(cluster).offsets(f"{topic}-group"))
    assert committed == {TopicPartition(topic, 0): 10}


def test_a_stream_that_is_given_an_end_is_refused(
    spark: Any, broker: MillpondProcess, tmp_path: Path
) -> None:
    frame = stream(spark, broker, subscribe="anything", endingOffsets="latest")
    assert frame.isStreaming

    from pyspark.errors import StreamingQueryException

    wrong = stream(spark, broker, subscribe="anything", endingTimestamp="5")
    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        run_once(wrong, Collected(), tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "{topic}x"}, "subscribe: the broker does not have {topic}x"),
        (
            {"subscribe": "{topic}", "startingOffsets": '{"{topic}":{"0":99}}'},
            "startingOffsets: {topic}-0 ends at 5, before 99",
        ),
    ],
)
def test_what_a_stream_cannot_read_is_named_with_the_option(
    spark: Any,
    broker: MillpondProcess,
    client: BlockingClient,
    topic: str,
    tmp_path: Path,
    options: dict[str, str],
    words: str,
) -> None:
    from pyspark.errors import StreamingQueryException

    client.create_topic(topic, partitions=1)
    write(client, topic, 0, numbers(0, 5))
    given = {name: value.replace("{topic}", topic) for name, value in options.items()}
    wrong = stream(spark, broker, **given, **{"fetchOffset.retryIntervalMs": 10})
    with pytest.raises(StreamingQueryException) as raised:
        run_once(wrong, Collected(), tmp_path / "checkpoint")
    assert words.replace("{topic}", topic) in str(raised.value)


def test_a_query_from_the_latest_on_that_died_before_its_first_commit_misses_nothing(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    client.create_topic(topic, partitions=1)
    write(client, topic, 0, numbers(0, 10))
    frame = stream(spark, broker, subscribe=topic, startingOffsets="latest")
    sink = Collected()
    run_once(frame, sink, tmp_path / "checkpoint")
    commits = tmp_path / "checkpoint" / "commits"
    for file in (commits / "0", commits / ".0.crc"):  # as if it had been killed just before
        file.unlink(missing_ok=True)
    write(client, topic, 0, numbers(10, 30))

    run_once(frame, sink, tmp_path / "checkpoint")

    assert sink.texts == numbers(10, 30)
