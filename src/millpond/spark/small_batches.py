"""Small batches: the driver reads them and passes the rows to Spark together with the plan.

A few hundred records cost less to read than starting a task in a Python process, so a micro-batch that is
read by tasks takes half as long again. Spark has an interface for rows that a driver has read: it keeps them
as a block, and tasks read it. A block that is lost is read again by a task, so every batch that is passed is
also described by its ranges.

Whether a batch is small depends on its offsets and bytes alone: a batch that Spark repeats is split into the
same tasks, which an exactly-once sink relies on.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from millpond.spark.arrow import RecordBatch
from millpond.spark.options import SourceOptions
from millpond.spark.plan import Range
from millpond.spark.reading import arrow_batches

try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as Prefetching
except ImportError:  # not a public API of PySpark: without it every batch is read by tasks
    Prefetching = None

BYTES_MAX = 1024 * 1024  # of keys, values and headers
RANGES_MAX = 16  # they are read one after the other


def is_small(options: SourceOptions, ranges: Sequence[Range]) -> bool:
    """Return whether the driver may try to read these. Not if the user set the number of tasks."""
    return (
        Prefetching is not None
        and options.broker is not None
        and options.partitions_min is None
        and options.records_per_partition_max is None
        and 0 < len(ranges) <= RANGES_MAX
        and sum(item.size for item in ranges) <= options.small_batch_offsets
    )


def read_small(options: SourceOptions, ranges: Sequence[Range]) -> list[RecordBatch] | None:
    """Return the records of the ranges in order; ``None`` if they are too large for the driver."""
    fetch = replace(options.fetch, partition_bytes=min(options.fetch.partition_bytes, BYTES_MAX))
    sparing = replace(options, fetch=fetch)
    read: list[RecordBatch] = []
    left = BYTES_MAX
    for item in ranges:
        with closing(arrow_batches(sparing, item)) as batches:
            for batch in batches:
                left -= payload_bytes(batch)
                if left < 0:
                    return None
                read.append(batch)
    return read


def payload_bytes(batch: RecordBatch) -> int:
    """Return the bytes of keys, values and headers: independent of how the records were split into
    batches.
    """
    arrays = [batch.column("key"), batch.column("value")]
    if "headers" in batch.schema.names:
        pairs = batch.column("headers").flatten()
        arrays += [pairs.field("key"), pairs.field("value")]
    return sum(pc.sum(pc.binary_length(array)).as_py() or 0 for array in arrays)


class HandsOver:
    """The part of a stream reader that passes rows to Spark with a plan.

    Spark's Python side asks a reader for such rows if it is an instance of a private class, and asks such a
    reader for less elsewhere (the newest offsets, for example). So a reader pretends to be one only while it
    holds rows: from ``partitions`` to ``getCache``, which Spark calls one after the other.
    """

    _held: list[RecordBatch] | None = None

    @property
    def __class__(self) -> Any:
        return type(self) if self._held is None else Prefetching

    @__class__.setter
    def __class__(self, _: Any) -> None:
        raise AttributeError("a reader stays what it is")

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[RecordBatch]:  # noqa: N802
        """Return the rows of the batch that was just planned."""
        held, self._held = self._held, None
        return iter(held or ())
