"""``spark.read`` and ``spark.readStream`` with ``format("millpond")``: Spark's side of the source, kept thin.

Columns, options and offsets are those of the official Kafka connector. ``tracking`` decides, ``reading``
reads. Spark pickles readers to executors, so they hold options and no connections; state that lives as long
as a query is created on first use, in the driver's own process.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from millpond.base.errors import MillpondError
from millpond.spark._broker import BrokerPlace, brokers_for
from millpond.spark.arrow import RecordBatch
from millpond.spark.errors import WrongOption, waiting_for_brokers
from millpond.spark.offsets import Offsets, from_checkpoint, to_checkpoint
from millpond.spark.options import (
    SourceOptions,
    check_for_batch,
    check_for_stream,
    parse_options,
)
from millpond.spark.plan import Range
from millpond.spark.reading import arrow_batches
from millpond.spark.segments import SegmentPlace
from millpond.spark.small_batches import HandsOver, is_small, read_small
from millpond.spark.tracking import Place, Tracker

log = logging.getLogger(__name__)

_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
_HEADERS = {"headers": "array<struct<key:string,value:binary>>"}


def source_schema(options: Mapping[str, str]) -> str:
    """Return the columns as text for Spark. Invalid options are found here, before a query starts."""
    return _schema_text(_columns(parse_options(options)))


def _columns(options: SourceOptions) -> dict[str, str]:
    return _COLUMNS | _HEADERS if options.include_headers else _COLUMNS


def _schema_text(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def batch_reader(options: Mapping[str, str], schema: StructType) -> "BatchReader":
    """Return the reader of a batch query."""
    parsed = parse_options(options)
    check_for_batch(parsed)
    _check_schema(parsed, schema)
    # Spark refuses every reader with filter pushdown unless spark.sql.python.filterPushdown.enabled is set.
    return FilteringReader(parsed) if parsed.push_filters else BatchReader(parsed)


def stream_reader(options: Mapping[str, str], schema: StructType) -> "StreamReader":
    """Return the reader of a streaming query."""
    parsed = parse_options(options)
    check_for_stream(parsed)
    _check_schema(parsed, schema)
    return StreamReader(parsed)


@dataclass
class RangesPartition(InputPartition):
    """One task's part: one range, or all ranges of a small batch."""

    ranges: tuple[Range, ...]


class BatchReader(DataSourceReader):
    """Reads the records between two positions, once."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return one task for each range."""
        with _named(self._options):
            return _partitions(self._ranges())

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read the task's ranges; runs in a task."""
        return _read(self._options, partition)

    def _ranges(self) -> list[Range]:
        return _tracker(self._options).batch()


class FilteringReader(BatchReader):
    """The same, with filters on topic, partition, offset and time used to read less."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Keep the filters that narrow ranges; Spark applies the rest."""
        for item in filters:
            column = getattr(item, "attribute", None)
            exact = (
                (column in {("topic",), ("partition",)} and isinstance(item, EqualTo | In))
                or (column == ("offset",) and isinstance(item, _COMPARISONS))
            )  # fmt: skip
            if exact:
                self._filters.append(item)
            else:
                yield item

    def _ranges(self) -> list[Range]:
        return [kept for found in super()._ranges() if (kept := _narrow(found, self._filters))]


_COMPARISONS = EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual


def _narrow(found: Range, filters: Iterable[Filter]) -> Range | None:
    """Return the part of a range that the filters leave."""
    first, end = found.first, found.end
    for item in filters:
        value = item.value
        if item.attribute != ("offset",):
            allowed = value if isinstance(item, In) else (value,)
            if getattr(found, item.attribute[0]) not in allowed:
                return None
        elif isinstance(item, EqualTo):
            first, end = max(first, value), min(end, value + 1)
        elif isinstance(item, GreaterThan | GreaterThanOrEqual):
            first = max(first, value + isinstance(item, GreaterThan))
        else:
            end = min(end, value + isinstance(item, LessThanOrEqual))
    if first >= end:
        return None
    return Range(topic=found.topic, partition=found.partition, first=first, end=end)


class StreamReader(HandsOver, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads continuously, from checkpoint to checkpoint."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._shown: Offsets = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_shown": {}}

    @cached_property
    def _tracker(self) -> Tracker:
        return _tracker(self._options)

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802
        """Return the start of a query without a checkpoint."""
        with _named(self._options):
            return to_checkpoint(self._tracker.initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the default limit of a batch."""
        return ReadMaxRows(self._tracker.default_rows_max())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the run: later records are for the next run."""
        with _named(self._options):
            self._tracker.prepare_available_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch."""
        begun = from_checkpoint(start)
        self._show(begun)
        everything = isinstance(limit, ReadAllAvailable)
        rows_max = None if everything else getattr(limit, "max_rows", None)
        if rows_max is None and not everything:
            rows_max = self._tracker.default_rows_max()
        with _named(self._options):
            return to_checkpoint(self._tracker.latest(begun, rows_max))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return ``latestOffset`` for the query's progress: lag is that minus ``endOffset``."""
        newest = self._tracker.newest()
        return None if newest is None else to_checkpoint(newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one task for each range; one task, with its rows, for a small batch."""
        with _named(self._options):
            ranges = self._tracker.ranges(from_checkpoint(start), from_checkpoint(end))
            if is_small(self._options, ranges):
                self._held = read_small(self._options, ranges)
            if self._held is None:
                return _partitions(ranges)
            return [RangesPartition(tuple(ranges))]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Read the task's ranges; runs in a task."""
        return _read(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint holds what was read."""

    def stop(self) -> None:
        """Do nothing: connections end with the process."""

    def _show(self, begun: Offsets) -> None:
        """Commit the query's position for its group; everything before ``begun`` is done by now.

        Spark asks for the next end when a batch is complete, and once more when nothing is left, so this is
        never a batch behind. A failed commit is no reason to stop.
        """
        group_id, broker = self._options.group_id, self._options.broker
        if group_id is None or broker is None or begun == self._shown:
            return
        try:
            brokers_for(broker).commit(group_id, begun)
        except MillpondError as error:
            log.warning("group %s does not show the query's offsets: %s", group_id, error)
        self._shown = begun


def _tracker(options: SourceOptions) -> Tracker:
    return Tracker(
        options, _place(options), pause=time.sleep, now_ms=lambda: time.time_ns() // 1_000_000
    )


def _place(options: SourceOptions) -> Place:
    if options.segments is not None:
        return SegmentPlace(options.segments, options.fetch.isolation)
    assert options.broker is not None
    return BrokerPlace(options.broker, options.fetch.isolation)


def _partitions(ranges: list[Range]) -> Sequence[InputPartition]:
    return [RangesPartition((item,)) for item in ranges]


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[RecordBatch]:
    if not isinstance(partition, RangesPartition):
        return  # Spark makes one empty part of none: there is nothing to read
    with _named(options):
        for item in partition.ranges:
            yield from arrow_batches(options, item)


def _named(options: SourceOptions) -> AbstractContextManager[None]:
    """Add what was to be read to errors of brokers that are away."""
    if options.broker is None:
        return nullcontext()
    timeout_s = options.broker.timeout_s
    return waiting_for_brokers(str(options.subscription), "kafka.default.api.timeout.ms", timeout_s)


def _check_schema(options: SourceOptions, schema: StructType) -> None:
    """Check that a schema given by the user is the fixed one."""
    given = {item.name: item.dataType.simpleString() for item in schema.fields}
    expected = _columns(options)
    if list(given.items()) != list(expected.items()):
        raise WrongOption(
            f"{options.subscription}: the columns of this source are fixed ({_schema_text(expected)});"
            f" leave out .schema({_schema_text(given)!r})"
        )
