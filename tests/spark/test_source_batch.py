"""Batch queries: what is in the topics comes out, once, in the official connector's columns."""

from pathlib import Path
from typing import Any

import pytest

from millpond.client import BlockingClient
from millpond.spark.errors import UnknownTopic, WrongOption
from tests.spark.reading import TIME_MS, read, texts, with_options, write
from tests.support.processes.broker_process import MillpondProcess


def test_every_record_of_a_topic_comes_once_with_all_its_columns(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str
) -> None:
    client.create_topic(topic, partitions=3)
    for partition in range(3):
        write(client, topic, partition, [f"{partition}.{number}" for number in range(100)])

    frame = read(spark, broker, subscribe=topic)

    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    rows = frame.orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset, bytes(row.value).decode()) for row in rows] == [
        (partition, number, f"{partition}.{number}")
        for partition in range(3)
        for number in range(100)
    ]
    first = rows[0]
    assert (bytes(first.key), first.topic, first.timestampType) == (b"key 0.0", topic, 0)
    assert first.timestamp.timestamp() == 1_700_000_000.0


def numbers(first: int, end: int) -> list[str]:
    """Values in order, padded so that text sorts like numbers."""
    return [f"{number:04d}" for number in range(first, end)]


def test_offsets_times_and_pieces_narrow_what_is_read(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str
) -> None:
    client.create_topic(topic, partitions=1)
    write(client, topic, 0, numbers(0, 500))

    by_offsets = read(
        spark,
        broker,
        assign=f'{{"{topic}":[0]}}',
        startingOffsets=f'{{"{topic}":{{"0":100}}}}',
        endingOffsets=f'{{"{topic}":{{"0":110}}}}',
    )
    assert texts(by_offsets.collect()) == numbers(100, 110)

    by_times = read(
        spark,
        broker,
        subscribe=topic,
        startingTimestamp=TIME_MS + 200,
        endingOffsetsByTimestamp=f'{{"{topic}":{{"0":{TIME_MS + 205}}}}}',
    )
    assert texts(by_times.collect()) == numbers(200, 205)

    in_pieces = read(spark, broker, subscribe=topic, minPartitions=4, maxRecordsPerPartition=100)
    assert in_pieces.rdd.getNumPartitions() == 5
    assert texts(in_pieces.collect()) == numbers(0, 500)

    filtered = read(spark, broker, subscribe=topic, pushFilters="true", minPartitions=5).where(
        "offset >= 150 and offset < 250 and partition = 0 and value is not null"
    )
    assert filtered.rdd.getNumPartitions() == 2, "tasks that have nothing to read are not made"
    assert texts(filtered.collect()) == numbers(150, 250)


def test_headers_and_nulls_come_as_they_were_written(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str
) -> None:
    client.create_topic(topic, partitions=1)
    write(client, topic, 0, ["with"], headers=[("a", b"1"), ("a", None)])
    client.produce_batch(topic, 0, [(TIME_MS, None, None, ())])

    frame = read(spark, broker, subscribe=topic, includeHeaders="true")

    assert frame.schema["headers"].dataType.simpleString() == (
        "array<struct<key:string,value:binary>>"
    )
    first, second = frame.orderBy("offset").collect()
    assert [(item.key, item.value) for item in first.headers] == [("a", b"1"), ("a", None)]
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_only_committed_records_for_those_who_ask(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str
) -> None:
    from confluent_kafka import Producer

    client.create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for value, commit in (("kept", True), ("gone", False), ("kept too", True)):
        producer.begin_transaction()
        producer.produce(topic, value.encode(), partition=0)
        producer.flush(30)  # what is aborted must have been written
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    everything = read(spark, broker, subscribe=topic)
    committed = read(spark, broker, subscribe=topic, kafka_isolation_level="read_committed")

    assert texts(everything.collect()) == ["kept", "gone", "kept too"]
    assert texts(committed.collect()) == ["kept", "kept too"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"subscribee": "x"}, WrongOption, "no option 'subscribee'; did you mean subscribe?"),
        ({"startingOffsets": "latest"}, WrongOption, "would read nothing"),
        ({"subscribe": "no-such-topic"}, UnknownTopic, "does not have no-such-topic"),
    ],
)
def test_what_is_wrong_is_said_by_name(
    spark: Any,
    broker: MillpondProcess,
    options: dict[str, str],
    error: type[Exception],
    message: str,
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as raised:
        read(spark, broker, **{"subscribe": "anything", **options}).collect()

    assert error.__name__ in str(raised.value)
    assert message in str(raised.value)


def test_a_schema_of_ones_own_is_refused(spark: Any, broker: MillpondProcess) -> None:
    from pyspark.errors import AnalysisException

    reader = with_options(spark.read, broker.bootstrap, {"subscribe": "anything"})

    with pytest.raises(AnalysisException, match="the columns of this source are fixed"):
        reader.schema("key string, value string").load().collect()


def test_an_address_where_nobody_listens_is_said_at_once(spark: Any) -> None:
    from pyspark.errors import AnalysisException

    reader = with_options(spark.read, "127.0.0.1:1", {"subscribe": "anything"})

    with pytest.raises(AnalysisException, match=r"no broker answers at 127\.0\.0\.1:1"):
        reader.load().collect()


def test_segment_files_give_the_same_rows_without_a_broker(
    spark: Any, tmp_path: Path, topic: str
) -> None:
    with MillpondProcess(tmp_path) as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topic(topic, partitions=2, configs={"segment.bytes": "16384"})
        for partition in range(2):
            for first in range(0, 1000, 100):
                write(client, topic, partition, numbers(first, first + 100))
        expected = read(spark, broker, subscribe=topic).orderBy("partition", "offset").collect()

    files = spark.read.format("millpond").option("segments", str(broker.data))
    found = files.option("subscribe", topic).load().orderBy("partition", "offset").collect()

    assert len(found) == 2000
    assert found == expected
