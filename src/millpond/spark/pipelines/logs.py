"""Service logs: levels and error patterns of each service and minute, and alerts.

Lines are parsed by ``log_formats.py``; a line in an unknown format counts as INFO of its record's key. Values
that are not text, or too long for a line, go to the dead-letter topic. Results go to ``<to>/levels`` and
``<to>/patterns`` as Parquet; alerts go to ``<to>/alerts`` and to a topic as JSON.
"""

from dataclasses import dataclass
from pathlib import Path

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.dead_letters import dead_letters
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.log_formats import ERRORS, LINE_BYTES_MAX, parse
from millpond.spark.pipelines.signatures import signature
from millpond.spark.pipelines.spark_names import Column, DataFrame, SparkSession, sf
from millpond.spark.pipelines.table import Table
from millpond.spark.pipelines.topics import Wanted

RESULTS = ("levels", "patterns", "alerts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.TableOptions):
    """The options of the logs pipeline."""

    lateness: str = option("1 minute", "How late a line may be and still count.")
    window: str = option("1 minute", "Lines are counted in windows of this length.")
    alerts: str = option("", "Topic for alerts. [<first topic>.alerts]")
    errors_min: int = option(10, "Alert from this many errors of a service in a window.")
    error_share: float = option(0.2, "... if they are at least this share of its lines.")

    @property
    def alert_topic(self) -> str:
        """The topic of alerts."""
        return self.alerts or f"{self.source[0]}.alerts"


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Start two queries: counts (with patterns and alerts made of them), and invalid records."""
    options = options.named("logs")
    judged = judge(flow.read_stream(spark, options, alignPartitions="true"), options.lateness)
    flow.make_dead_letter_topic(options, Wanted(option="--alerts", name=options.alert_topic))
    tables = {name: Table(Path(options.to) / name) for name in RESULTS}

    def finish(batch: DataFrame, number: int) -> None:
        batch = batch.persist()
        turn = flow.turn(batch, number, options, "logs")
        for name, rows in results(batch, options).items():
            rows = rows.coalesce(1).persist()  # noqa: PLW2901
            flow.publish_results(tables[name], flow.dated(rows, "start"), turn, options)
            if name == "alerts" and not rows.isEmpty():
                once = flow.Once(turn.query_id, name, number)
                flow.write_topic(alert_records(rows, options), options, once)
            rows.unpersist()
        batch.unpersist()

    counted = counts(good(judged), window=options.window, lateness=options.lateness)
    return [
        flow.start_query(counted, options, "logs", finish, tables=tables.values()),
        flow.start_topic_query(dead(flow.observed(judged), options), options, "logs-letters"),
    ]


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Process the present records; return the alerts."""
    options = options.named("logs")
    judged = judge(flow.read_batch(spark, options), options.lateness, now=flow.moment())
    flow.make_dead_letter_topic(options, Wanted(option="--alerts", name=options.alert_topic))
    counted = counts(good(judged), window=options.window, lateness=options.lateness).persist()
    found = results(counted, options)
    for name, rows in found.items():
        dated = flow.dated(rows.coalesce(1), "start")
        flow.publish_new(Table(Path(options.to) / name), dated, flow.DATE_PARTITIONS)
    flow.write_dead_letters(alert_records(found["alerts"], options), options)
    flow.write_dead_letters(dead(judged, options), options)
    return found["alerts"]


# --- transformations ---


def judge(records: DataFrame, lateness: str, *, now: Column | None = None) -> DataFrame:
    """Parse lines and add the reason why a line cannot be counted."""
    reason, problem = flow.problems(
        (
            (sf.col("value").isNull(), "EMPTY", "the record has no value"),
            (
                sf.octet_length("value") > LINE_BYTES_MAX,
                "TOO_LONG",
                f"the line has more than {LINE_BYTES_MAX} bytes",
            ),
            (sf.col("line").isNull(), "NOT_UTF8", "the line is not UTF-8 text"),
            (flow.has_no_time(), *flow.NO_TIME),
            (
                flow.is_late(lateness),
                "LATE",
                f"the line came more than {lateness} after it was written",
            ),
            (
                flow.is_ahead(now=now),
                "AHEAD",
                f"the line came more than {flow.CLOCKS_DIFFER} before it was written",
            ),
        )
    )
    return parse(records).withColumn("reason", reason).withColumn("problem", problem)


def good(judged: DataFrame) -> DataFrame:
    """Return the lines that count, with the pattern of errors."""
    is_error = sf.col("level").isin(*ERRORS)
    return judged.where(sf.col("reason").isNull()).select(
        "time",
        "service",
        "level",
        sf.when(is_error, sf.col("message")).alias("message"),
        sf.when(is_error, signature("message")).alias("pattern"),
    )


def dead(judged: DataFrame, options: Options) -> DataFrame:
    """Return dead letters for the others."""
    return dead_letters(
        judged.where(sf.col("reason").isNotNull()),
        topic=options.dead_letter_topic,
        group=options.group,
        stage=f"logs.judge(lateness={options.lateness})",
    )


def counts(lines: DataFrame, *, window: str, lateness: str) -> DataFrame:
    """Return the lines of each window, service, level and pattern, with an example."""
    return (
        lines.withWatermark("time", lateness)
        .groupBy(sf.window("time", window).alias("window"), "service", "level", "pattern")
        .agg(sf.count(sf.lit(1)).alias("lines"), sf.min("message").alias("example"))
        .select(
            sf.col("window.start").alias("start"), "service", "level", "pattern", "lines", "example"
        )
    )


def results(counted: DataFrame, options: Options) -> dict[str, DataFrame]:
    """Return the results from the counts of whole windows: levels, patterns of errors, alerts."""
    levels = counted.groupBy("start", "service", "level").agg(sf.sum("lines").alias("lines"))
    patterns = counted.where(sf.col("pattern").isNotNull())
    return {"levels": levels, "patterns": patterns, "alerts": alerts(counted, options)}


def alerts(counted: DataFrame, options: Options) -> DataFrame:
    """Return services with many errors in a window, with their most frequent pattern."""
    is_error = sf.col("level").isin(*ERRORS)
    errors = sf.when(is_error, sf.col("lines"))
    return (
        counted.groupBy("start", "service")
        .agg(
            sf.sum("lines").alias("lines"),
            sf.coalesce(sf.sum(errors), sf.lit(0)).alias("errors"),
            sf.max_by("pattern", errors).alias("pattern"),
            sf.max_by("example", errors).alias("example"),
        )
        .where(
            (sf.col("errors") >= options.errors_min)
            & (sf.col("errors") >= sf.col("lines") * options.error_share)
        )
    )


def alert_records(found: DataFrame, options: Options) -> DataFrame:
    """Return alerts as records, keyed by service."""
    return flow.to_json(found, topic=options.alert_topic, key="service", kind="alert")
