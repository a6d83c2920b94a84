"""Merges many small files of a table's directory into few large ones, atomically for readers.

A directory with the large files is prepared under a hidden name and exchanged with the visible one by one
system call (``renameat2`` with ``RENAME_EXCHANGE``): a reader that lists the directory sees all old files or
all new ones. A reader that listed before and opens after finds its file gone, which is an error to retry,
never a wrong result: names are not reused. A crash leaves either the prepared directory or the replaced one
under the hidden name, and the next compaction removes it.
"""

import ctypes
import errno
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millpond.spark.pipelines.errors import CompactionMismatch, NoExchange
from millpond.spark.pipelines.spark_names import SparkSession
from millpond.spark.pipelines.table import (
    Table,
    count_rows,
    remove_tree,
    spark_path,
    sync_directory,
    sync_file,
    write_parquet,
)

TARGET_BYTES = 128 * 1024 * 1024  # a good size of one read for query engines
FILES_MIN = 4  # fewer small files do not justify a rewrite
QUIET_S = 60.0  # a directory that still gets files would be rewritten again and again


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result for one directory."""

    place: Path
    files_before: int
    files_after: int
    rows: int


def compact(
    spark: SparkSession,
    table: Table,
    *,
    order_by: tuple[str, ...] = (),
    files_min: int = FILES_MIN,
    target_bytes: int = TARGET_BYTES,
    quiet_s: float = QUIET_S,
) -> list[Compacted]:
    """Compact every directory that has many small files and did not change for ``quiet_s``."""
    with table.locked():
        for left in table.work.glob("compact-*"):
            remove_tree(left)
        now = time.time()
        return [
            _compact_directory(spark, table, place, small, order_by, target_bytes)
            for place, small in _worthwhile(table, files_min, target_bytes, before=now - quiet_s)
        ]


def exchange_directories(one: Path, other: Path) -> None:
    """Exchange two directories atomically. Raises ``NoExchange`` if the system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise NoExchange("this system has no renameat2; the table stays as it is") from None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0:
        return
    code = ctypes.get_errno()
    if code in {errno.EINVAL, errno.ENOSYS, errno.EXDEV}:
        raise NoExchange(
            f"the file system of {other} cannot exchange directories ({os.strerror(code)}); the table "
            "stays as it is"
        )
    raise OSError(code, os.strerror(code), str(other))


def _worthwhile(
    table: Table, files_min: int, target_bytes: int, *, before: float
) -> Iterator[tuple[Path, list[Path]]]:
    for place in sorted({file.parent for file in table.files()}):
        if place == table.path or place.stat().st_mtime > before:
            continue  # the table's own directory must keep its identity for readers that have it open
        small = [
            file for file in sorted(place.glob("*.parquet")) if file.stat().st_size < target_bytes
        ]
        if len(small) >= files_min:
            yield place, small


def _compact_directory(
    spark: SparkSession,
    table: Table,
    place: Path,
    small: list[Path],
    order_by: tuple[str, ...],
    target_bytes: int,
) -> Compacted:
    fresh = table.work / f"compact-{uuid.uuid4().hex}"
    size = sum(file.stat().st_size for file in small)
    rows = spark.read.parquet(*(spark_path(file) for file in small))
    rows = rows.coalesce(max(1, round(size / target_bytes)))
    written = table.work / f"{fresh.name}-rows"
    write_parquet(rows.sortWithinPartitions(*order_by) if order_by else rows, written)
    fresh.mkdir()
    made = sorted(written.glob("*.parquet"))
    for number, file in enumerate(made):
        sync_file(file)
        file.rename(fresh / f"{fresh.name}-{number:05d}.parquet")
    remove_tree(written)
    merged = set(small)
    kept = [file for file in place.glob("*.parquet") if file not in merged]
    for file in kept:
        os.link(file, fresh / file.name)
    sync_directory(fresh)
    count = count_rows(small)
    if count != count_rows(fresh.glob(f"{fresh.name}-*.parquet")):
        remove_tree(fresh)
        raise CompactionMismatch(f"{place}: the compacted files have another number of rows")
    exchange_directories(fresh, place)
    sync_directory(place.parent)
    remove_tree(fresh)
    return Compacted(place, len(small) + len(kept), len(made) + len(kept), count)
