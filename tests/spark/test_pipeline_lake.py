"""The lake: records by hour, as they were; what is not what it should be goes to the dead letters."""

from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from millpond.spark.pipelines import lake
from millpond.spark.pipelines.table import Table
from tests.spark.pipeline_kit import frame, headers_of, numbered, record, rows_of

pytestmark = pytest.mark.spark


def test_records_land_in_the_hour_of_their_timestamp_whatever_the_session_thinks(
    spark: Any, tmp_path: Path
) -> None:
    records = frame(
        spark,
        numbered(
            [
                record("a", key="k", seconds=0),
                record(b"\xff\x00", seconds=3599, headers={"trace": "1"}),
                record(None, key="gone", seconds=3600),
                record("z", topic="logs", seconds=86_400 - 5 * 3600),
            ]
        ),
    )
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        table = Table(tmp_path / "lake")
        rows = lake.partitioned(lake.good(lake.judge(records, "binary")))
        table.publish(rows, writer="q", batch=0, partition_by=lake.PARTITIONS)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    places = {str(file.parent.relative_to(table.path)) for file in table.files()}
    assert places == {
        "topic=clicks/date=2026-01-31/hour=05",
        "topic=clicks/date=2026-01-31/hour=06",
        "topic=logs/date=2026-02-01/hour=00",
    }
    found = pyarrow.dataset.dataset(table.path, partitioning="hive").to_table().to_pylist()
    by_offset = {row["offset"]: row for row in found}
    assert by_offset[0]["key"] == b"k"
    assert by_offset[1]["value"] == b"\xff\x00"
    assert by_offset[1]["headers"] == [{"key": "trace", "value": b"1"}]
    assert by_offset[2]["value"] is None


@pytest.mark.parametrize(
    ("value", "kept", "buried"),
    [
        ("binary", {0, 1, 2, 3}, {}),
        ("text", {0, 1, 3}, {2: "NOT_UTF8"}),
        ("json", {0, 3}, {1: "MALFORMED_JSON", 2: "NOT_UTF8"}),
    ],
)
def test_what_is_not_text_or_json_is_a_dead_letter(
    spark: Any, value: str, kept: set[int], buried: dict[int, str]
) -> None:
    records = frame(
        spark,
        numbered([record('{"a": 1}'), record("plain"), record(b"\xff", partition=3), record(None)]),
    )
    judged = lake.judge(records, value)
    assert rows_of(lake.good(judged), "offset") == {(offset,) for offset in kept}
    options = lake.Options(source=("clicks",), value=value, group="g")
    letters = [headers_of(row) for row in lake.dead(judged, options).collect()]
    assert {
        int(letter["__dlq.errors.offset"]): letter["__dlq.errors.reason"] for letter in letters
    } == buried


def test_a_dead_letter_says_where_it_is_from_and_keeps_its_record(spark: Any) -> None:
    poison = record(b"\xff", key="k", partition=3, offset=17, seconds=1, headers={"trace": "abc"})
    options = lake.Options(source=("clicks",), value="text", group="millpond-lake")
    (letter,) = lake.dead(lake.judge(frame(spark, [poison]), "text"), options).collect()
    assert (letter["topic"], bytes(letter["key"]), bytes(letter["value"])) == (
        "clicks.dlq",
        b"k",
        b"\xff",
    )
    assert headers_of(letter) == {
        "trace": "abc",
        "__dlq.errors.topic": "clicks",
        "__dlq.errors.partition": "3",
        "__dlq.errors.offset": "17",
        "__dlq.errors.group": "millpond-lake",
        "__dlq.errors.delivery.count": "1",
        "__dlq.errors.message": "the value is not UTF-8 text",
        "__dlq.errors.reason": "NOT_UTF8",
        "__dlq.errors.stack": "NOT_UTF8: the value is not UTF-8 text\n  at lake.judge(value=text)",
        "__dlq.errors.timestamp": "1769835601000",
    }
