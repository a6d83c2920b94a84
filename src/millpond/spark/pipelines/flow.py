"""Shared by all pipelines: reading records, triggers, writing results.

Independent of any pipeline. Records are read by the ``millpond`` format, whose columns are those of the
official Kafka connector: key, value, topic, partition, offset, timestamp, timestampType, headers.
"""

import logging
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeAlias

from millpond.spark.pipelines.compaction import compact
from millpond.spark.pipelines.errors import NoExchange, PipelineError
from millpond.spark.pipelines.failures import in_short
from millpond.spark.pipelines.plans import plan_of, restore_plan
from millpond.spark.pipelines.spark_names import Column, DataFrame, SparkSession, sf
from millpond.spark.pipelines.table import Table
from millpond.spark.pipelines.topics import Wanted, make_topics

log = logging.getLogger(__name__)

Query: TypeAlias = (
    Any  # pyspark.sql.streaming.StreamingQuery, which the type checker does not follow
)

FORMAT = "millpond"
RECORD_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>"
)


def option(default: Any, help_text: str, **more: Any) -> Any:
    """Declare a field of an ``Options`` class that is also an option of ``millpond pipeline run``."""
    return field(default=default, metadata={"help": help_text, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of every pipeline."""

    bootstrap: str = "127.0.0.1:9092"
    source: tuple[str, ...] = ()
    to: str = ""
    checkpoint: str = ""
    available_now: bool = False
    interval: str = "5 seconds"
    group: str = option("", "Group whose offsets show how far this pipeline is.")
    dead_letters: str = option("", "Topic for records that cannot be used. [<first topic>.dlq]")
    starting: str = option("earliest", "Where a new checkpoint begins: earliest, latest, or JSON.")
    rows_per_batch: int = option(0, "Most records in one batch; 0 leaves it to the source.")
    priority: str = option("", "Topics that are read first while there is a backlog, with commas.")
    shed_beyond: int = option(0, "Leave out what is further behind in a partition; 0 for nothing.")

    def named(self, pipeline: str) -> Self:
        """Return these options with a group, by default named after the pipeline."""
        return self if self.group else replace(self, group=f"millpond-{pipeline}")

    @property
    def dead_letter_topic(self) -> str:
        """The topic of dead letters."""
        return self.dead_letters or f"{self.source[0]}.dlq"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(Options):
    """The options of pipelines that write tables."""

    compact_every: int = option(50, "Batches between compactions of small files; 0 for never.")
    quiet_s: float = option(60.0, "Seconds without new files before a directory is compacted.")


# --- reading ---


def read_stream(spark: SparkSession, options: Options, **more: str) -> DataFrame:
    """Read the topics as a stream, from the checkpoint or from ``options.starting``."""
    reader = spark.readStream.format(FORMAT).options(**_source_options(options))
    if options.rows_per_batch:
        reader = reader.option("maxOffsetsPerTrigger", str(options.rows_per_batch))
    if options.priority:
        reader = reader.option("priority", options.priority)
    if options.shed_beyond:
        reader = reader.option("shedBeyond", str(options.shed_beyond))
        reader = reader.option("lossReport", str(Path(options.checkpoint) / "shed.jsonl"))
    return reader.options(**more).load()


def read_batch(spark: SparkSession, options: Options, **more: str) -> DataFrame:
    """Read the present records of the topics."""
    given = _source_options(options)
    if options.starting == "latest":
        raise PipelineError("--starting latest: a batch would read nothing; give earliest")
    return spark.read.format(FORMAT).options(**given).options(**more).load()


def _source_options(options: Options) -> dict[str, str]:
    if not options.source:
        raise PipelineError("nothing to read: give --from TOPIC")
    return {
        "kafka.bootstrap.servers": options.bootstrap,
        "subscribe": ",".join(options.source),
        "startingOffsets": options.starting,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }


# --- writing ---


def make_dead_letter_topic(options: Options, *more: Wanted) -> None:
    """Create the topic for dead letters, and others that options name, before anything is read.

    Raises ``PipelineError``, which says what to create, if one does not exist and cannot be created.
    """
    dead_letters = Wanted(option="--dead-letters", name=options.dead_letter_topic)
    make_topics(options.bootstrap, [topic for topic in (dead_letters, *more) if topic.name])


def start_query(
    frame: DataFrame,
    options: Options,
    name: str,
    work: Callable[[DataFrame, int], None],
    *,
    mode: str = "append",
    tables: Iterable[Table] = (),
) -> Query:
    """Run ``work(batch, batch_id)`` for every batch, with its own checkpoint.

    The group of the pipeline shows the offsets of the query with the pipeline's name. ``tables`` are those
    that the work publishes to.
    """
    for table in tables:
        check_layout(table)
        if restore_plan(Path(checkpoint_of(options, name)), table):
            log.warning(
                "%s: the plan of the last batch of %s was lost and is put back", name, table.path
            )
    writer = frame.writeStream.foreachBatch(in_short(work)).outputMode(mode).queryName(name)
    return _start(writer, options, name)


def check_layout(table: Table) -> None:
    """Refuse a table with files of an earlier version, which are not in partition directories.

    Readers that find directories look for files only there: they would miss the others, or fail.
    """
    flat = table.flat_files()
    if flat:
        here = shlex.quote(str(table.path))
        there = shlex.quote(f"{table.path}-before")
        raise PipelineError(
            f"{table.path} has files of an earlier version ({flat[0].name}), which did not cut tables into "
            "directories, and readers would miss them beside those that are cut. Move them away "
            f"(mkdir {there} && mv {here}/*.parquet {there}) and start again with the same checkpoint"
        )


def start_topic_query(frame: DataFrame, options: Options, name: str) -> Query:
    """Write a stream of key, value, topic (and headers) to the broker, exactly once."""
    writer = frame.writeStream.format(FORMAT).option("kafka.bootstrap.servers", options.bootstrap)
    return _start(writer.outputMode("append").queryName(name), options, name)


@dataclass(frozen=True, slots=True)
class Once:
    """Identifies one output of one batch, so that the sink recognises a batch that Spark repeats."""

    query: str
    output: str
    batch: int


def write_topic(frame: DataFrame, options: Options, once: Once | None = None) -> None:
    """Write rows of key, value, topic (and headers) to the broker; from a stream's batch, exactly once."""
    writer = frame.write.format(FORMAT).option("kafka.bootstrap.servers", options.bootstrap)
    if once is not None:
        writer = writer.option("txnAppId", f"{once.query}-{once.output}")
        writer = writer.option("txnVersion", str(once.batch))
        writer = writer.option("transactionalIdPrefix", f"{once.query}-{once.output}")
    writer.mode("append").save()


def write_dead_letters(frame: DataFrame, options: Options, once: Once | None = None) -> None:
    """Write dead letters, if there are any: most batches have none."""
    if not frame.isEmpty():
        write_topic(frame.coalesce(1), options, once)


def publish(
    table: Table,
    rows: DataFrame,
    turn: "Turn",
    partition_by: tuple[str, ...] = (),
) -> bool:
    """Publish the rows of a stream's batch in a table, exactly once."""
    return table.publish(
        rows,
        writer=turn.query_id,
        batch=turn.number,
        partition_by=partition_by,
        plan=plan_of(turn.checkpoint, turn.number),
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """The batch and the query that are being processed, and the query's checkpoint."""

    query_id: str
    number: int
    checkpoint: Path


def turn(batch: DataFrame, number: int, options: Options, name: str) -> Turn:
    """Return the turn of a batch that Spark passes to the query ``name``."""
    return Turn(query_id(batch), number, Path(checkpoint_of(options, name)))


def publish_results(table: Table, rows: DataFrame, turn: Turn, options: TableOptions) -> None:
    """Publish rows of results with their ``date``; their many small files are compacted at intervals."""
    publish(table, rows, turn, DATE_PARTITIONS)
    compact_sometimes(rows.sparkSession, table, turn, options)


def compact_sometimes(
    spark: SparkSession,
    table: Table,
    turn: Turn,
    options: TableOptions,
    order_by: tuple[str, ...] = (),
) -> None:
    """Compact after every so many batches. A file system that cannot do it safely keeps its small files."""
    every = options.compact_every
    if every and turn.number % every == every - 1:
        with suppress(NoExchange):
            compact(spark, table, order_by=order_by, quiet_s=options.quiet_s)


def publish_new(table: Table, rows: DataFrame, partition_by: tuple[str, ...] = ()) -> None:
    """Publish a new table from a batch job; an existing one is refused."""
    if not table.publish(rows, writer="batch", batch=0, partition_by=partition_by):
        raise PipelineError(f"{table.path} is already there: a batch writes a new table")


def _start(writer: Any, options: Options, name: str) -> Query:
    writer = writer.option("checkpointLocation", checkpoint_of(options, name))
    trigger = (
        {"availableNow": True} if options.available_now else {"processingTime": options.interval}
    )
    query = writer.trigger(**trigger).start()
    _let_begin(query)
    return query


def _let_begin(query: Query) -> None:
    """Wait until a query has opened its sources.

    Spark gives the Python process of a source ten seconds to start. The queries of one pipeline would start
    theirs at the same moment and delay each other.
    """
    from pyspark.errors import StreamingQueryException

    with suppress(StreamingQueryException):  # ``Running`` reports it
        while query.isActive and query.status["message"].startswith("Initializing"):
            query.awaitTermination(0.05)


def checkpoint_of(options: Options, name: str) -> str:
    """Return the checkpoint directory of one query of a pipeline."""
    if not options.checkpoint:
        raise PipelineError("a stream must remember how far it is: give --checkpoint DIRECTORY")
    return str(Path(options.checkpoint) / name)


def query_id(batch: DataFrame) -> str:
    """Return the id of the query that a batch belongs to, which is stored in the query's checkpoint."""
    found: str = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert found, "only batches of a stream have a query"
    return found


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(interval: str) -> float:
    """Return the seconds of ``5s``, ``500ms`` or ``2 minutes``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|milli|s|m|h|d)[a-z]*\s*", interval)
    if match is None:
        raise PipelineError(f"{interval!r} is no time: write 500ms, 5s, 10 minutes or 1h")
    return float(match[1]) * _UNITS[match[2].replace("milli", "ms")]


# --- columns ---


def text(column: str = "value") -> Column:
    """Return bytes as text, or null where they are not UTF-8."""
    return sf.try_validate_utf8(sf.col(column).cast("string"))


def any_text(column: str | Column) -> Column:
    """Return bytes as valid text: what is not UTF-8 becomes U+FFFD."""
    found = sf.col(column) if isinstance(column, str) else column
    return sf.make_valid_utf8(found.cast("string"))


def problems(checks: Sequence[tuple[Column, str, str]]) -> tuple[Column, Column]:
    """Return the reason and the text of the first failed check; null for a valid record."""
    reason, problem = sf.lit(None).cast("string"), sf.lit(None).cast("string")
    for is_bad, word, sentence in reversed(checks):
        reason = sf.when(is_bad, sf.lit(word)).otherwise(reason)
        problem = sf.when(is_bad, sf.lit(sentence)).otherwise(problem)
    return reason, problem


DATE_PARTITIONS = ("date",)


def dated(rows: DataFrame, time: str) -> DataFrame:
    """Return rows with the date (UTC) of one of their times, by which a table is partitioned."""
    days = sf.floor(sf.unix_seconds(time) / 86_400).cast("int")
    return rows.withColumn("date", sf.date_from_unix_date(days).cast("string"))


# How far the clock of an event's producer may be ahead of the log's, and of ours.
CLOCKS_DIFFER = "1 minute"

# Years with four digits. Windows around times at the ends of 64 bits overflow, and Python has no such times.
_CALENDAR = ("1000-01-01T00:00:00Z", "9999-01-01T00:00:00Z")


def in_calendar(time: Column) -> Column:
    """Return a time, or null if it is outside of the calendar: a number that is not a time."""
    first, end = (sf.lit(text).cast("timestamp") for text in _CALENDAR)
    return sf.when((time >= first) & (time < end), time)


def to_calendar(time: Column) -> Column:
    """Return a time, limited to the first and last one of the calendar."""
    first, end = (sf.lit(text).cast("timestamp") for text in _CALENDAR)
    return sf.greatest(first, sf.least(end, time))


# A check of every pipeline that computes with times.
NO_TIME = (
    "BAD_TIME",
    f"the record's timestamp is not between {_CALENDAR[0][:4]} and {_CALENDAR[1][:4]}",
)


def has_no_time() -> Column:
    """Return whether a record's timestamp cannot be used for computation."""
    return in_calendar(sf.col("timestamp")).isNull()


def is_late(lateness: str, time: str = "time") -> Column:
    """Return whether an event reached the log more than this after its time."""
    limit = sf.try_subtract(sf.col("timestamp"), sf.expr(f"INTERVAL {lateness}"))
    return sf.coalesce(sf.col(time) < limit, sf.lit(False))


def moment() -> Column:
    """Return the present, constant for a batch job: Spark's own differs for each action."""
    return sf.lit(datetime.now(UTC))


def is_ahead(time: str = "time", *, now: Column | None = None) -> Column:
    """Return whether an event's time is after the log's timestamp, or after its batch began.

    An event with a wrong year would move the watermark, and every later event would be too late. The log's
    timestamp alone does not show it: with ``CreateTime`` it comes from the same wrong clock.
    """
    limit = sf.try_add(_no_younger_than_its_batch(now), sf.expr(f"INTERVAL {CLOCKS_DIFFER}"))
    return sf.coalesce(sf.col(time) > limit, sf.lit(False))


def with_watermark(records: DataFrame, time: str, delay: str) -> DataFrame:
    """Return a stream with a watermark over its records' timestamps, in the column ``time``.

    A timestamp comes from the producer's clock. One that is ahead would move the watermark, and the records
    of all other producers would be too late: for the watermark, no record is younger than its batch.
    """
    return records.withColumn(time, _no_younger_than_its_batch()).withWatermark(time, delay)


def _no_younger_than_its_batch(now: Column | None = None) -> Column:
    """Return a record's timestamp, or the present if that is earlier.

    Spark stores when a batch began, so a repeated batch has the same times.
    """
    return sf.least(sf.col("timestamp"), sf.current_timestamp() if now is None else now)


def to_json(frame: DataFrame, *, topic: str, key: str, kind: str) -> DataFrame:
    """Return rows as JSON records of a topic, keyed by one of their columns; a header has their kind."""
    header = sf.struct(sf.lit("kind").alias("key"), sf.lit(kind).cast("binary").alias("value"))
    return frame.select(
        sf.lit(topic).alias("topic"),
        sf.col(key).cast("string").cast("binary").alias("key"),
        sf.to_json(sf.struct(*frame.columns)).cast("binary").alias("value"),
        sf.array(header).alias("headers"),
    )


def observed(judged: DataFrame) -> DataFrame:
    """Count records and dead letters of each batch, for the progress display."""
    return judged.observe(
        "records",
        sf.count(sf.lit(1)).alias("records"),
        sf.count("reason").alias("dead_letters"),
    )
