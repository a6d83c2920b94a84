"""A disk that is full (ENOSPC, on a small file system of its own) under a lake, a checkpoint, and a broker.

The query ends with a message that says what is full and which options name the place; started again when
there is room, it goes on, and nothing is lost or doubled.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millpond.client import BlockingClient
from tests.spark.reading import write
from tests.support.kafka.committed import read_committed, values
from tests.support.processes.broker_process import MillpondProcess

pytestmark = pytest.mark.crash

DISK_BYTES = 48 * 1024 * 1024
FEW, MANY = 10, 3000


class SmallDisk:
    """A file system in memory that can be filled up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """No block is left."""
        with self._ballast.open("ab", buffering=0) as file:
            while room := self.free_bytes():
                file.write(bytes(min(room, 1 << 20)))

    def free_bytes(self) -> int:
        state = os.statvfs(self.path)
        return state.f_bavail * state.f_frsize

    def empty(self) -> None:
        """There is room again."""
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("a file system of its own needs root")
    options = f"size={DISK_BYTES}"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "millpond-test", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system of its own can be mounted: {mounted.stderr.strip()}")
    yield SmallDisk(place)
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def numbers(first: int, end: int) -> list[str]:
    """Values that are not small."""
    return [f"{number:05d}-{'x' * 200}" for number in range(first, end)]


def in_lake(place: Path) -> list[str]:
    """What a plain reader finds."""
    import pyarrow.dataset

    found = pyarrow.dataset.dataset(place, format="parquet", partitioning="hive").to_table()
    return sorted(value.decode() for value in found["value"].to_pylist())


@pytest.mark.parametrize("full", ["--to", "--checkpoint"])
def test_a_lake_says_that_the_disk_is_full_and_goes_on_when_it_is_not(
    spark: Any,
    broker: MillpondProcess,
    client: BlockingClient,
    topic: str,
    tmp_path: Path,
    disk: SmallDisk,
    full: str,
) -> None:
    from millpond.spark.pipelines import lake
    from millpond.spark.pipelines.errors import PipelineError
    from millpond.spark.pipelines.running import run

    places = {"--to": tmp_path / "lake", "--checkpoint": tmp_path / "checkpoint"}
    places[full] = disk.path / "here"
    options = lake.Options(
        bootstrap=broker.bootstrap,
        source=(topic,),
        to=str(places["--to"]),
        checkpoint=str(places["--checkpoint"]),
        available_now=True,
    )
    client.create_topic(topic, partitions=1)
    write(client, topic, 0, numbers(0, FEW))
    run(spark, "lake", options)
    write(client, topic, 0, numbers(FEW, MANY))
    disk.fill()

    with pytest.raises(PipelineError, match="No space left on device") as raised:
        run(spark, "lake", options)

    assert f"{full} {places[full]}" in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert in_lake(places["--to"]) == numbers(0, FEW), "half of a batch is never seen"
    disk.empty()
    run(spark, "lake", options)
    assert in_lake(places["--to"]) == numbers(0, MANY)


def test_a_sink_whose_broker_is_full_says_so_and_goes_on_when_there_is_room(
    spark: Any,
    broker: MillpondProcess,
    client: BlockingClient,
    topic: str,
    tmp_path: Path,
    disk: SmallDisk,
) -> None:
    client.create_topic(topic, partitions=1)
    write(client, topic, 0, numbers(0, FEW))

    def copy(to: MillpondProcess) -> Any:
        frame = spark.readStream.format("millpond").option("subscribe", topic)
        frame = frame.option("kafka.bootstrap.servers", broker.bootstrap)
        rows = frame.option("startingOffsets", "earliest").load().select("key", "value")
        writer = rows.writeStream.format("millpond").option("topic", "copies")
        writer = writer.option("kafka.bootstrap.servers", to.bootstrap)
        writer = writer.option("kafka.delivery.timeout.ms", "8000")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    properties = {"log.dirs": str(disk.path / "data")}
    with MillpondProcess(tmp_path / "broker", properties=properties) as small:
        with BlockingClient(small.bootstrap) as other:
            other.create_topic("copies", partitions=1)
        copy(small)
        write(client, topic, 0, numbers(FEW, MANY))
        disk.fill()

        with pytest.raises(Exception, match="copies") as raised:
            copy(small)

        said = str(raised.value)
        assert "topic=copies" in said
        assert "kafka.delivery.timeout.ms" in said
        assert f"cannot append to {disk.path}" in said
        assert "No space left on device (KAFKA_STORAGE_ERROR)" in said
        disk.empty()
        copy(small)
        found = values(read_committed(small.bootstrap, "copies"))
        assert sorted(value.decode() for value in found) == numbers(0, MANY)
