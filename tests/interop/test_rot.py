"""Disks change and lose bytes under three real nodes; librdkafka reads everything as it was written."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.base.ids import TopicPartition
from tests.support.processes.cluster_processes import ClusterNode, MillpondCluster
from tests.support.processes.ports import wait_until

pytestmark = pytest.mark.interop

PLACE = TopicPartition("readings", 0)
SENT = [b"%06d " % number + b"." * 200 for number in range(40_000)]
PATIENCE_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MillpondCluster]:
    with MillpondCluster(tmp_path_factory.mktemp("rot")) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = NewTopic(
            PLACE.topic,
            num_partitions=1,
            replication_factor=3,
            config={"segment.bytes": "1048576", "flush.policy": "group"},
        )
        for made in admin.create_topics([topic]).values():
            made.result(PATIENCE_S)
        # Without idempotence what is sent again goes behind what was sent after it.
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "batch.size": 16_000,
            }
        )
        for value in SENT:
            producer.produce(PLACE.topic, value, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        yield cluster


def read_all(cluster: MillpondCluster) -> list[bytes]:
    """As a reader does that begins at the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([PLACE.topic])
    found: list[bytes] = []

    def is_at_end() -> bool:
        message = consumer.poll(1.0)
        if message is None:
            return False
        if message.error() is not None:
            return bool(message.error().code() == KafkaError._PARTITION_EOF)
        found.append(message.value())
        return False

    try:
        wait_until(is_at_end, timeout_s=PATIENCE_S, what="the end of the partition", poll_s=0)
    finally:
        consumer.close()
    return found


def segments(node: ClusterNode) -> list[Path]:
    """The node's closed segments."""
    return sorted((node.data / str(PLACE)).glob("*.log"))[:-1]


def flip(file: Path) -> None:
    """One bit in the middle."""
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        (byte,) = stream.read(1)
        stream.seek(-1, 1)
        stream.write(bytes([byte ^ 0x10]))


def zero(file: Path) -> None:
    """A sector that was never written."""
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 3)
        stream.write(bytes(4096))


def cut(file: Path) -> None:
    """The second half is gone."""
    with file.open("r+b") as stream:
        stream.truncate(file.stat().st_size // 2)


@pytest.mark.parametrize("harm", [flip, zero, cut])
def test_a_leaders_disk_fails_and_readers_get_what_was_written(
    cluster: MillpondCluster, harm: Callable[[Path], None]
) -> None:
    leader = cluster.nodes[cluster.leader_of(PLACE)]
    files = segments(leader)
    assert len(files) > 5
    sound = {file: file.read_bytes() for file in files}
    for file in files[1::3]:
        harm(file)

    assert read_all(cluster) == SENT

    assert {file: file.read_bytes() for file in files} == sound
    assert "are repaired" in leader.log_path.read_text()


def test_a_follower_whose_disk_has_failed_leads_and_gives_what_was_written(
    cluster: MillpondCluster,
) -> None:
    leader = cluster.leader_of(PLACE)
    for node_id, node in cluster.nodes.items():
        if node_id != leader:
            # Not the same place on both: one of three has each record.
            flip(segments(node)[node_id])
    cluster.stop_node(leader)
    try:
        assert cluster.leader_of(PLACE) != leader
        assert read_all(cluster) == SENT
    finally:
        cluster.start_node(leader)
        cluster.wait_in_sync()
