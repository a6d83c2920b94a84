"""`millpond cluster status` says what is wrong with a real cluster: damaged records, a node that is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.cli import cli
from millpond.record.batch import iter_batches
from tests.support.processes.cluster_processes import MillpondCluster
from tests.support.processes.java_host import JavaHost
from tests.support.processes.ports import wait_until

pytestmark = pytest.mark.interop

TOPIC = "readings"
PATIENCE_S = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MillpondCluster]:
    with MillpondCluster(tmp_path / "cluster") as cluster:
        yield cluster


def status(cluster: MillpondCluster) -> Result:
    return CliRunner().invoke(cli, ["cluster", "status", "--bootstrap", cluster.bootstrap])


def write(cluster: MillpondCluster) -> int:
    """Several closed segments of a topic with one replica. Return the node that has it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic(
        TOPIC,
        num_partitions=1,
        replication_factor=1,
        config={"segment.bytes": "300", "min.insync.replicas": "1"},
    )
    admin.create_topics([topic])[TOPIC].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for number in range(12):
        producer.produce(TOPIC, b"%d" % number * 20, partition=0)
        assert producer.flush(PATIENCE_S) == 0
    described = admin.list_topics(TOPIC, timeout=PATIENCE_S)
    return int(described.topics[TOPIC].partitions[0].leader)


def flip_a_bit(file: Path) -> int:
    """Change the last record of the first batch of a segment. Return its offset."""
    position, header = next(iter(iter_batches(file.read_bytes())))
    with file.open("r+b") as stream:
        stream.seek(position + header.size - 2)
        (byte,) = stream.read(1)
        stream.seek(-1, 1)
        stream.write(bytes([byte ^ 0x10]))
    return header.base_offset


def read_until_error(cluster: MillpondCluster, offset: int) -> None:
    """Read at an offset until the consumer is told that it cannot."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, offset)])

    def is_told() -> bool:
        message = consumer.poll(1.0)
        if message is None or message.error() is None:
            return False
        return bool(message.error().code() != KafkaError._PARTITION_EOF)

    try:
        wait_until(is_told, timeout_s=PATIENCE_S, what="the consumer is told", poll_s=0)
    finally:
        consumer.close()


@pytest.mark.timeout(240)
def test_damaged_offsets_and_the_reason_of_fencing_are_told(
    cluster: MillpondCluster, java_host: JavaHost
) -> None:
    """Kafka's own tools go on reading the answers that carry this."""
    holder = write(cluster)
    wait_until(
        lambda: status(cluster).exit_code == 0, timeout_s=PATIENCE_S, what="a healthy cluster"
    )
    segments = sorted((cluster.nodes[holder].data / f"{TOPIC}-0").glob("*.log"))
    assert len(segments) > 3
    offset = flip_a_bit(segments[2])
    read_until_error(cluster, offset)

    told = status(cluster)
    assert told.exit_code == 1
    assert f"damaged records\t1\t{TOPIC}-0 (node {holder})" in told.stdout
    assert f"node {holder}: {TOPIC}-0: offset {offset} is damaged (" in told.stdout
    assert "there is no other replica" in told.stdout

    sizes = java_host.tool(
        "kafka-log-dirs", "--bootstrap-server", cluster.bootstrap, "--describe",
        "--broker-list", str(holder), timeout_s=PATIENCE_S,
    )  # fmt: skip
    assert f'"partition":"{TOPIC}-0"' in sizes.check().out

    controller = cluster.controller()
    victim = next(node for node in cluster.nodes if node not in (controller, holder))
    cluster.nodes[victim].kill()
    wait_until(
        lambda: f"node {victim} is fenced: " in status(cluster).stdout,
        timeout_s=PATIENCE_S,
        what="the node is fenced",
    )
    told = status(cluster)
    assert told.exit_code == 1
    # By the end of its connection, or by its silence if that was not seen.
    assert (
        f"node {victim} is fenced: its process has ended (fenced for " in told.stdout
        or f"node {victim} is fenced: the controller has not heard of it (fenced for "
        in told.stdout
    )
    assert "start it" in told.stdout
    brokers = java_host.tool(
        "kafka-cluster", "list-endpoints", "--bootstrap-server", cluster.nodes[controller].bootstrap,
        "--include-fenced-brokers", timeout_s=PATIENCE_S,
    )  # fmt: skip
    (row,) = [line for line in brokers.check().out.splitlines() if line.startswith(str(victim))]
    assert "fenced" in row.split()
