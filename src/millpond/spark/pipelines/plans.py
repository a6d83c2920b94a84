"""Spark's plan of a batch, which a table keeps too: a machine that loses power may lose Spark's own copy.

Before a batch runs Spark writes down where it ends, in ``<checkpoint>/offsets/<number>``, and does not wait
for the disk. A table does. So after a power cut a table can have a batch whose plan is gone; Spark would plan
it anew, with more in it, and the table would take it for the one that it has. Here the plan is put back.
"""

import json
from pathlib import Path

from millpond.spark.pipelines.table import Table, sync_directory, sync_file


def plan_of(checkpoint: Path, batch: int) -> str:
    """What Spark wrote down about a batch, or nothing if it is not there to be read."""
    file = checkpoint / "offsets" / str(batch)
    return file.read_text() if file.is_file() else ""


def restore_plan(checkpoint: Path, table: Table) -> bool:
    """Put back the plan of the table's last batch if the checkpoint has lost it; whether that was so."""
    kept = table.last_plan()
    if kept is None or not kept.plan or kept.writer != _query_id(checkpoint):
        return False
    numbers = _numbers(checkpoint / "offsets")
    file = checkpoint / "offsets" / str(kept.batch)
    is_there = file.is_file() and file.stat().st_size > 0
    # Only the last one can be put back: with another gap Spark itself must say what is wrong.
    if is_there or max(numbers - {kept.batch}, default=-1) != kept.batch - 1:
        return False
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)  # of the bytes that were lost
    fresh = file.with_name(f".{file.name}.restored")
    fresh.write_text(kept.plan)
    sync_file(fresh)
    fresh.rename(file)
    sync_directory(file.parent)
    return True


def _query_id(checkpoint: Path) -> str:
    file = checkpoint / "metadata"
    return str(json.loads(file.read_text()).get("id", "")) if file.is_file() else ""


def _numbers(place: Path) -> set[int]:
    return {int(file.name) for file in place.glob("[0-9]*") if file.name.isdigit()}
