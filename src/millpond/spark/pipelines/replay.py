"""Banked traffic sent again at any multiple of its speed, as a load test.

Time in the bank is cut into slices; each batch sends one of them, when its turn has come: at speed 10 and
slices of one second, a batch sends ten seconds of the bank. Batches are numbered by Spark's own
``rate-micro-batch`` source, so a run that is stopped goes on with the next slice, and a slice that Spark
repeats is sent once. Inside a slice records go as fast as they can, key by key in their old order.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.failures import in_short
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.table import Table, spark_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.Options):
    """What a replay can be told."""

    bank: str = option("", "Directory that the bank pipeline wrote.")
    speed: float = option(1.0, "How many times as fast as it was recorded.")
    slice_s: float = option(1.0, "Seconds between batches.")


@dataclass(frozen=True, slots=True)
class Slices:
    """A bank's time, cut: slice n is the records from ``at(n)`` to ``at(n + 1)``, in microseconds."""

    first_us: int
    last_us: int
    length_us: int

    def at(self, number: int) -> int:
        """Where a slice begins."""
        return self.first_us + number * self.length_us

    @property
    def count(self) -> int:
        """How many there are."""
        return (self.last_us - self.first_us) // self.length_us + 1


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Send the bank, slice by slice; the query ends itself after the last one."""
    bank, slices = open_bank(spark, options)
    slices = _as_begun(slices, options)
    ticks = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .option("numPartitions", 1)
        .load()
    )
    running: list[Query] = []

    def send(batch: DataFrame, number: int) -> None:
        if number < slices.count:
            once = flow.Once(flow.query_id(batch), "replay", number)
            flow.write_topic(outgoing(slice_of(bank, slices, number), options), options, once)
        elif running:
            running[0].stop()

    writer = ticks.writeStream.foreachBatch(in_short(send)).queryName("replay")
    writer = writer.option("checkpointLocation", flow.checkpoint_of(options, "replay"))
    running.append(
        writer.trigger(processingTime=f"{round(options.slice_s * 1000)} milliseconds").start()
    )
    return running


def _as_begun(slices: Slices, options: Options) -> Slices:
    """The slices of this checkpoint: their beginning and length are made once, since batches count them."""
    file = Path(flow.checkpoint_of(options, "replay-slices.json"))
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(slices)))
        fresh.rename(file)
    begun = Slices(**json.loads(file.read_text()))
    if begun.length_us != slices.length_us:
        raise PipelineError(
            f"--speed {options.speed:g} with --slice-s {options.slice_s:g} makes slices of "
            f"{slices.length_us / 1e6:g} s, but this checkpoint has begun with {begun.length_us / 1e6:g} s: "
            "records would be left out or sent twice. Keep speed times slice, or take a new checkpoint"
        )
    return replace(slices, first_us=begun.first_us)


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Send the whole bank at once, as fast as it goes; the answer says what was sent."""
    bank, _slices = open_bank(spark, options)
    flow.write_topic(outgoing(bank, options), options)
    return bank.groupBy("topic").agg(sf.count(sf.lit(1)).alias("records"))


def open_bank(spark: SparkSession, options: Options) -> tuple[DataFrame, Slices]:
    """The bank and its slices."""
    if not options.bank:
        raise PipelineError("which traffic? Give --bank DIRECTORY, written by the bank pipeline")
    if options.speed <= 0 or options.slice_s <= 0:
        raise PipelineError("--speed and --slice-s are more than 0")
    bank = spark.read.parquet(spark_path(Table(options.bank).path))
    ends = bank.agg(
        sf.unix_micros(sf.min("timestamp")).alias("first"),
        sf.unix_micros(sf.max("timestamp")).alias("last"),
    ).first()
    assert ends is not None
    if ends["first"] is None:
        raise PipelineError(f"--bank {options.bank}: there is nothing in it")
    length_us = max(1, round(options.slice_s * options.speed * 1_000_000))
    return bank, Slices(ends["first"], ends["last"], length_us)


def slice_of(bank: DataFrame, slices: Slices, number: int) -> DataFrame:
    """The records of one slice; the minutes of the directories leave the other files unread."""
    start, end = slices.at(number), slices.at(number + 1)
    micros = sf.unix_micros("timestamp")
    return bank.where(
        sf.col("minute").between(start // 60_000_000, (end - 1) // 60_000_000)
        & (micros >= start)
        & (micros < end)
    )


def outgoing(records: DataFrame, options: Options) -> DataFrame:
    """Rows for the sink, to ``to`` or to the topics they came from, partition by partition in order."""
    topic = sf.lit(options.to) if options.to else sf.col("topic")
    return (
        records.select(topic.alias("topic"), "partition", "offset", "key", "value", "headers")
        .repartition("topic", "partition")
        .sortWithinPartitions("topic", "partition", "offset")
        .drop("partition", "offset")
    )
