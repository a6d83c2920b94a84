"""State and rules of transactions and of written batches. No I/O.

A marker says "task p of this query has committed batch n". It is a committed offset, part of the task's
transaction, so that it appears in the same instant as the records or not at all.
"""

import json
from dataclasses import dataclass
from enum import Enum

from millpond.spark.sink_errors import ReplayDiffers
from millpond.wire.kafka.api import RETRIABLE, ErrorCode

_ENDED_BY_OTHERS = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)

_RESTORE = (
    "Restore the options that cut the work into tasks (minPartitions, maxRecordsPerPartition,"
    " smallBatchOffsets, repartition) until this batch is through, then change them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Everything needed to write in a transaction and to end it; a plain value that can be sent."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    second_generation: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The last committed batch: its number, its tasks, and how many rows this task had."""

    batch: int
    tasks: int
    rows: int

    def metadata(self) -> str:
        """Return the offset's metadata."""
        return json.dumps({"tasks": self.tasks, "rows": self.rows}, separators=(",", ":"))

    @classmethod
    def parse(cls, batch: int, metadata: str | None) -> "Marker":
        """Parse a committed offset; missing fields are -1."""
        try:
            said = json.loads(metadata or "{}")
            return cls(
                batch=batch, tasks=int(said.get("tasks", -1)), rows=int(said.get("rows", -1))
            )
        except (ValueError, TypeError, AttributeError):
            return cls(batch=batch, tasks=-1, rows=-1)


class Verdict(Enum):
    """What an error code means for a transaction."""

    DONE = "done"
    AGAIN = "again"
    LOST = "lost"
    REFUSED = "refused"


def verdict(code: int) -> Verdict:
    """Return the verdict: done, retriable, lost to another process, or refused finally."""
    if code == ErrorCode.NONE:
        return Verdict.DONE
    if code in RETRIABLE:
        return Verdict.AGAIN
    return Verdict.LOST if code in _ENDED_BY_OTHERS else Verdict.REFUSED


def is_written(marker: Marker | None, batch: int, *, what: str) -> bool:
    """Return whether this batch is committed. Raises ``ReplayDiffers`` if a later one is: the checkpoint is
    too old.
    """
    if marker is None or marker.batch < batch:
        return False
    if marker.batch > batch:
        raise ReplayDiffers(
            f"{what}: batch {marker.batch} is committed, but Spark writes batch {batch}: the checkpoint"
            " is older than what was written with it. Use the newest checkpoint, or a new"
            " checkpointLocation"
        )
    return True


def check_rows(marker: Marker, rows: int, *, what: str) -> None:
    """Check that a skipped task had the same rows."""
    if marker.rows not in {-1, rows}:
        raise ReplayDiffers(
            f"{what}: batch {marker.batch} is committed with {marker.rows} rows of this task and is"
            f" replayed with {rows}: rows would be lost or doubled. {_RESTORE}"
        )


def check_tasks(marker: Marker | None, batch: int, tasks: int, *, what: str) -> None:
    """Check that a partly committed batch has as many tasks as the first time."""
    if marker is not None and marker.batch == batch and marker.tasks not in {-1, tasks}:
        raise ReplayDiffers(
            f"{what}: batch {batch} is committed in part, by some of {marker.tasks} tasks, and is"
            f" replayed with {tasks}: rows would be lost or doubled. {_RESTORE}"
        )
