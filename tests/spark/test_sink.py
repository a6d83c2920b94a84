"""``df.write`` and ``df.writeStream`` into topics, judged by a consumer of committed data that is not ours.

Everything runs against Millpond and against Apache Kafka: what is promised is the protocol's doing, not one
broker's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.peers import create_topic, running
from tests.support.kafka.committed import read_committed, read_uncommitted, values
from tests.support.processes.ports import wait_until


@pytest.fixture(scope="module", params=["millpond", "kafka"])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as address:
        yield address


@pytest.fixture
def out(bootstrap: str, topic: str) -> str:
    return create_topic(bootstrap, topic)


def numbers(spark: Any, count: int, tasks: int = 2) -> Any:
    """Rows with the texts ``0``, ``1``, … as keys and values."""
    return spark.range(0, count, 1, tasks).selectExpr(
        "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"
    )


def texts(count: int) -> list[bytes]:
    return sorted(str(number).encode() for number in range(count))


def committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """What is committed, once there are ``count``: Kafka answers a commit before readers can see it."""
    found: list[bytes] = []

    def complete() -> bool:
        found[:] = values(read_committed(bootstrap, topic))
        return len(found) >= count

    wait_until(complete, timeout_s=30, what=f"{count} records are committed")
    return sorted(found)


def into(frame: Any, bootstrap: str, topic: str | None = None, **options: str) -> Any:
    """``frame.write`` to a topic, not yet saved."""
    writer = frame.write.format("millpond").mode("append")
    writer = writer.option("kafka.bootstrap.servers", bootstrap)
    if topic is not None:
        writer = writer.option("topic", topic)
    return writer.options(**options)


def copy_stream(
    spark: Any, bootstrap: str, source: str, sink: str, checkpoint: Path, **options: str
) -> Any:
    """Copy what is in one topic to another, in several batches, and wait for the end."""
    form = options.pop("form", "millpond")
    small = options.pop("small", "1000")
    frame = (
        spark.readStream.format("millpond")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "300")
        .option("smallBatchOffsets", small)
        .load()
        .selectExpr("key", "value")
    )
    query = (
        frame.writeStream.format(form)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", str(checkpoint))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def test_a_frame_is_written_once_and_as_a_whole(spark: Any, bootstrap: str, out: str) -> None:
    into(numbers(spark, 1000), bootstrap, out, **{"kafka.compression.type": "zstd"}).save()
    assert committed(bootstrap, out, 1000) == texts(1000)
    messages = read_committed(bootstrap, out)
    assert all(message.key() == message.value() for message in messages)
    assert {message.partition() for message in messages} == {0, 1, 2}


def test_rows_choose_their_topics(spark: Any, bootstrap: str, out: str) -> None:
    other = create_topic(bootstrap, f"{out}-odd")
    frame = numbers(spark, 100).selectExpr(
        "value",
        f"IF(CAST(value AS INT) % 2 = 0, '{out}', '{other}') AS topic",
        "CAST(1 AS INT) AS partition",
        "ARRAY(NAMED_STRUCT('key', 'from', 'value', CAST('spark' AS BINARY))) AS headers",
    )
    into(frame, bootstrap).save()
    odd = committed(bootstrap, other, 50)
    assert sorted(committed(bootstrap, out, 50) + odd) == texts(100)
    assert all(int(value) % 2 == 1 for value in odd)
    even = read_committed(bootstrap, out)
    assert {message.partition() for message in even} == {1}
    assert all(message.headers() == [("from", b"spark")] for message in even)


def test_a_job_that_fails_half_way_leaves_nothing_to_be_seen(
    spark: Any, bootstrap: str, out: str
) -> None:
    broken = numbers(spark, 1000).selectExpr(
        "key", "IF(key = '990', CAST(RAISE_ERROR('poison') AS STRING), value) AS value"
    )
    with pytest.raises(Exception, match="poison"):
        into(broken, bootstrap, out).save()
    assert committed(bootstrap, out, 0) == []
    into(numbers(spark, 5), bootstrap, out).save()
    assert committed(bootstrap, out, 5) == texts(5)


def test_a_named_version_is_written_once_however_often_it_is_tried(
    spark: Any, bootstrap: str, out: str
) -> None:
    for version in (0, 0, 1, 1):
        into(numbers(spark, 10), bootstrap, out, txnAppId=out, txnVersion=str(version)).save()
    assert committed(bootstrap, out, 20) == sorted(texts(10) * 2)
    assert len(read_uncommitted(bootstrap, out)) == 20


def test_a_stream_copies_a_topic_and_goes_on_where_it_stopped(
    spark: Any, bootstrap: str, out: str, tmp_path: Path
) -> None:
    source = create_topic(bootstrap, f"{out}-source")
    into(numbers(spark, 1000), bootstrap, source).save()
    query = copy_stream(spark, bootstrap, source, out, tmp_path)
    assert query.lastProgress["batchId"] >= 3
    assert committed(bootstrap, out, 1000) == texts(1000)
    into(numbers(spark, 10), bootstrap, source).save()
    copy_stream(spark, bootstrap, source, out, tmp_path)
    assert committed(bootstrap, out, 1010) == sorted(texts(1000) + texts(10))


def test_a_commit_that_breaks_half_way_is_completed_by_the_next_run(
    spark: Any, bootstrap: str, out: str, tmp_path: Path
) -> None:
    source = create_topic(bootstrap, f"{out}-source")
    into(numbers(spark, 600), bootstrap, source).save()
    spark.dataSource.register(half_way_source())
    with pytest.raises(Exception, match="broke half-way"):
        copy_stream(spark, bootstrap, source, out, tmp_path, form="half-way", small="0")
    some = len(committed(bootstrap, out, 1))
    assert 0 < some < 300
    copy_stream(spark, bootstrap, source, out, tmp_path, small="0")
    assert committed(bootstrap, out, 600) == texts(600)


def half_way_source() -> type:
    """A source whose commits end one transaction and break."""
    from pyspark.sql.datasource import DataSource

    from millpond.spark.sink import StreamSink, _worker

    class HalfWay(StreamSink):  # local, so that it travels by value
        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            transactions = _worker(self.options)._transactions
            end = transactions.end
            ended: list[Any] = []

            async def end_one(transaction: Any, *, commit: bool) -> None:
                if ended:
                    raise RuntimeError("broke half-way")
                ended.append(transaction)
                await end(transaction, commit=commit)

            transactions.end = end_one  # type: ignore[method-assign]
            try:
                super().commit(messages, batchId)
            finally:
                transactions.end = end  # type: ignore[method-assign]

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "half-way"

        def streamWriter(self, schema: Any, overwrite: bool) -> HalfWay:  # noqa: N802
            return HalfWay(self.options, schema)

    return Source


def test_at_least_once_needs_no_transaction(
    spark: Any, bootstrap: str, out: str, tmp_path: Path
) -> None:
    source = create_topic(bootstrap, f"{out}-source")
    into(numbers(spark, 100), bootstrap, source, delivery="at-least-once").save()
    copy_stream(spark, bootstrap, source, out, tmp_path, delivery="at-least-once")
    assert committed(bootstrap, out, 100) == texts(100)
    # No marker stands behind the records: the offsets are those of the records alone.
    assert max(message.offset() for message in read_committed(bootstrap, out)) < 100


class TestRefusals:
    """Said before the first row moves, with the name of the column or the option."""

    @pytest.fixture
    def bootstrap(self) -> str:
        return "127.0.0.1:1"  # nobody is asked

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            (["id"], 'there is no column "value"'),
            (["id AS value"], 'column "value" is bigint; a record takes string or binary'),
            (["CAST(id AS STRING) AS value", "id AS key"], 'column "key" is bigint'),
            (["CAST(id AS STRING) AS value", "id AS partition"], "a record takes int"),
            (["CAST(id AS STRING) AS value", "ARRAY(id) AS headers"], "array<struct<key:string"),
        ],
    )
    def test_columns(self, spark: Any, bootstrap: str, columns: list[str], words: str) -> None:
        with pytest.raises(Exception, match=words):
            into(spark.range(1).selectExpr(*columns), bootstrap, "t").save()

    def test_nowhere_to_go(self, spark: Any, bootstrap: str) -> None:
        with pytest.raises(Exception, match=r'Say \.option\("topic", "name"\)'):
            into(numbers(spark, 1), bootstrap).save()

    def test_overwriting(self, spark: Any, bootstrap: str) -> None:
        with pytest.raises(Exception, match="a topic cannot be overwritten"):
            into(numbers(spark, 1), bootstrap, "t").mode("overwrite").save()
