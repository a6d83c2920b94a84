"""A table's publication without Spark: what is on the disk when, and which checkpoints may write."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from millpond.spark.pipelines import table as tables
from millpond.spark.pipelines.errors import StaleCheckpoint
from millpond.spark.pipelines.table import Table

HOUR = "date=2026-01-31/hour=05"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table whose rows are lists of numbers, written as Spark would."""

    def write(rows: list[int], place: Path, _partition_by: tuple[str, ...]) -> None:
        file = place / HOUR / "part-00000-abc.c000.zstd.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"n": pa.array(rows, pa.int64())}), file)

    monkeypatch.setattr(tables, "write_parquet", write)
    return Table(tmp_path / "lake")


def publish(lake: Table, rows: list[int], batch: int) -> bool:
    given: Any = rows
    return lake.publish(given, writer="q", batch=batch)


def numbers(lake: Table) -> list[int]:
    return [n for file in lake.files() for n in pq.read_table(file)["n"].to_pylist()]


def opened(descriptor: int) -> str:
    """What a descriptor belongs to."""
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def test_a_checkpoint_that_is_older_than_the_table_is_refused(lake: Table) -> None:
    for batch in range(3):
        publish(lake, [batch], batch)

    assert not publish(lake, [2], 2)
    with pytest.raises(StaleCheckpoint, match="has batch 2, but Spark writes batch 1"):
        publish(lake, [1, 99], 1)

    assert numbers(lake) == [0, 1, 2]


def test_batches_without_rows_leave_no_files_but_the_first(lake: Table) -> None:
    for batch in range(5):
        publish(lake, [], batch)
    assert [file.name for file in lake.files()] == ["batch-000000000-00000-000.parquet"]

    publish(lake, [7], 5)

    assert numbers(lake) == [7]
    assert len(lake.files()) == 2


def test_a_batch_is_on_the_disk_before_it_is_called_ready(
    lake: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that stops after the name is there must find all that the name promises."""
    publish(lake, [0], 0)
    steps: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def sync(descriptor: int) -> None:
        steps.append(f"sync {opened(descriptor)}")
        fsync(descriptor)

    def move(self: Path, target: Path) -> Path:
        steps.append(f"move {self}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", move)
    publish(lake, [1], 1)

    staging = lake.work / "staging"
    before = steps[: steps.index(f"move {staging}")]
    assert f"sync {staging / HOUR / 'part-00000-abc.c000.zstd.parquet'}" in before
    assert {f"sync {staging}", f"sync {staging / HOUR}"} <= set(before)


def test_a_new_hour_is_on_the_disk_before_the_batch_counts(
    lake: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(opened(descriptor))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    publish(lake, [0], 0)

    hour = lake.path / HOUR
    assert {str(lake.path), str(hour.parent), str(hour)} <= set(synced)
