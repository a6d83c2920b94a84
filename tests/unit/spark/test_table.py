"""A table's publication without Spark: what is on the disk when, and which checkpoints may write."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from millpond.spark.pipelines import table as tables
from millpond.spark.pipelines.errors import BatchDiffers, StaleCheckpoint
from millpond.spark.pipelines.plans import plan_of, restore_plan
from millpond.spark.pipelines.table import Table

HOUR = "date=2026-01-31/hour=05"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table whose rows are lists of numbers, written as Spark would."""

    def write(rows: list[int], place: Path, _partition_by: tuple[str, ...]) -> int:
        file = place / HOUR / "part-00000-abc.c000.zstd.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"n": pa.array(rows, pa.int64())}), file)
        return len(rows)

    monkeypatch.setattr(tables, "write_parquet", write)
    return Table(tmp_path / "lake")


def publish(lake: Table, rows: list[int], batch: int, plan: str = "") -> bool:
    given: Any = rows
    return lake.publish(given, writer="q", batch=batch, plan=plan)


def planned(end: int) -> str:
    """What Spark writes down before it runs a batch that ends there."""
    return f'v1\n{{"batchTimestampMs": 1}}\n{{"orders": {{"0": {end}}}}}'


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


def test_rows_that_were_written_and_are_in_no_file_are_missed_before_anybody_else_misses_them(
    lake: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = tables.write_parquet
    monkeypatch.setattr(tables, "write_parquet", lambda *given: write(*given) + 5)
    with pytest.raises(BatchDiffers, match="6 rows were written and 1 are in the files"):
        publish(lake, [1], 0)
    assert lake.files() == []
    monkeypatch.setattr(tables, "write_parquet", write)
    assert publish(lake, [1], 0)
    assert not list(lake.work.glob("staging*"))


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

    (staged,) = (step for step in steps if step.startswith(f"move {lake.work / 'staging-'}"))
    staging = Path(staged.removeprefix("move "))
    before = steps[: steps.index(staged)]
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


def test_a_batch_that_was_planned_anew_with_another_end_is_not_taken_for_the_old_one(
    lake: Table,
) -> None:
    publish(lake, [1], 0, planned(10))

    assert not publish(lake, [1], 0, planned(10))
    with pytest.raises(BatchDiffers, match=r"offsets/0 .* was lost or changed"):
        publish(lake, [1, 2], 0, planned(20))


def test_neither_is_one_that_was_only_ready(lake: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(lake, [1], 0, planned(10))

    def die(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(Table, "_move_files", die)
    with pytest.raises(InterruptedError):
        publish(lake, [2], 1, planned(20))
    monkeypatch.undo()
    with pytest.raises(BatchDiffers):
        publish(lake, [2, 3], 1, planned(30))
    assert publish(lake, [2], 1, planned(20))


@pytest.mark.parametrize("left", ["nothing", "an empty file"])
def test_a_plan_that_was_lost_with_the_power_is_put_back(
    lake: Table, tmp_path: Path, left: str
) -> None:
    checkpoint = tmp_path / "checkpoint"
    offsets = checkpoint / "offsets"
    offsets.mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "q"}')
    for batch in range(2):
        (offsets / str(batch)).write_text(planned(batch * 10))
        publish(lake, [batch], batch, plan_of(checkpoint, batch))
    assert not restore_plan(checkpoint, lake), "it is there"

    (offsets / "1").unlink()
    (offsets / ".1.crc").write_text("of what is gone")
    if left == "an empty file":
        (offsets / "1").touch()

    assert restore_plan(checkpoint, lake)
    assert plan_of(checkpoint, 1) == planned(10)
    assert not (offsets / ".1.crc").exists()
    assert not restore_plan(checkpoint, lake)


def test_a_plan_is_not_put_back_into_the_checkpoint_of_another_query_nor_behind_a_gap(
    lake: Table, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    publish(lake, [0], 0, planned(5))
    publish(lake, [1], 1, planned(10))
    (checkpoint / "metadata").write_text('{"id": "other"}')
    assert not restore_plan(checkpoint, lake)
    (checkpoint / "metadata").write_text('{"id": "q"}')
    assert not restore_plan(checkpoint, lake), "batch 0 is gone too"
