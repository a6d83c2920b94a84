"""Parquet tables: written exactly once through crashes, and right for plain readers at every moment."""

import threading
from pathlib import Path
from typing import Any

import pandas
import pyarrow.dataset
import pytest

from millpond.spark.pipelines import compaction, flow
from millpond.spark.pipelines.compaction import compact, exchange_directories
from millpond.spark.pipelines.errors import CompactionMismatch, ForeignTable, PipelineError
from millpond.spark.pipelines.table import Table, write_parquet

pytestmark = pytest.mark.spark


class Crash(Exception):
    """The process dies here."""


def numbers(spark: Any, first: int, end: int) -> Any:
    """Rows ``n`` from first to end, in hours of ten."""
    return spark.range(first, end, 1, 2).selectExpr("id AS n", "cast(id div 10 AS string) AS hour")


def seen(place: Path) -> list[int]:
    """What a reader without any knowledge of us finds."""
    found = pyarrow.dataset.dataset(place, format="parquet", partitioning="hive").to_table(["n"])
    return sorted(found["n"].to_pylist())


def test_a_batch_that_spark_repeats_is_written_once(spark: Any, tmp_path: Path) -> None:
    lake = Table(tmp_path / "lake")
    assert lake.publish(numbers(spark, 0, 20), writer="q", batch=0, partition_by=("hour",))
    assert not lake.publish(numbers(spark, 0, 20), writer="q", batch=0, partition_by=("hour",))
    assert lake.publish(numbers(spark, 20, 25), writer="q", batch=1, partition_by=("hour",))
    assert seen(lake.path) == list(range(25))
    assert sorted(pandas.read_parquet(lake.path)["n"]) == list(range(25))


@pytest.mark.parametrize("survives", range(6))
def test_a_crash_between_any_two_steps_is_finished_by_the_next_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survives: int
) -> None:
    """Every rename is a place to die; the batch has files for three hours."""
    lake = Table(tmp_path / "lake")
    lake.publish(numbers(spark, 0, 10), writer="q", batch=0, partition_by=("hour",))
    left = survives
    rename = Path.rename

    def rename_until_death(self: Path, target: Path) -> Path:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_until_death)
    with pytest.raises(Crash):
        lake.publish(numbers(spark, 10, 40), writer="q", batch=1, partition_by=("hour",))
    monkeypatch.setattr(Path, "rename", rename)
    rows = seen(lake.path)
    assert len(rows) == len(set(rows)), "a reader between crash and restart sees no row twice"
    assert set(range(10)) <= set(rows)

    # Spark repeats the batch, perhaps cut into tasks in another way.
    again = Table(tmp_path / "lake")
    again.publish(
        numbers(spark, 10, 40).repartition(3), writer="q", batch=1, partition_by=("hour",)
    )
    assert seen(lake.path) == list(range(40))


def test_a_table_of_another_checkpoint_is_refused(spark: Any, tmp_path: Path) -> None:
    lake = Table(tmp_path / "lake")
    lake.publish(numbers(spark, 0, 5), writer="first", batch=0)
    with pytest.raises(ForeignTable, match="go on with that checkpoint, or give a new directory"):
        lake.publish(numbers(spark, 0, 5), writer="second", batch=0)
    (lake.work / "progress.json").unlink()
    with pytest.raises(ForeignTable, match="does not say who wrote them"):
        lake.publish(numbers(spark, 0, 5), writer="first", batch=1)
    assert seen(lake.path) == list(range(5))


def test_an_object_store_is_refused_in_words() -> None:
    with pytest.raises(PipelineError, match="published by renaming files, which s3a cannot do"):
        Table("s3a://bucket/lake")


def test_compaction_keeps_every_row_and_readers_never_see_it(spark: Any, tmp_path: Path) -> None:
    lake = Table(tmp_path / "lake")
    for batch in range(4):
        lake.publish(
            numbers(spark, batch * 20, batch * 20 + 20).selectExpr("n", "'00' AS hour"),
            writer="q",
            batch=batch,
            partition_by=("hour",),
        )
    before = len(lake.files())
    done, wrong, scans = threading.Event(), [], 0

    def read_again_and_again() -> None:
        nonlocal scans
        while not done.is_set():
            try:
                rows = seen(lake.path)
            except FileNotFoundError:
                continue  # listed before the exchange, opened after it: an error, never a wrong result
            scans += 1
            if rows != list(range(80)):
                wrong.append(rows)

    reader = threading.Thread(target=read_again_and_again)
    reader.start()
    try:
        (made,) = compact(spark, lake, order_by=("n",), quiet_s=0)
    finally:
        done.set()
        reader.join()
    assert scans
    assert not wrong
    assert (made.files_before, made.files_after, made.rows) == (before, 1, 80)
    assert len(lake.files()) == 1
    assert seen(lake.path) == list(range(80))

    # The repeated batch is still known, though its own files are gone.
    assert not lake.publish(numbers(spark, 60, 80), writer="q", batch=3, partition_by=("hour",))
    assert seen(lake.path) == list(range(80))


def test_a_batch_without_results_leaves_no_file_that_could_be_taken_for_an_earlier_versions(
    spark: Any, tmp_path: Path
) -> None:
    findings = Table(tmp_path / "findings")
    none = spark.range(0).selectExpr("id AS n", "timestamp_seconds(id) AS start")
    options = flow.TableOptions()
    for batch, rows in enumerate((none, none.coalesce(1))):
        turn = flow.Turn("q", batch, tmp_path / "checkpoint")
        flow.publish_results(findings, flow.dated(rows, "start"), turn, options)
    assert findings.files() == []
    flow.check_layout(findings)


def test_results_are_cut_by_date_and_their_small_files_become_one(
    spark: Any, tmp_path: Path
) -> None:
    sessions = Table(tmp_path / "sessions")
    options = flow.TableOptions(compact_every=4, quiet_s=0)
    for batch in range(4):
        rows = spark.range(batch * 5, batch * 5 + 5, 1, 1).selectExpr(
            "id AS n", "timestamp_seconds(86400 + id) AS start"
        )
        turn = flow.Turn("q", batch, tmp_path / "checkpoint")
        flow.publish_results(sessions, flow.dated(rows, "start"), turn, options)
    assert [file.parent.name for file in sessions.files()] == ["date=1970-01-02"]
    assert seen(sessions.path) == list(range(20))


@pytest.mark.parametrize("moment", ["before the exchange", "after the exchange"])
def test_a_crash_in_compaction_changes_nothing(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    lake = Table(tmp_path / "lake")
    for batch in range(4):
        rows = spark.range(batch * 5, batch * 5 + 5, 1, 1).selectExpr("id AS n", "'00' AS hour")
        lake.publish(rows, writer="q", batch=batch, partition_by=("hour",))

    def die(one: Path, other: Path) -> None:
        if moment == "after the exchange":
            exchange_directories(one, other)
        raise Crash

    monkeypatch.setattr(compaction, "exchange_directories", die)
    with pytest.raises(Crash):
        compact(spark, lake, quiet_s=0)
    assert seen(lake.path) == list(range(20))
    monkeypatch.setattr(compaction, "exchange_directories", exchange_directories)
    compact(spark, lake, quiet_s=0)
    assert seen(lake.path) == list(range(20))
    assert not list(lake.work.glob("compact-*"))


def test_busy_hours_and_large_files_are_left_alone(spark: Any, tmp_path: Path) -> None:
    lake = Table(tmp_path / "lake")
    for batch in range(5):
        rows = spark.range(batch * 5, batch * 5 + 5, 1, 1).selectExpr("id AS n", "'00' AS hour")
        lake.publish(rows, writer="q", batch=batch, partition_by=("hour",))
    assert compact(spark, lake, quiet_s=3600) == []
    largest = max(lake.files(), key=lambda file: file.stat().st_size)
    target = largest.stat().st_size
    assert compact(spark, lake, quiet_s=0, target_bytes=target // 2) == []
    assert seen(lake.path) == list(range(25))


def test_a_compaction_that_lost_rows_is_not_published(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Table(tmp_path / "lake")
    for batch in range(4):
        rows = spark.range(batch * 5, batch * 5 + 5, 1, 1).selectExpr("id AS n", "'00' AS hour")
        lake.publish(rows, writer="q", batch=batch, partition_by=("hour",))
    monkeypatch.setattr(
        compaction, "write_parquet", lambda rows, place: write_parquet(rows.where("n > 0"), place)
    )
    with pytest.raises(CompactionMismatch):
        compact(spark, lake, quiet_s=0)
    assert seen(lake.path) == list(range(20))
