"""An archive of Spark's classes, so that later sessions start in half the time (AppCDS).

A separate process runs a session with typical queries, and Java records at its end the loaded classes. The
archive fits this Java and this Spark only, and is named after them; ``build_session`` uses it if it exists.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from millpond.spark.errors import SparkError
from millpond.spark.java import Java, find_java
from millpond.spark.session import archive_path, build_session

_SECONDS_MAX = 600


def make_archive(java: Java | None = None) -> Path:
    """Create the archive; takes about half a minute. ``SparkError`` says why it failed."""
    java = java or find_java()
    if java.is_from_wheel:
        raise SparkError(
            "the Java that pip brought cannot use a class archive; install another one"
        )
    archive = archive_path(java)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="millpond-warmup-") as directory:
        # In the same directory, so that a rename makes it appear at once and complete.
        fresh = archive.with_name(f".{archive.name}.{os.getpid()}")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "millpond.spark.warmup", str(fresh), directory],
                capture_output=True,
                text=True,
                timeout=_SECONDS_MAX,
                check=False,
            )
            if done.returncode != 0 or not fresh.exists():
                raise SparkError(f"no archive was made: {(done.stderr or done.stdout)[-2000:]}")
            fresh.replace(archive)
        finally:
            fresh.unlink(missing_ok=True)
    return archive


def exercise(archive: str, directory: str) -> None:
    """Run typical queries in the process whose classes are recorded: a topic to Parquet, and a query of
    it.
    """
    from millpond.client import BlockingClient
    from millpond.server.embedded import Broker

    topic = "warmup"
    with Broker() as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topic(topic, partitions=2)
        for partition in range(2):
            records = [(0, b"%d" % key, b'{"id": 1}', ()) for key in range(100)]
            client.produce_batch(topic, partition, records)
        session = build_session(
            "warmup",
            "local[2]",
            **{"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive}"},
        )
        stream = (
            session.readStream.format("millpond")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr(
                "CAST(key AS STRING)", "get_json_object(CAST(value AS STRING), '$.id') AS id"
            )
        )
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", f"{directory}/checkpoint")
            .trigger(availableNow=True)
            .start(f"{directory}/out")
        )
        query.awaitTermination()
        session.read.parquet(f"{directory}/out").groupBy("id").count().collect()
        session.stop()


if __name__ == "__main__":
    exercise(*sys.argv[1:])
