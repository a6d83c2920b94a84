"""Each record once: exactly within a time, by Bloom filter at scale, and after a crash."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millpond.spark.pipelines import dedup
from millpond.spark.pipelines.bloom import BloomFilter
from millpond.spark.pipelines.errors import PipelineError
from tests.spark.pipeline_kit import (
    at,
    frame,
    headers_of,
    numbered,
    record,
    rows_of,
    since_start,
)


def order(number: int, seconds: float = 0, **more: Any) -> tuple[Any, ...]:
    return record(json.dumps({"id": f"o{number}"}), topic="orders", seconds=seconds, **more)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("$.id", "o1"),
        ("$.deep.id", None),
        ("header:trace", "t9"),
        ("key", "6B"),
        ("value", "7B226964223A20226F31227D"),
    ],
)
def test_the_id_can_be_in_many_places(spark: Any, where: str, found: str | None) -> None:
    records = frame(spark, [order(1, key="k", headers={"trace": "t9"})])
    assert rows_of(dedup.judge(records, where), "id") == {(found,)}


def test_an_id_at_nowhere_is_refused() -> None:
    with pytest.raises(PipelineError, match="--id somewhere"):
        dedup.id_column("somewhere")


def test_a_batch_keeps_the_oldest_of_each_and_buries_what_has_no_id(spark: Any) -> None:
    records = numbered([order(1, 5), order(1, 0), order(2, 1), order(1, 9), record("{}", offset=9)])
    judged = dedup.judge(frame(spark, records), "$.id")
    assert rows_of(dedup.first_of_each(dedup.good(judged)), "id", "offset") == {
        ("o1", 1),
        ("o2", 2),
    }
    options = dedup.Options(source=("orders",), to="clean", group="g")
    (letter,) = dedup.dead(judged, options).collect()
    assert headers_of(letter)["__dlq.errors.reason"] == "NO_ID"


def test_a_stream_remembers_ids_for_as_long_as_it_was_told(spark: Any, tmp_path: Path) -> None:
    """The same order twice in a minute is one; after two hours it is a new one."""
    batches = [
        [order(1, 0), order(1, 10), order(2, 20)],
        [order(2, 50), order(3, 60)],
        [order(8, 7300)],
        [order(9, 7310)],
        [order(1, 7320)],
    ]
    arrive(spark, tmp_path, batches)
    stream = (
        spark.readStream.schema(frame(spark, []).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in" / "*"))
    )
    kept = dedup.exact(dedup.good(dedup.judge(stream, "$.id")), within="1 hour")
    query = (
        kept.select("id", "timestamp")
        .writeStream.format("memory")
        .queryName("dedup_story")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.table("dedup_story").groupBy("id").count()
    assert rows_of(found, "id", "count") == {("o1", 2), ("o2", 1), ("o3", 1), ("o8", 1), ("o9", 1)}


def test_one_clock_that_is_ahead_makes_nobody_late(spark: Any, tmp_path: Path) -> None:
    """The second order comes from a machine whose clock is an hour ahead; the third comes after it."""
    now = since_start()
    batches = [
        [order(1, now)],
        [order(2, now + 3600)],
        [order(3, now + 1), order(2, now + 2)],
        [order(2, now + 3600), order(4, now + 3)],
    ]
    arrive(spark, tmp_path, batches)
    stream = (
        spark.readStream.schema(frame(spark, []).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in" / "*"))
    )
    kept = dedup.exact(dedup.good(dedup.judge(stream, "$.id")), within="10 minutes")
    query = (
        kept.select("id", "timestamp")
        .writeStream.format("memory")
        .queryName("dedup_story")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.table("dedup_story").groupBy("id").count()
    assert rows_of(found, "id", "count") == {(f"o{number}", 1) for number in (1, 2, 3, 4)}
    ahead = spark.table("dedup_story").where("id = 'o2'").selectExpr("unix_seconds(timestamp)")
    assert ahead.first()[0] == int(at(now + 3600).timestamp()), "its own time is left as it is"


def test_the_filter_knows_what_was_written_and_a_repeated_batch_is_the_same(
    spark: Any, tmp_path: Path
) -> None:
    options = dedup.Options(source=("orders",), to="clean", capacity=1000, rate=0.001)
    memory = dedup.Memory(tmp_path / "filters", options)

    def let_through(number: int, *numbers: int) -> set[str]:
        batch = dedup.good(dedup.judge(frame(spark, numbered(map(order, numbers))), "$.id"))
        known = memory.before(number)
        fresh = dedup.unseen(batch, spark.sparkContext.broadcast(known)).persist()
        found = {row["id"] for row in fresh.collect()}
        memory.keep(number, known, fresh)
        return found

    assert let_through(0, 1, 2, 2, 3) == {"o1", "o2", "o3"}
    assert let_through(1, 3, 4) == {"o4"}
    memory = dedup.Memory(tmp_path / "filters", options)  # the driver died after its last batch
    assert let_through(1, 3, 4) == {"o4"}, (
        "what a batch lets through does not depend on a first try"
    )
    assert let_through(2, 1, 4, 5) == {"o5"}
    assert 0 < memory.rate() == memory.before(3).rate < options.rate, "anybody can ask the files"
    with pytest.raises(PipelineError, match="begin with a new checkpoint"):
        dedup.Memory(tmp_path / "elsewhere", options).before(3)


def test_the_measured_rate_is_the_stated_rate(spark: Any) -> None:
    """With Spark's own hash, end to end: 20,000 known ids, 50,000 new ones."""
    known = BloomFilter(20_000, 0.01)
    ids = spark.range(70_000).selectExpr(
        "cast(concat('o', id) AS string) AS id",
        "timestamp'2026-01-01' AS timestamp",
        "'t' AS topic",
        "0 AS partition",
        "id AS offset",
    )
    import numpy as np
    from pyspark.sql import functions as sf

    old = ids.where("offset < 20000").select(sf.xxhash64("id")).toArrow().column(0)
    known.add(np.asarray(old))
    let_through = dedup.unseen(ids, spark.sparkContext.broadcast(known)).count()
    wrong = (50_000 - let_through) / 50_000
    assert 0.005 < wrong < 0.015


def arrive(spark: Any, place: Path, batches: list[list[tuple[Any, ...]]]) -> None:
    """Records that arrive one file after the other."""
    for number, batch in enumerate(batches):
        frame(spark, numbered(batch)).coalesce(1).write.parquet(str(place / "in" / f"{number}"))


@pytest.fixture(autouse=True)
def _no_leftovers(spark: Any) -> Iterator[None]:
    yield
    spark.sql("DROP VIEW IF EXISTS dedup_story")
