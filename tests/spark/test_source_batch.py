"""Batch queries: what is in the topics comes out, once, in the official connector's columns."""

from typing import Any

from millpond.client import BlockingClient
from tests.spark.reading import read, write
from tests.support.broker_process import MillpondProcess


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
