"""Sends recorded traffic again at any multiple of its speed, as a load test.

Time in the bank is cut into slices; each batch sends one of them, when its time has come: at speed 10 and
slices of one second, a batch sends ten seconds of the bank. Batches are numbered by Spark's own
``rate-micro-batch`` source, so a run that is stopped continues with the next slice, and a slice that Spark
repeats is sent once. Inside a slice records are sent as fast as possible, key by key in their old order.

Time without records is shortened to ``idle_max_s``: a single record whose producer's clock was at 1970 would
otherwise be followed by decades of empty slices. The minutes of a bank are its directories, so no data is
read to find them.
"""

import json
import logging
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from millpond.spark.pipelines import flow
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.failures import in_short, last_begun
from millpond.spark.pipelines.flow import Query, option
from millpond.spark.pipelines.spark_names import DataFrame, SparkSession, sf
from millpond.spark.pipelines.table import Table, spark_path
from millpond.spark.pipelines.topics import unusable_topics

log = logging.getLogger(__name__)

_MINUTE_US = 60_000_000
_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(flow.Options):
    """The options of a replay."""

    bank: str = option("", "Directory that the bank pipeline wrote.")
    speed: float = option(1.0, "How many times as fast as it was recorded.")
    slice_s: float = option(1.0, "Seconds between batches.")
    idle_max_s: float = option(
        60.0, "Seconds that a pause of the replay takes at most, however long nothing was recorded."
    )


@dataclass(frozen=True, slots=True)
class Span:
    """A time span with records, in microseconds; ``end_us`` is not included."""

    first_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive slices of a bank's time from a moment on."""

    first_us: int
    slices: int


@dataclass(frozen=True, slots=True)
class Slices:
    """A bank's time, cut: slice n is the records of ``length_us`` microseconds from ``at(n)`` on.

    Stretches are in the order of time. Between two of them is time without records.
    """

    length_us: int
    stretches: tuple[Stretch, ...] = ()

    def at(self, number: int) -> int:
        """Return the start of a slice."""
        for stretch in self.stretches:
            if number < stretch.slices:
                return stretch.first_us + number * self.length_us
            number -= stretch.slices
        raise AssertionError("no such slice")

    @property
    def count(self) -> int:
        """The number of slices."""
        return sum(stretch.slices for stretch in self.stretches)

    def end_of(self, stretch: Stretch) -> int:
        """Return the end of the last slice of a stretch."""
        return stretch.first_us + stretch.slices * self.length_us

    def left_out(self, spans: Iterable[Span]) -> list[Span]:
        """Return the spans that are in no slice."""
        firsts = [stretch.first_us for stretch in self.stretches]
        return [
            span
            for span in spans
            if (number := bisect_right(firsts, span.first_us)) == 0
            or self.end_of(self.stretches[number - 1]) <= span.first_us
        ]


def cut(slices: Slices, spans: Iterable[Span], *, idle_max: int) -> Slices:
    """Return the slices extended by later spans, which are in the order of time.

    A gap of more than ``idle_max`` slices becomes ``idle_max`` empty ones. Existing slices do not change:
    batches count them.
    """
    stretches = list(slices.stretches)
    for span in spans:
        if not stretches:
            stretches.append(Stretch(span.first_us, 0))
        last = stretches[-1]
        end = slices.end_of(last)
        if span.end_us <= end:
            continue
        if span.first_us - end > idle_max * slices.length_us:
            stretches[-1] = Stretch(last.first_us, last.slices + idle_max)
            last = Stretch(span.first_us, 0)
            stretches.append(last)
        stretches[-1] = Stretch(last.first_us, -((last.first_us - span.end_us) // slices.length_us))
    return Slices(slices.length_us, tuple(stretches))


def start(spark: SparkSession, options: Options) -> list[Query]:
    """Send the bank, slice by slice; the query ends itself after the last one."""
    bank = open_bank(spark, options)
    check_topics(bank, options)
    slices = _of_checkpoint(recorded(bank, options), options)
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


def _of_checkpoint(spans: Sequence[Span], options: Options) -> Slices:
    """Return the slices of this checkpoint: those that it began with, and after them what was recorded
    since.
    """
    file = Path(flow.checkpoint_of(options, "replay-slices.json"))
    begun = Slices(length_us(options))
    if file.exists():
        begun = _begun(json.loads(file.read_text()), options)
    slices = cut(begun, spans, idle_max=idle_max(options))
    if late := slices.left_out(spans):
        log.warning(
            "%s: %d minutes were banked into time that this replay had passed over, and are left out; "
            "a new --checkpoint replays them",
            options.bank,
            len(late),
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(slices)))
    fresh.rename(file)
    return slices


def _begun(document: dict[str, Any], options: Options) -> Slices:
    """Return the slices stored in a checkpoint, which must have the requested length."""
    length = document["length_us"]
    if length != length_us(options):
        raise PipelineError(
            f"--speed {options.speed:g} with --slice-s {options.slice_s:g} makes slices of "
            f"{length_us(options) / 1e6:g} s, but this checkpoint has begun with {length / 1e6:g} s: "
            "records would be left out or sent twice. Keep speed times slice, or take a new checkpoint"
        )
    if "stretches" in document:
        return Slices(length, tuple(Stretch(**stretch) for stretch in document["stretches"]))
    # Older versions had slices without gaps; existing ones stay where they are.
    batches = last_begun(Path(flow.checkpoint_of(options, "replay"))) + 1
    return Slices(length, (Stretch(document["first_us"], batches),))


def run_batch(spark: SparkSession, options: Options) -> DataFrame:
    """Send the whole bank at once, as fast as possible; return a summary."""
    bank = open_bank(spark, options)
    check_topics(bank, options)
    flow.write_topic(outgoing(bank, options), options)
    return bank.groupBy("topic").agg(sf.count(sf.lit(1)).alias("records"))


def open_bank(spark: SparkSession, options: Options) -> DataFrame:
    """Check the options and return the bank."""
    if not options.bank:
        raise PipelineError("which traffic? Give --bank DIRECTORY, written by the bank pipeline")
    if options.speed <= 0 or options.slice_s <= 0:
        raise PipelineError("--speed and --slice-s are more than 0")
    if not 0 <= options.idle_max_s < math.inf:
        raise PipelineError("--idle-max-s is a number of seconds, from 0 on")
    if not minutes(options):
        raise PipelineError(f"--bank {options.bank}: there is nothing in it")
    return spark.read.parquet(spark_path(Table(options.bank).path))


def check_topics(bank: DataFrame, options: Options) -> None:
    """Check that the target topics exist, before the first record is sent."""
    if options.to:
        for topic, why in unusable_topics(options.bootstrap, {options.to}, option="--to").items():
            raise PipelineError(f"--to {topic}: the topic {why}")
        return
    unusable = unusable_topics(
        options.bootstrap, _topics_of(bank), option=f"--bank {options.bank}, topics"
    )
    if unusable:
        topics_why = "; ".join(f"{topic} {why}" for topic, why in unusable.items())
        raise PipelineError(
            f"without --to records go to the topics that they came from, and {topics_why}, or give --to TOPIC"
        )


def _topics_of(bank: DataFrame) -> list[str]:
    return [row["topic"] for row in bank.select("topic").distinct().collect()]


def length_us(options: Options) -> int:
    """Return how much of the bank's time a slice is."""
    return max(1, round(options.slice_s * options.speed * 1_000_000))


def idle_max(options: Options) -> int:
    """Return the largest number of empty slices in a gap."""
    return math.ceil(options.idle_max_s / options.slice_s)


def minutes(options: Options) -> list[int]:
    """Return the minutes (since 1970) with records in a bank, from its directories."""
    names = {file.parent.name for file in Table(options.bank).files()}
    return sorted(int(name.removeprefix("minute=")) for name in names if name.startswith("minute="))


def recorded(bank: DataFrame, options: Options) -> list[Span]:
    """Return the time spans with records, by the minute; only the first and the last minute are read."""
    found = minutes(options)
    ends = (
        bank.where(sf.col("minute").isin(found[0], found[-1]))
        .agg(
            sf.unix_micros(sf.min("timestamp")).alias("first"),
            sf.unix_micros(sf.max("timestamp")).alias("last"),
        )
        .first()
    )
    assert ends is not None
    return [
        Span(
            max(minute * _MINUTE_US, ends["first"]),
            min((minute + 1) * _MINUTE_US, ends["last"] + 1),
        )
        for minute in found
    ]


def slice_of(bank: DataFrame, slices: Slices, number: int) -> DataFrame:
    """Return the records of one slice; the minutes of the directories leave the other files unread."""
    start = slices.at(number)
    last = min(start + slices.length_us - 1, _LONG_MAX)
    minutes = sf.col("minute").between(start // _MINUTE_US, last // _MINUTE_US)
    return bank.where(minutes & sf.unix_micros("timestamp").between(start, last))


def outgoing(records: DataFrame, options: Options) -> DataFrame:
    """Return rows for the sink, to ``to`` or to the topics they came from, partition by partition in
    order.
    """
    topic = sf.lit(options.to) if options.to else sf.col("topic")
    return (
        records.select(topic.alias("topic"), "partition", "offset", "key", "value", "headers")
        .repartition("topic", "partition")
        .sortWithinPartitions("topic", "partition", "offset")
        .drop("partition", "offset")
    )
