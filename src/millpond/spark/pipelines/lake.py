"""Writes topics to Parquet, exactly once: ``<to>/topic=clicks/date=2026-01-31/hour=05/*.parquet``.

Rows are unchanged records (key, value, headers, partition, offset, timestamp), by the hour of their timestamp
in UTC. With ``value=text`` or ``value=json`` values are text columns, and records with another value go to
the dead-letter topic instead.
"""

from dataclasses import dataclass

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.compaction import compact
from millpond.spark.pipelines.dead_letters import dead_letters
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.spark_names import DataFrame, SparkSession, sf
from millpond.spark.pipelines.table import Table, spark_path

PARTITIONS = ("topic", "date", "hour")
ORDER = ("partition", "offset")
VALUES = ("binary", "text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.TableOptions):
    """The options of the lake."""

    value: str = option("binary", "What values are kept as.", choices=VALUES)
    files: int = option(1, "Files that a batch writes into one hour.")
    only_compact: bool = option(False, "With --batch: read nothing, only compact what is there.")


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Write the topics to the lake as a stream."""
    options = options.named("lake")
    table = Table(options.to)
    judged = flow.observed(judge(flow.read_stream(spark, options), options.value))
    if options.value != "binary":
        flow.make_dead_letter_topic(options)

    def publish(batch: DataFrame, number: int) -> None:
        if options.value != "binary":
            batch = batch.persist()  # read once for the lake, once for dead letters
        rows = partitioned(good(batch)).coalesce(options.files)
        turn = flow.turn(batch, number, options, "lake")
        flow.publish(table, rows, turn, PARTITIONS)
        if options.value != "binary":
            once = flow.Once(flow.query_id(batch), "letters", number)
            flow.write_dead_letters(dead(batch, options), options, once)
            batch.unpersist()
        flow.compact_sometimes(batch.sparkSession, table, turn, options, ORDER)

    return [flow.start_query(judged, options, "lake", publish, tables=[table])]


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Write the present records to a new lake, or compact one; return a summary."""
    options = options.named("lake")
    if options.only_compact:
        done = compact(spark, Table(options.to), order_by=ORDER, quiet_s=options.quiet_s)
        return spark.createDataFrame(
            [(str(item.place), item.files_before, item.files_after, item.rows) for item in done],
            "place string, files_before int, files_after int, rows bigint",
        )
    judged = judge(flow.read_batch(spark, options), options.value)
    if options.value != "binary":
        flow.make_dead_letter_topic(options)
    table = Table(options.to)
    rows = partitioned(good(judged)).repartition(*PARTITIONS)
    flow.publish_new(table, rows, PARTITIONS)
    if options.value != "binary":
        flow.write_dead_letters(dead(judged, options), options)
    written = spark.read.parquet(spark_path(table.path))
    return (
        written.groupBy("topic", sf.col("date").cast("string"), "hour")
        .agg(sf.count(sf.lit(1)).alias("rows"))
        .orderBy("topic", "date", "hour")
    )


# --- transformations ---


def judge(records: DataFrame, value: str) -> DataFrame:
    """Add ``reason`` and ``problem``: null for records that the lake keeps."""
    if value not in VALUES:
        raise PipelineError(f"--value {value}: give one of {', '.join(VALUES)}")
    never = sf.lit(False)
    not_text = sf.col("value").isNotNull() & flow.text().isNull() if value != "binary" else never
    not_json = (
        sf.col("value").isNotNull() & sf.try_parse_json(flow.text()).isNull()
        if value == "json"
        else never
    )
    reason, problem = flow.problems(
        (
            (not_text, "NOT_UTF8", "the value is not UTF-8 text"),
            (not_json, "MALFORMED_JSON", "the value is not JSON"),
        )
    )
    judged = records.withColumn("reason", reason).withColumn("problem", problem)
    if value == "binary":
        return judged
    return judged.withColumn("text", flow.text())


def good(judged: DataFrame) -> DataFrame:
    """Return the records that the lake keeps."""
    kept = judged.where(sf.col("reason").isNull()).drop("reason", "problem")
    return kept.withColumn("value", sf.col("text")).drop("text") if "text" in kept.columns else kept


def dead(judged: DataFrame, options: Options) -> DataFrame:
    """Return dead letters for the others."""
    return dead_letters(
        judged.where(sf.col("reason").isNotNull()),
        topic=options.dead_letter_topic,
        group=options.group,
        stage=f"lake.judge(value={options.value})",
    )


def partitioned(records: DataFrame) -> DataFrame:
    """Add the date and the hour (UTC, whatever the session's time zone is) of each record's timestamp."""
    seconds = sf.unix_seconds("timestamp")
    return records.select(
        "topic",
        sf.date_from_unix_date(sf.floor(seconds / 86_400).cast("int")).cast("string").alias("date"),
        sf.lpad(sf.floor(sf.pmod(seconds, sf.lit(86_400)) / 3_600).cast("string"), 2, "0").alias(
            "hour"
        ),
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
    )
