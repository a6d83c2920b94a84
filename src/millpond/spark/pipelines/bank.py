"""Records traffic once, to be replayed as a load test any number of times.

A bank is a table like the lake's, by the minute of the records' timestamps, so that ``replay`` finds the
records of a moment without reading the rest.
"""

from dataclasses import dataclass

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.flow import Query
from millpond.spark.pipelines.spark_names import DataFrame, SparkSession, sf
from millpond.spark.pipelines.table import Table, spark_path

PARTITIONS = ("minute",)
ORDER = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.TableOptions):
    """The options of a bank."""


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Record the topics as they are written."""
    options = options.named("bank")
    table = Table(options.to)

    def publish(batch: DataFrame, number: int) -> None:
        rows = banked(batch).coalesce(1)
        turn = flow.turn(batch, number, options, "bank")
        flow.publish(table, rows, turn, PARTITIONS)
        flow.compact_sometimes(batch.sparkSession, table, turn, options, ORDER)

    records = flow.read_stream(spark, options)
    return [flow.start_query(records, options, "bank", publish, tables=[table])]


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Record the present contents of the topics; return a summary of the bank."""
    options = options.named("bank")
    table = Table(options.to)
    flow.publish_new(
        table, banked(flow.read_batch(spark, options)).repartition("minute"), PARTITIONS
    )
    return summary(spark.read.parquet(spark_path(table.path)))


def banked(records: DataFrame) -> DataFrame:
    """Return records with their minute since 1970."""
    return records.select(
        sf.floor(sf.unix_seconds("timestamp") / 60).alias("minute"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
    )


def summary(bank: DataFrame) -> DataFrame:
    """Return a summary of the bank for each topic."""
    return bank.groupBy("topic").agg(
        sf.count(sf.lit(1)).alias("records"),
        flow.to_calendar(sf.min("timestamp")).alias("first"),
        flow.to_calendar(sf.max("timestamp")).alias("last"),
    )
