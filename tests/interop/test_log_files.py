"""Kafka's own dump tool reads the files of a partition and finds nothing wrong with them.

One story writes a partition with every codec, with idempotent batches and over several segments; the tool is
started once for all of its files, since a JVM takes its time.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.interop.clients import CODECS, Message, librdkafka_write
from tests.interop.conftest import require_java, unique_name
from tests.interop.peers import Peer
from tests.interop.topics import create_topic
from tests.support.processes.java_tools import ToolResult, run_tool
from tests.support.processes.ports import wait_until

SEGMENT_BYTES = 1024 * 1024  # the least that Kafka allows
COMPLAINT = re.compile(
    r"mismatch|corrupt|isvalid: false|Found timestamp|out of order|not found|Exception|Unexpected",
    re.IGNORECASE,
)
PADDING = "the mill grinds " * 60


@dataclass(frozen=True, slots=True)
class Dumped:
    """A partition's files and what the tool said about them."""

    directory: Path
    values: list[str]
    result: ToolResult


@pytest.fixture(scope="module")
def dumped(broker: Peer) -> Dumped:
    """A partition of several segments, dumped file by file in one run."""
    require_java()
    topic = unique_name("dumped")
    create_topic(
        broker,
        topic,
        config={"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "4096"},
    )
    values = write_everything(broker, topic)
    directory = broker.data / f"{topic}-0"
    files = [
        str(path)
        for kind in ("log", "index", "timeindex", "snapshot", "txnindex")
        for path in sorted(directory.glob(f"*.{kind}"))
    ]
    result = run_tool(
        "kafka-dump-log",
        *("--files", ",".join(files), "--deep-iteration", "--print-data-log"),
        heap_mb=512,
    )
    return Dumped(directory, values, result)


def test_no_file_is_found_wrong(dumped: Dumped) -> None:
    dumped.result.check()
    lines = (dumped.result.out + dumped.result.err).splitlines()
    complaints = [line for line in lines if not line.startswith("|") and COMPLAINT.search(line)]
    assert complaints == []
    # The tool remarks on every segment that does not begin at 0 ("-1 is followed by ..."), Kafka's own too.
    gaps = [line for line in lines if " is followed by " in line]
    assert [gap for gap in gaps if not gap.startswith("  -1 is")] == []


def test_every_record_is_shown_in_order(dumped: Dumped) -> None:
    payloads = re.findall(r"^\| offset: (\d+) .*? payload: (.*)$", dumped.result.out, re.MULTILINE)
    assert [(int(offset), value) for offset, value in payloads] == list(enumerate(dumped.values))


def test_every_codec_is_recognised(dumped: Dumped) -> None:
    found = set(re.findall(r"compresscodec: (\w+)", dumped.result.out))
    assert {codec.lower() for codec in found} == set(CODECS)


def test_segments_are_named_by_their_first_offset(dumped: Dumped) -> None:
    segments = sorted(dumped.directory.glob("*.log"))
    assert len(segments) >= 3
    for segment in segments:
        with segment.open("rb") as file:
            first_offset = int.from_bytes(file.read(8), "big")
        assert segment.name == f"{first_offset:020}.log"
        assert segment.stat().st_size <= SEGMENT_BYTES
    closed = segments[:-1]
    for segment in closed:
        assert segment.with_suffix(".index").stat().st_size % 8 == 0
        assert segment.with_suffix(".timeindex").stat().st_size % 12 == 0


def test_the_indexes_hold_what_a_search_needs(dumped: Dumped) -> None:
    """An entry for about every 4 KiB of log: sparse, but never far from any offset."""
    for segment in sorted(dumped.directory.glob("*.log"))[:-1]:
        entries = segment.with_suffix(".index").stat().st_size // 8
        batches = max(1, segment.stat().st_size // (16 * 1024))  # librdkafka fills larger ones
        assert entries >= batches // 4
    shown = re.findall(r"^offset: (\d+) position: (\d+)$", dumped.result.out, re.MULTILINE)
    assert shown
    stamps = re.findall(r"^timestamp: (\d+) offset: (\d+)$", dumped.result.out, re.MULTILINE)
    assert stamps


def test_a_snapshot_tells_of_the_producers(dumped: Dumped) -> None:
    shown = re.findall(r"^producerId: (\d+) producerEpoch: (\d+) ", dumped.result.out, re.MULTILINE)
    assert shown


def test_the_partition_knows_its_topic(dumped: Dumped, broker: Peer) -> None:
    metadata = (dumped.directory / "partition.metadata").read_text().splitlines()
    assert metadata[0] == "version: 0"
    assert re.fullmatch(r"topic_id: [\w-]{22}", metadata[1])
    epochs = (dumped.directory / "leader-epoch-checkpoint").read_text().split("\n")
    assert epochs[:3] == ["0", "1", "0 0"]
    properties = (broker.data / "meta.properties").read_text()
    assert re.search(r"^version=1$", properties, re.MULTILINE)
    assert re.search(r"^cluster\.id=[\w-]{22}$", properties, re.MULTILINE)
    assert re.search(r"^directory\.id=[\w-]{22}$", properties, re.MULTILINE)


def test_the_metadata_log_is_read_by_kafkas_decoder(broker: Peer, topic: str) -> None:
    require_java()
    create_topic(broker, topic, partitions=2, config={"retention.ms": "7654321"})
    segment = max((broker.data / "__cluster_metadata-0").glob("*.log"))
    shown = run_tool(
        "kafka-dump-log",
        "--cluster-metadata-decoder",
        "--skip-record-metadata",
        "--files",
        str(segment),
    ).check()
    start = "| payload: "
    lines = [line for line in shown.out.splitlines() if line.startswith(start)]
    records = [json.loads(line.removeprefix(start)) for line in lines]
    told: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        told.setdefault(record["type"], []).append(record["data"])
    (made,) = [data for data in told["TOPIC_RECORD"] if data["name"] == topic]
    partitions = [d for d in told["PARTITION_RECORD"] if d["topicId"] == made["topicId"]]
    assert [data["partitionId"] for data in partitions] == [0, 1]
    settings = [data for data in told["CONFIG_RECORD"] if data["resourceName"] == topic]
    assert [(d["name"], d["value"]) for d in settings] == [("retention.ms", "7654321")]


def test_committed_offsets_are_read_by_kafkas_decoder(broker: Peer, topic: str) -> None:
    require_java()
    create_topic(broker, topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})

    def committed() -> bool:
        try:
            # An offset need not exist to be committed.
            consumer.commit(offsets=[TopicPartition(topic, 0, 42)], asynchronous=False)
        except KafkaException:
            return False
        return True

    try:
        # A fresh Kafka takes a moment to find itself the coordinator.
        wait_until(committed, timeout_s=60, what="the offset is committed")
    finally:
        consumer.close()
    segments = [
        str(path)
        for path in sorted(broker.data.glob("__consumer_offsets-*/*.log"))
        if path.stat().st_size
    ]
    shown = run_tool(
        "kafka-dump-log", "--offsets-decoder", "--print-data-log", "--files", ",".join(segments)
    ).check()
    line = [line for line in shown.out.splitlines() if f'"group":"{topic}"' in line][-1]
    assert f'"topic":"{topic}"' in line
    assert '"offset":42' in line


def write_everything(broker: Peer, topic: str) -> list[str]:
    """Write with every codec and with an idempotent producer, enough for several segments."""
    values: list[str] = []
    for codec in CODECS:
        batch = [f"{codec} {number} {PADDING}" for number in range(200)]
        messages = [Message(key=f"{codec}{number}", value=v) for number, v in enumerate(batch)]
        librdkafka_write(broker.bootstrap, topic, messages, codec)
        values += batch
    idempotent = [f"once {number} {PADDING}" for number in range(3000)]
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "batch.size": 30_000,
            "linger.ms": 1,
        }
    )
    for value in idempotent:
        producer.produce(topic, value, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    return values + idempotent
