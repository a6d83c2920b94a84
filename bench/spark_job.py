"""The Spark application that `python -m bench spark` measures with: both formats in one session, in turns.

Its only argument is a JSON object (see ``Order``). Samples are printed as JSON lines. ``start`` measures how
long it takes from nothing to the first rows, in a new process; ``one core`` reads in a session that has one
core to itself; ``work`` measures everything else in a warm session.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OFFICIAL, OURS, OURS_AT_LEAST_ONCE = "kafka", "millpond", "millpond at-least-once"
ROWS_PER_TRIGGER = 250_000
SETTLE_BATCHES = 10
LATENCY_SECONDS_MAX = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to measure."""

    kind: str
    cell: str = ""
    master: str = "local[2]"
    jars: str
    directory: str
    brokers: dict[str, str]
    form: str = ""
    records: dict[str, int] = field(default_factory=dict)  # what each broker's large topic holds
    rows_to_write: int = 0
    batches_to_time: int = 0
    rounds: int = 0
    partitions: int = 0
    topics: dict[str, str] = field(default_factory=dict)


def main() -> None:
    order = Order(**json.loads(sys.argv[1]))
    began = time.perf_counter()
    from millpond.spark.session import build_session

    spark = build_session(
        "bench",
        order.master,
        **{
            **({"spark.jars": order.jars} if order.jars else {}),
            "spark.local.dir": order.directory,
            "spark.driver.memory": "2g",
            "spark.sql.streaming.numRecentProgressUpdates": "2000",
        },
    )
    session_s = time.perf_counter() - began
    if order.kind == "start":
        ((broker, bootstrap),) = order.brokers.items()
        assert rows(read(spark, order.form, bootstrap, order.topics["small"])) > 0
        sample(
            order.cell, broker, order.form, 1,
            session_s=session_s, first_rows_s=time.perf_counter() - began,
        )  # fmt: skip
    elif order.kind == "decode":
        decode(spark, order)
    elif order.kind == "one core":
        Work(spark, order).on_one_core()
    else:
        Work(spark, order).everything()
    spark.stop()


def sample(
    cell: str,
    broker: str,
    form: str,
    round_number: int,
    times_ms: list[float] | None = None,
    **values: float,
) -> None:
    line = {"cell": cell, "broker": broker, "form": form, "round": round_number, "values": values}
    print(json.dumps(line | {"times_ms": times_ms or []}), flush=True)


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one run, and single times where there are many."""

    values: dict[str, float]
    times_ms: list[float] = field(default_factory=list)


def read(spark: Any, form: str, bootstrap: str, topic: str) -> Any:
    reader = spark.read.format(form).option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).load()


def rows(frame: Any) -> int:
    """Compute every column of every row and drop it. Return how many rows there were."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    seen = Observation()
    frame.observe(seen, sf.count(sf.lit(1)).alias("rows")).write.format("noop").mode(
        "append"
    ).save()
    return int(seen.get["rows"])


def decode(spark: Any, order: Order) -> None:
    """Measure what one task of Spark reads in a second of CPU time: fetch, decode, Arrow batches.

    It is what ``read`` of the source does, in Spark's own Python process; only the clock is ours. CPU time is
    the same on a machine that does other things as well.
    """
    (bootstrap,) = order.brokers.values()
    (expected,) = order.records.values()
    topic, partitions = order.topics["large"], order.partitions

    def read_all(batches: Any) -> Any:
        import pyarrow as pa

        from millpond.base.ids import TopicPartition
        from millpond.spark._broker import brokers_for
        from millpond.spark.options import parse_options
        from millpond.spark.plan import Range
        from millpond.spark.reading import arrow_batches

        for _ in batches:
            pass
        options = parse_options({"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
        places = [TopicPartition(topic, number) for number in range(partitions)]
        assert options.broker is not None
        ends = brokers_for(options.broker).bounds(places).latest
        count, of_process, of_thread = 0, time.process_time(), time.thread_time()
        for place in places:
            wanted = Range(topic=topic, partition=place.partition, first=0, end=ends[place])
            count += sum(batch.num_rows for batch in arrow_batches(options, wanted))
        of_process, of_thread = time.process_time() - of_process, time.thread_time() - of_thread
        yield pa.RecordBatch.from_pydict(
            {"records": [count], "process_s": [of_process], "thread_s": [of_thread]}
        )

    for round_number in range(order.rounds + 1):
        frame = spark.range(0, 1, 1, 1).mapInArrow(
            read_all, "records bigint, process_s double, thread_s double"
        )
        (row,) = frame.collect()
        assert row["records"] == expected, f"{row['records']} rows of {expected}"
        sample(
            "decode", "millpond", OURS, round_number,
            records_per_cpu_s=expected / row["process_s"],
            decoded_per_cpu_s=expected / row["thread_s"],
        )  # fmt: skip


class Work:
    """The cells that share a warm session. Round 0 of each is a warm-up."""

    def __init__(self, spark: Any, order: Order) -> None:
        self.spark = spark
        self.order = order

    def everything(self) -> None:
        for cell, measure, forms in (
            ("batch read", self.batch_read, (OURS, OFFICIAL)),
            ("stream to Parquet", self.to_parquet, (OURS, OFFICIAL)),
            ("stream to the lake", self.to_lake, (OURS,)),
            ("write", self.write, (OURS, OURS_AT_LEAST_ONCE, OFFICIAL)),
        ):
            for round_number in range(self.order.rounds + 1):
                self.in_turns(cell, measure, forms, round_number)
        # The first format warms up what both use: Spark's own part of a small batch.
        for round_number in range(self.order.rounds + 1):
            self.in_turns("micro-batch", self.latency, (OURS, OFFICIAL), round_number)

    def on_one_core(self) -> None:
        """Repeat the batch read in a session that has only one core."""
        for round_number in range(self.order.rounds + 1):
            self.in_turns("one core", self.batch_read, (OURS, OFFICIAL), round_number)

    def in_turns(
        self,
        cell: str,
        measure: Callable[[str, str, str], Measured],
        forms: tuple[str, ...],
        round_number: int,
    ) -> None:
        for broker in self.order.brokers:
            for form in forms:
                found = measure(form, broker, f"{cell}-{broker}-{form}-{round_number}")
                sample(cell, broker, form, round_number, found.times_ms, **found.values)

    def batch_read(self, form: str, broker: str, _name: str) -> Measured:
        bootstrap, expected = self.order.brokers[broker], self.order.records[broker]
        began = time.perf_counter()
        count = rows(read(self.spark, form, bootstrap, self.order.topics["large"]))
        assert count == expected, f"{count} rows of {expected}"
        return Measured({"records_per_s": count / (time.perf_counter() - began)})

    def to_parquet(self, form: str, broker: str, name: str) -> Measured:
        bootstrap, expected = self.order.brokers[broker], self.order.records[broker]
        place = Path(self.order.directory) / name.replace(" ", "-")
        frame = (
            self.spark.readStream.format(form)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", self.order.topics["large"])
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(ROWS_PER_TRIGGER))
            .load()
        )
        began = time.perf_counter()
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(place / "rows"))
            .option("checkpointLocation", str(place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        seconds = time.perf_counter() - began
        count = sum(one["numInputRows"] for one in query.recentProgress)
        assert count == expected, f"{count} rows of {expected}"
        shutil.rmtree(place)
        return Measured({"records_per_s": count / seconds})

    def to_lake(self, _form: str, broker: str, name: str) -> Measured:
        """Run the shipped pipeline: files that every reader may read, exactly once."""
        from millpond.spark.pipelines import lake
        from millpond.spark.pipelines.running import run

        place = Path(self.order.directory) / name.replace(" ", "-")
        options = lake.Options(
            bootstrap=self.order.brokers[broker],
            source=(self.order.topics["large"],),
            to=str(place / "lake"),
            checkpoint=str(place / "checkpoint"),
            available_now=True,
            rows_per_batch=ROWS_PER_TRIGGER,
        )
        began = time.perf_counter()
        (stats,) = run(self.spark, "lake", options)
        seconds = time.perf_counter() - began
        assert stats.rows == self.order.records[broker], f"{stats.rows} rows"
        shutil.rmtree(place)
        return Measured({"records_per_s": stats.rows / seconds})

    def write(self, form: str, broker: str, _name: str) -> Measured:
        count = self.order.rows_to_write
        frame = self.spark.range(0, count, 1, 4).selectExpr(
            "CAST(id AS STRING) AS key", "LPAD(CAST(id AS STRING), 100, 'x') AS value"
        )
        writer = frame.write.format(OURS if form == OURS_AT_LEAST_ONCE else form).mode("append")
        if form == OURS_AT_LEAST_ONCE:
            writer = writer.option("delivery", "at-least-once")
        began = time.perf_counter()
        writer.option("kafka.bootstrap.servers", self.order.brokers[broker]).option(
            "topic", self.order.topics["out"]
        ).save()
        return Measured({"records_per_s": count / (time.perf_counter() - began)})

    def latency(self, form: str, broker: str, name: str) -> Measured:
        """Measure how long micro-batches take while a few records arrive all the time."""
        bootstrap = self.order.brokers[broker]
        topic = self.order.topics["slow"]
        query = (
            self.spark.readStream.format(form)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "latest")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", f"{self.order.directory}/{name.replace(' ', '-')}")
            .start()
        )
        wanted = self.order.batches_to_time + SETTLE_BATCHES
        deadline = time.perf_counter() + LATENCY_SECONDS_MAX
        progress: list[Any] = []
        with Drip(bootstrap, topic):
            while len(progress) < wanted and time.perf_counter() < deadline and query.isActive:
                time.sleep(0.5)
                progress = [one for one in query.recentProgress if one["numInputRows"]]
        query.stop()
        times: list[float] = sorted(
            one["durationMs"]["triggerExecution"] for one in progress[SETTLE_BATCHES:]
        )
        assert times, "not a single batch after the first few"
        figures = {"p50_ms": quantile(times, 0.5), "p99_ms": quantile(times, 0.99)}
        return Measured(figures, times)


def quantile(ordered: list[float], share: float) -> float:
    """Return the value below which this share of them lies."""
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * share))])


class Drip:
    """A producer that sends a few records every few milliseconds."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Drip:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(10)

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            for _ in range(5):
                self._producer.produce(self._topic, b"x" * 100)
            self._producer.poll(0)


if __name__ == "__main__":
    main()
