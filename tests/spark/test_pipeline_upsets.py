"""Pipelines when things go wrong around them: a lost plan, a full disk, partitions out of step."""

import json
import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from millpond.client.blocking import BlockingClient
from millpond.spark.pipelines import dedup, dlq, lake, logs, redistribute
from millpond.spark.pipelines.errors import PipelineError
from millpond.spark.pipelines.running import run
from tests.spark.reading import TIME_MS, write
from tests.support.kafka.committed import read_committed, values
from tests.support.processes.broker_process import MillpondProcess

# A plan has about 1.2 kB; a file of a thousand records that nobody can compress has more than 20.
ROOM_FOR_NOTHING = 600
ROOM_FOR_PLANS = 8_000


def numbers(first: int, end: int) -> list[str]:
    """Values in order."""
    return [f"{number:05d}" for number in range(first, end)]


def in_lake(place: Path) -> list[str]:
    """What a plain reader finds."""
    found = pyarrow.dataset.dataset(place, format="parquet", partitioning="hive").to_table()
    return sorted(value.decode() for value in found["value"].to_pylist())


def lake_of(broker: MillpondProcess, topic: str, place: Path) -> lake.Options:
    return lake.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=str(place / "lake"),
        checkpoint=str(place / "checkpoint"),
        available_now=True,
    )


def test_a_plan_that_was_lost_with_the_power_is_not_made_anew(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    """The lake has batch 0 on the disk; Spark's notes of it were in memory only when the power went."""
    client.create_topic(topic, partitions=1)
    write(client, topic, 0, numbers(0, 50))
    options = lake_of(broker, topic, tmp_path)
    run(spark, "lake", options)
    checkpoint = tmp_path / "checkpoint" / "lake"
    for log in ("offsets", "commits"):
        (checkpoint / log / "0").unlink()
        (checkpoint / log / ".0.crc").unlink(missing_ok=True)
    write(client, topic, 0, numbers(50, 80))

    run(spark, "lake", options)

    assert in_lake(tmp_path / "lake") == numbers(0, 80)


def test_a_table_of_an_earlier_version_is_moved_away_and_its_pipeline_goes_on(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    """It was not cut by date: a reader of both kinds of files would miss its rows."""
    client.create_topic(topic, partitions=1)
    write(client, topic, 0, ["a", "b"])
    options = dlq.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=str(tmp_path / "report"),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
    )
    run(spark, "dlq", options)
    causes = tmp_path / "report" / "causes"
    (cut,) = causes.rglob("*.parquet")
    cut.rename(causes / cut.name)
    cut.parent.rmdir()
    write(client, topic, 0, ["c"])

    with pytest.raises(PipelineError, match=f"{causes} has files of an earlier version") as refused:
        run(spark, "dlq", options)
    advice = re.search(
        r"\((mkdir .*)\) and start again with the same checkpoint", str(refused.value)
    )
    assert advice is not None
    subprocess.run(["sh", "-c", advice[1]], check=True)
    run(spark, "dlq", options)

    def letters_in(place: Path) -> int:
        return sum(spark.read.parquet(str(place)).toPandas()["letters"])

    assert (letters_in(tmp_path / "report" / "causes-before"), letters_in(causes)) == (2, 1)
    assert [file.parent.parent for file in causes.rglob("*.parquet")] == [causes]


def java_of(spark: Any) -> int:
    """The process that writes Spark's files."""
    return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


@contextmanager
def files_no_larger_than(spark: Any, size: int) -> Iterator[None]:
    """What a full disk looks like to Spark: no file of its grows beyond this."""
    process = java_of(spark)
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [ROOM_FOR_NOTHING, ROOM_FOR_PLANS])
def test_a_full_disk_ends_a_pipeline_in_words_and_nothing_is_lost(
    spark: Any,
    broker: MillpondProcess,
    client: BlockingClient,
    topic: str,
    tmp_path: Path,
    room: int,
) -> None:
    client.create_topic(topic, partitions=1)
    write(client, topic, 0, numbers(0, 10))
    options = lake_of(broker, topic, tmp_path)
    run(spark, "lake", options)
    write(client, topic, 0, numbers(10, 5000))

    with (
        files_no_larger_than(spark, room),
        pytest.raises(PipelineError, match=r"(?i)too large") as raised,
    ):
        run(spark, "lake", options)

    said = str(raised.value)
    assert f"--from {topic} --to {options.to} --checkpoint {options.checkpoint}" in said
    assert "Traceback" not in said
    assert in_lake(tmp_path / "lake") == numbers(0, 10)
    run(spark, "lake", options)
    assert in_lake(tmp_path / "lake") == numbers(0, 5000)


def test_partitions_out_of_step_do_not_make_each_others_records_late(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    """One partition has a record each second, the other one each minute: batches keep them together."""
    client.create_topic(topic, partitions=2)
    for partition, step_ms in enumerate((1_000, 60_000)):
        records = [
            (TIME_MS + n * step_ms, b"k", json.dumps({"id": f"{partition}-{n}"}).encode(), ())
            for n in range(120)
        ]
        client.produce_batch(topic, partition, records)
    options = dedup.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=f"{topic}.clean",
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        rows_per_batch=60,
        within="1 minute",
    )
    for name in (f"{topic}.clean", f"{topic}.dlq"):
        client.create_topic(name, partitions=1)
    stats = {query_stats.name: query_stats for query_stats in run(spark, "dedup", options)}
    assert stats["dedup"].batches >= 4
    assert stats["dedup"].dropped_late == 0
    clean = values(read_committed(broker.bootstrap, f"{topic}.clean"))
    assert len(set(clean)) == len(clean) == 240


def test_a_record_that_is_ahead_does_not_hold_up_its_partition_until_its_neighbours_are_late(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    """A backlog of two partitions with a line each second; one clock of the first stood in 2100."""
    client.create_topic(topic, partitions=2, configs={"message.timestamp.after.max.ms": str(2**62)})
    for partition in range(2):
        times = [TIME_MS + n * 1000 for n in range(240)]
        if partition == 0:
            times[60] = 4_102_444_800_000
        for part in (times[:60], times[60:]):
            client.produce_batch(topic, partition, [(time, b"pay", b"fine", ()) for time in part])
    options = logs.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=str(tmp_path / "out"),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        rows_per_batch=60,
    )
    for name in (f"{topic}.dlq", f"{topic}.alerts"):
        client.create_topic(name, partitions=1)
    stats = {query_stats.name: query_stats for query_stats in run(spark, "logs", options)}
    assert stats["logs"].dropped_late == 0
    assert stats["logs-letters"].dead_letters == 1
    assert values(read_committed(broker.bootstrap, f"{topic}.dlq")) == [b"fine"]


def test_those_with_priority_are_first_and_too_old_a_backlog_is_left_out_and_written_down(
    spark: Any, broker: MillpondProcess, client: BlockingClient, topic: str, tmp_path: Path
) -> None:
    vip = f"{topic}.vip"
    for name, count in ((topic, 300), (vip, 90)):
        client.create_topic(name, partitions=1)
        write(client, name, 0, numbers(0, count))
    options = redistribute.Options(
        bootstrap=broker.bootstrap,
        source=(topic, vip),
        to=f"{topic}.spread",
        partitions=1,
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        rows_per_batch=100,
        priority=vip,
        shed_beyond=200,
    )
    run(spark, "redistribute", options)

    found = [value.decode() for value in values(read_committed(broker.bootstrap, options.to))]
    assert sorted(found) == sorted(numbers(0, 90) + numbers(200, 300))
    assert found[:90] == numbers(0, 90), "all of them came before anything else"
    (line,) = map(json.loads, (tmp_path / "checkpoint" / "shed.jsonl").read_text().splitlines())
    assert (line["topic"], line["firstOffset"], line["endOffset"]) == (topic, 0, 200)
    assert line["reason"] == "shed"
