"""Keeps Spark's plan of a batch with the table: after a power loss Spark's own copy may be gone.

Before a batch runs Spark writes its end to ``<checkpoint>/offsets/<number>``, without an fsync. A table does
fsync. So after a power loss a table can have a batch whose plan is gone; Spark would plan it again, with more
records, and the table would take it for the batch that it has. This module restores the plan.
"""

import json
from pathlib import Path

from millpond.spark.pipelines.table import Table, sync_directory, sync_file


def plan_of(checkpoint: Path, batch: int) -> str:
    """Return Spark's plan of a batch, or an empty text if it cannot be read."""
    file = checkpoint / "offsets" / str(batch)
    return file.read_text() if file.is_file() else ""


def restore_plan(checkpoint: Path, table: Table) -> bool:
    """Restore the plan of the table's last batch if the checkpoint has lost it. Return whether it had."""
    kept = table.last_plan()
    if kept is None or not kept.plan or kept.writer != _query_id(checkpoint):
        return False
    numbers = _numbers(checkpoint / "offsets")
    file = checkpoint / "offsets" / str(kept.batch)
    is_there = file.is_file() and file.stat().st_size > 0
    # Only the last one can be restored: with another gap Spark itself must report the error.
    if is_there or max(numbers - {kept.batch}, default=-1) != kept.batch - 1:
        return False
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)  # of the lost bytes
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
