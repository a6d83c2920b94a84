"""Apache Kafka's own command-line tools against a broker process.

A JVM takes a second to start, so that one test here tells a longer story than elsewhere.
"""

import json
import re
from pathlib import Path

import pytest

from tests.interop.peers import Peer
from tests.interop.topics import create_topic
from tests.support.processes.java_tools import ToolResult, run_tool

pytestmark = pytest.mark.usefixtures("java")


def test_topics_are_created_listed_described_altered_and_deleted(broker: Peer, topic: str) -> None:
    topics(broker, "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1")
    assert topic in topics(broker, "--list").out.splitlines()

    topics(broker, "--alter", "--topic", topic, "--partitions", "5")
    described = topics(broker, "--describe", "--topic", topic).out
    assert re.search(r"PartitionCount: 5\s+ReplicationFactor: 1", described)
    assert (
        len(re.findall(r"Partition: \d\s+Leader: (\d+)\s+Replicas: \1\s+Isr: \1", described)) == 5
    )

    again = run_topics(broker, "--create", "--topic", topic)
    assert again.code == 1
    assert "TopicExistsException" in again.out + again.err

    topics(broker, "--delete", "--topic", topic)
    gone = run_topics(broker, "--describe", "--topic", topic)
    assert gone.code == 1
    assert "does not exist" in gone.out + gone.err


def test_settings_are_altered_and_described(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, config={"max.message.bytes": "1048576"})
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    configs(
        broker,
        *(
            "--alter",
            *of_topic,
            "--add-config",
            "retention.ms=86400000,cleanup.policy=[compact,delete]",
        ),
        *("--delete-config", "max.message.bytes"),
    )
    described = configs(broker, "--describe", *of_topic).out
    assert "retention.ms=86400000" in described
    assert "cleanup.policy=compact,delete" in described
    assert "max.message.bytes" not in described
    everything = configs(broker, "--describe", "--all", *of_topic).out
    assert "segment.bytes=1073741824" in everything
    assert "max.message.bytes=1048588" in everything


def test_console_producer_and_consumer(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=2)
    lines = [f"key-{number}\tvalue {number}" for number in range(40)]
    run_tool(
        "kafka-console-producer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--reader-property", "parse.key=true"),
        stdin="\n".join(lines) + "\n",
    ).check()
    assert offsets(broker, "--topic", topic, "--time", "earliest") == {0: 0, 1: 0}
    ends = offsets(broker, "--topic", topic, "--time", "latest")
    assert sum(ends.values()) == 40
    found = [
        line
        for partition, end in ends.items()
        for line in consumed(broker, topic, end - 2, "--partition", str(partition), "--offset", "2")
    ]
    assert len(found) == 36
    assert set(found) < set(lines)


def test_perf_tools(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=2)
    produced = run_tool(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--bootstrap-server", broker.bootstrap),
        *("--command-property", "acks=all", "--command-property", "compression.type=lz4"),
    ).check()
    assert "20000 records sent" in produced.out
    assert sum(offsets(broker, "--topic", topic).values()) == 20000


def test_an_idempotent_java_producer(broker: Peer, topic: str) -> None:
    create_topic(broker, topic)
    lines = [f"line {number}" for number in range(300)]
    run_tool(
        "kafka-console-producer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        *("--command-property", "enable.idempotence=true", "--command-property", "acks=all"),
        *("--command-property", "batch.size=200"),
        stdin="\n".join(lines) + "\n",
    ).check()
    found = consumed(broker, topic, 300, "--partition", "0", "--offset", "earliest", keys=False)
    assert found == lines


def test_log_dirs_and_deleted_records(broker: Peer, topic: str, tmp_path: Path) -> None:
    create_topic(broker, topic)
    run_tool(
        "kafka-console-producer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic),
        stdin="a\nb\nc\nd\ne\n",
    ).check()
    plan = tmp_path / "plan.json"
    one = {"topic": topic, "partition": 0, "offset": 3}
    plan.write_text(json.dumps({"partitions": [one], "version": 1}))
    deleted = run_tool(
        "kafka-delete-records",
        *("--bootstrap-server", broker.bootstrap, "--offset-json-file", str(plan)),
    ).check()
    assert "low_watermark: 3" in deleted.out
    assert offsets(broker, "--topic", topic, "--time", "earliest") == {0: 3}

    shown = run_tool(
        "kafka-log-dirs",
        *("--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", topic),
    ).check()
    (node,) = json.loads(shown.out.splitlines()[-1])["brokers"]
    (directory,) = node["logDirs"]
    assert Path(directory["logDir"]) == broker.data
    assert directory["error"] is None
    (partition,) = directory["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 0


def test_the_cluster_shows_itself(broker: Peer) -> None:
    versions = run_tool("kafka-broker-api-versions", "--bootstrap-server", broker.bootstrap).check()
    assert re.search(r"Produce\(0\): \d+ to 13 ", versions.out)
    assert re.search(r"Fetch\(1\): 4 to 18 ", versions.out)
    assert re.search(r"ApiVersions\(18\): 0 to \d", versions.out)
    cluster = run_tool(
        "kafka-cluster", "cluster-id", "--bootstrap-server", broker.bootstrap
    ).check()
    assert re.search(r"Cluster ID: \S{22}", cluster.out)


def run_topics(broker: Peer, *args: str) -> ToolResult:
    """kafka-topics, whatever it answers."""
    return run_tool("kafka-topics", "--bootstrap-server", broker.bootstrap, *args)


def topics(broker: Peer, *args: str) -> ToolResult:
    """kafka-topics, which must succeed."""
    return run_topics(broker, *args).check()


def configs(broker: Peer, *args: str) -> ToolResult:
    """kafka-configs, which must succeed."""
    return run_tool("kafka-configs", "--bootstrap-server", broker.bootstrap, *args).check()


def offsets(broker: Peer, *args: str) -> dict[int, int]:
    """kafka-get-offsets as a table from partition to offset."""
    shown = run_tool("kafka-get-offsets", "--bootstrap-server", broker.bootstrap, *args).check()
    rows = (line.split(":") for line in shown.out.splitlines())
    return {int(partition): int(offset) for _, partition, offset in rows}


def consumed(broker: Peer, topic: str, count: int, *args: str, keys: bool = True) -> list[str]:
    """The lines that kafka-console-consumer prints."""
    shown = run_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", topic, *args),
        *("--max-messages", str(count), "--timeout-ms", "60000"),
        *("--formatter-property", f"print.key={str(keys).lower()}"),
    ).check()
    return shown.out.splitlines()
