"""A Spark driver that is meant to be killed: it copies a topic to another one and to a lake of Parquet files.

Started as ``python -m tests.crash.spark_driver BOOTSTRAP DIRECTORY``. It makes its session, says READY and
waits, so that the next driver can warm up while this one works. A line on its standard input sets it to work:
``run`` for ever, ``drain`` until nothing is left, or ``half-way`` until it dies by its own hand between two
commits of a batch.
"""

import os
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

ROWS_PER_BATCH = 4000
ROWS_TO_DRAIN = 100_000
BATCHES_TO_COMPACT = 2  # often, so that death finds it at work


def main(bootstrap: str, directory: str) -> None:
    """Wait for an order and carry it out."""
    from pyspark.errors import StreamingQueryException

    from millpond.spark.session import build_session

    spark = build_session(
        "crash",
        "local[2]",
        **{
            "spark.driver.memory": "600m",
            # A life of half a minute is too short for the optimising compiler.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.local.dir": f"{directory}/local",
            "spark.sql.streaming.minBatchesToRetain": "1000",
        },
    )
    warm = spark.read.format("millpond").option("kafka.bootstrap.servers", bootstrap)
    warm.option("subscribe", "in").load().limit(1).write.format("noop").mode("append").save()
    print("READY", flush=True)
    order = sys.stdin.readline().strip()
    if order == "half-way":
        spark.dataSource.register(dying_source(os.getpid()))
    starts = [
        partial(start, spark, bootstrap, directory, order) for start in (start_copy, start_lake)
    ]
    queries = [start() for start in starts]
    print("STARTED", flush=True)
    while any(query.isActive for query in queries):
        with suppress(StreamingQueryException):
            spark.streams.awaitAnyTermination()
        spark.streams.resetTerminated()
        queries = [
            start() if has_to_start_again(query) else query
            for start, query in zip(starts, queries, strict=True)
        ]
    print("DRAINED", flush=True)


def has_to_start_again(query: Any) -> bool:
    """Whether Spark had no time for its Python process, to which it gives ten seconds to come up.

    A machine with too much to do may not keep that. Whatever else ends a query ends the driver.
    """
    error = query.exception()
    if error is not None and "Python worker failed to connect back" not in str(error):
        raise error
    return error is not None


def rows_per_batch(order: str) -> int:
    """Small batches while there is something to interrupt."""
    return ROWS_TO_DRAIN if order == "drain" else ROWS_PER_BATCH


def start_copy(spark: Any, bootstrap: str, directory: str, order: str) -> Any:
    """Topic to topic, through the sink."""
    records = (
        spark.readStream.format("millpond")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch(order))
        # A batch of one task has no moment between two commits. The lake takes small batches as they come.
        .option("smallBatchOffsets", "0")
        .load()
    )
    writer = (
        records.select("key", "value")
        .writeStream.format("dying" if order == "half-way" else "millpond")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "out")
        .option("checkpointLocation", f"{directory}/checkpoint/copy")
    )
    drain = order == "drain"
    return writer.trigger(
        **({"availableNow": True} if drain else {"processingTime": "0 seconds"})
    ).start()


def start_lake(spark: Any, bootstrap: str, directory: str, order: str) -> Any:
    """Topic to Parquet, by the shipped pipeline."""
    from millpond.spark.pipelines import lake

    (query,) = lake.start(
        spark,
        lake.Options(
            bootstrap=bootstrap,
            source=("in",),
            to=f"{directory}/lake",
            checkpoint=f"{directory}/checkpoint",
            available_now=order == "drain",
            interval="0 seconds",
            rows_per_batch=rows_per_batch(order),
            compact_every=BATCHES_TO_COMPACT,
            quiet_s=0,
        ),
    )
    return query


def dying_source(driver: int) -> type:
    """The sink, in a driver that kills itself after the first commit of a batch of several transactions."""
    from pyspark.sql.datasource import DataSource

    from millpond.spark.sink import StreamSink, _worker

    class Dying(StreamSink):  # local, so that it travels by value
        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            transactions = _worker(self.options)._transactions
            end = transactions.end
            ended: list[Any] = []

            async def end_one(transaction: Any, *, commit: bool) -> None:
                if ended:
                    os.killpg(driver, signal.SIGKILL)
                    os.kill(os.getpid(), signal.SIGKILL)
                await end(transaction, commit=commit)
                ended.append(transaction)

            transactions.end = end_one  # type: ignore[method-assign]
            super().commit(messages, batchId)

    class Source(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "dying"

        def streamWriter(self, schema: Any, overwrite: bool) -> Dying:  # noqa: N802
            return Dying(self.options, schema)

    return Source


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    main(sys.argv[1], sys.argv[2])
