"""A directory of Parquet files that every reader understands, written exactly once.

Readers see a plain tree, ``<table>/date=2026-01-31/hour=05/batch-000000012-00000.parquet``: no manifest, no
hidden metadata. Three rules make that safe for readers that only list and open:

1. A file appears by one rename, complete, and is never changed; a name is never reused.
2. A row is in exactly one visible file. A batch that Spark repeats is recognised and not written again.
3. Files are replaced a directory at a time, by exchanging the directory (``compaction.py``).

Unfinished files are in ``.<table>.work`` beside the table: a pattern such as ``table/**/*.parquet`` never
matches it. It also stores the checkpoint that writes here, the last published batch, and Spark's plan of that
batch (its offsets): after a power loss Spark's own file of it may be gone, and Spark then plans another batch
under the same number (``plans.py``). The steps of ``publish`` are ordered so that the next call completes
them after a crash between any two of them.
"""

import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from millpond.spark.pipelines.errors import (
    BatchDiffers,
    ForeignTable,
    PipelineError,
    StaleCheckpoint,
)
from millpond.spark.pipelines.spark_names import DataFrame, sf

_PLAN = "plan"
_PART = re.compile(r"part-(\d+)-.*?(?:\.c(\d+))?\.[\w.]*parquet")


@dataclass(frozen=True, slots=True)
class Progress:
    """The writer of a table, and its last batch."""

    writer: str
    batch: int
    plan: str = ""


class Table:
    """One table: publish batches into it, list its files. Any number of processes may read it meanwhile."""

    def __init__(self, path: str | Path) -> None:
        self.path = _local(path)
        self.work = self.path.parent / f".{self.path.name}.work"

    def publish(
        self,
        rows: DataFrame,
        *,
        writer: str,
        batch: int,
        partition_by: tuple[str, ...] = (),
        plan: str = "",
    ) -> bool:
        """Publish a batch's rows. Return False if they are published already.

        ``writer`` is the id of the query's checkpoint, ``plan`` is Spark's plan of the batch. Rows of one
        batch become visible a file at a time.
        """
        with self.locked():
            progress = self._claim(writer)
            if progress.batch > batch:
                raise StaleCheckpoint(
                    f"{self.path} has batch {progress.batch}, but Spark writes batch {batch}: the checkpoint "
                    "is older than the table, and rows would be missing. Use the newest checkpoint, or a new "
                    "directory with a new checkpoint"
                )
            if progress.batch == batch:
                self._check_plan(batch, progress.plan, plan)
                return False
            ready = self.work / f"ready-{batch}"
            if ready.exists():
                self._check_plan(batch, _plan_in(ready), plan)
            else:
                for left in self.work.glob("staging*"):
                    remove_tree(left)
                # A unique name: a stopped job removes its own files at any later time.
                staging = self.work / f"staging-{uuid.uuid4().hex}"
                self._check_rows(staging, write_parquet(rows, staging, partition_by))
                (staging / _PLAN).write_text(plan)
                sync_tree(staging)
                staging.rename(ready)
                sync_directory(self.work)
            self._move_files(ready, batch)
            self._save(Progress(writer, batch, plan))
            remove_tree(ready)
            return True

    def last_plan(self) -> Progress | None:
        """Return the last batch that is published or ready to be, with its writer and its plan."""
        state = self.work / "progress.json"
        if not state.exists():
            return None
        progress = Progress(**json.loads(state.read_text()))
        ready = self.work / f"ready-{progress.batch + 1}"
        if ready.exists():
            return Progress(progress.writer, progress.batch + 1, _plan_in(ready))
        return progress

    def files(self) -> list[Path]:
        """Return the visible files, in the order of their names."""
        return sorted(self.path.rglob("*.parquet"))

    def flat_files(self) -> list[Path]:
        """Return the files in the table's own directory instead of a partition directory."""
        return sorted(self.path.glob("*.parquet"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the table's lock: only one process changes a table at a time."""
        self.work.mkdir(parents=True, exist_ok=True)
        with (self.work / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _claim(self, writer: str) -> Progress:
        state = self.work / "progress.json"
        if state.exists():
            progress = Progress(**json.loads(state.read_text()))
            if progress.writer != writer:
                raise ForeignTable(
                    f"{self.path} is written by another checkpoint (query {progress.writer}, now at batch "
                    f"{progress.batch}): go on with that checkpoint, or give a new directory"
                )
            return progress
        if self.path.exists() and any(self.path.rglob("*.parquet")):
            raise ForeignTable(
                f"{self.path} has files but {self.work} does not say who wrote them: give a new directory"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        if self.path.stat().st_dev != self.work.stat().st_dev:
            raise PipelineError(
                f"{self.path} and its parent are on different file systems, so files cannot be renamed into "
                "it: give a directory below it"
            )
        progress = Progress(writer, -1)
        self._save(progress)
        return progress

    def _check_rows(self, staging: Path, written: int) -> None:
        """Check that the files contain all rows that Spark's tasks have written."""
        found = count_rows(staging.rglob("*.parquet"))
        if found != written:
            raise BatchDiffers(
                f"{self.path}: {written} rows were written and {found} are in the files of {staging}; "
                "nothing was published. Start the pipeline again"
            )

    def _check_plan(self, batch: int, kept: str, plan: str) -> None:
        """Check that a repeated batch has its first offsets."""
        before, now = offsets_in(kept), offsets_in(plan)
        if before and now and before != now:
            raise BatchDiffers(
                f"{self.path} has batch {batch} up to {' '.join(before)}, but Spark has planned it again, "
                f"up to {' '.join(now)}: the file offsets/{batch} of its checkpoint was lost or changed, and "
                "rows would be missing. Remove that file and start the pipeline again, which puts the first "
                "plan back"
            )

    def _save(self, progress: Progress) -> None:
        fresh = self.work / "progress.json.new"
        with fresh.open("w") as file:
            json.dump(asdict(progress), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(self.work / "progress.json")
        sync_directory(self.work)

    def _move_files(self, ready: Path, batch: int) -> None:
        """Publish the remaining files of a batch; files that were moved before a crash are not here any
        more.
        """
        for file in sorted(ready.rglob("*.parquet")):
            part = _PART.fullmatch(file.name)
            assert part is not None, f"not a name that Spark gives: {file.name}"
            if _rows_in(file) == 0 and any(self.path.rglob("*.parquet")):
                continue  # the first one gives readers the columns; more of them would only be opened
            place = self.path / file.parent.relative_to(ready)
            make_directory(place)
            file.rename(
                place / f"batch-{batch:09d}-{part[1]}{f'-{part[2]}' if part[2] else ''}.parquet"
            )
            sync_directory(place)


def offsets_in(plan: str) -> list[str]:
    """Return the end offsets of each source in a plan; Spark's file has a version and its settings before
    them.
    """
    return plan.splitlines()[2:]


def _plan_in(ready: Path) -> str:
    file = ready / _PLAN
    return file.read_text() if file.exists() else ""


def write_parquet(rows: DataFrame, place: Path, partition_by: tuple[str, ...] = ()) -> int:
    """Write rows as Parquet files and nothing else (no success markers). Return the number of rows."""
    from pyspark.sql import Observation

    seen = Observation()
    counted = rows.observe(seen, sf.count(sf.lit(1)).alias("rows"))
    writer = counted.write.mode("overwrite").option("compression", "zstd")
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer.partitionBy(*partition_by).parquet(spark_path(place))
    return int(seen.get["rows"])


def count_rows(files: Iterable[Path]) -> int:
    """Return how many rows these files have, from their footers."""
    return sum(map(_rows_in, files))


def spark_path(place: Path) -> str:
    """Return a local path in Spark's form, which is not quite a URI: nothing is escaped."""
    return f"file://{place}"


def make_directory(place: Path) -> None:
    """Create a directory and its parents durably."""
    if not place.exists():
        make_directory(place.parent)
        place.mkdir(exist_ok=True)
        sync_directory(place.parent)


def sync_tree(place: Path) -> None:
    """Make a directory and everything in it durable."""
    for folder, _folders, files in os.walk(place):
        for name in files:
            sync_file(Path(folder, name))
        sync_directory(Path(folder))


def _rows_in(file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(file).num_rows)


def remove_tree(place: Path) -> None:
    """Remove a directory if it exists."""
    shutil.rmtree(place, ignore_errors=True)


def sync_file(file: Path) -> None:
    """Make a file durable."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


sync_directory = sync_file


def _local(path: str | Path) -> Path:
    """Return the path that the driver renames in; object stores cannot rename, so they are refused."""
    text = str(path)
    scheme, colon, rest = text.partition(":")
    if colon and re.fullmatch(r"[a-z][a-z0-9+.-]+", scheme):
        if scheme != "file":
            raise PipelineError(
                f"{text}: tables are published by renaming files, which {scheme} cannot do; give a "
                "directory that the driver and the workers share"
            )
        text = "/" + rest.lstrip("/")
    if not text:
        raise PipelineError("nowhere to write: give --to DIRECTORY")
    return Path(text).absolute()
