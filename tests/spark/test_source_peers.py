"""The same traffic at Millpond and at Apache Kafka gives the same rows, from brokers and from their files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.reading import Collected, read, run_once, stream
from tests.support.processes import java_tools
from tests.support.processes.broker_process import ROOT, MillpondProcess
from tests.support.processes.kafka_server import ApacheKafka

TOPIC = "peers"
TIME_MS = 1_700_000_000_000


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    """A real Apache Kafka."""
    reason = java_tools.missing_reason()
    if reason:
        pytest.skip(reason)
    with ApacheKafka(tmp_path / "kafka") as running:
        yield running


def write_everything(bootstrap: str) -> None:
    """Two partitions, every codec, headers, nulls, a committed and an aborted transaction."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    # The records are old, and a broker may not throw them away while they are read.
    config = {"segment.bytes": str(1024 * 1024), "retention.ms": "-1"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1, config=config)])[TOPIC].result(30)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        plain = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for number in range(200):
            value = None if number % 50 == 0 else f"{codec} {number} ".encode() * 20
            headers = [("codec", codec.encode()), ("n", b"%d" % number)] if number % 3 else None
            plain.produce(
                TOPIC,
                value,
                key=None if number % 7 == 0 else b"%d" % number,
                partition=number % 2,
                timestamp=TIME_MS + number,
                headers=headers,
            )
        plain.flush(30)
    for name, commit in (("kept", True), ("gone", False), ("kept too", True)):
        transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        transactional.init_transactions(30)
        transactional.begin_transaction()
        for number in range(10):
            transactional.produce(
                TOPIC, f"{name} {number}".encode(), partition=number % 2, timestamp=TIME_MS
            )
        transactional.flush(30)
        if commit:
            transactional.commit_transaction(30)
        else:
            transactional.abort_transaction(30)


def test_the_same_rows_from_millpond_and_from_apache_kafka(
    spark: Any, kafka: ApacheKafka, tmp_path: Path
) -> None:
    found = {}
    with MillpondProcess(tmp_path / "millpond") as millpond:
        for name, peer in (("millpond", millpond), ("kafka", kafka)):
            write_everything(peer.bootstrap)
            options = {"subscribe": TOPIC, "includeHeaders": "true"}
            everything = read(spark, peer, **options)
            options["kafka.isolation.level"] = "read_committed"
            committed = read(spark, peer, **options)
            sink = Collected()
            streamed = stream(
                spark, peer, **options, startingOffsets="earliest", maxOffsetsPerTrigger=300
            )
            run_once(streamed, sink, tmp_path / f"checkpoint-{name}")
            found[name] = [
                sorted(rows, key=lambda row: (row.partition, row.offset))
                for rows in (everything.collect(), committed.collect(), sink.rows)
            ]

    everything, committed, streamed = found["millpond"]
    assert [plain(rows) for rows in found["kafka"]] == [plain(rows) for rows in found["millpond"]]
    assert (len(everything), len(committed)) == (1030, 1020)
    assert streamed == committed

    kafka.stop()
    files = spark.read.format("millpond").option("segments", str(kafka.data))
    files = files.option("subscribe", TOPIC).option("includeHeaders", "true")
    from_files = files.option("kafka.isolation.level", "read_committed").load().collect()
    in_order = sorted(from_files, key=lambda row: (row.partition, row.offset))
    assert in_order == found["kafka"][1]


def plain(rows: list[Any]) -> list[dict[str, Any]]:
    """Rows in their order, without offsets.

    Kafka puts the marker of a transaction into the log a moment after it has answered: records behind it may
    have one offset or the next.
    """
    return [{**row.asDict(), "offset": None} for row in rows]


@pytest.mark.usefixtures("in_shared_session")
def test_the_example_of_the_documentation_runs(spark: Any) -> None:
    """With a table instead of the console, which belongs to Java and not to the test."""
    page = (ROOT / "docs" / "spark.md").read_text()
    example = page.split("```python\n")[1].split("```")[0]
    assert '.format("console")' in example
    example = example.replace('.format("console")', '.format("memory").queryName("example")')

    exec(compile(example, "docs/spark.md", "exec"), {})

    rows = {tuple(row) for row in spark.table("example").collect()}
    assert rows == {(0, 499500), (1, 499500)}, "the sum of the numbers of each partition"
