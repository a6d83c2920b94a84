"""One node's disk refuses writes while librdkafka's idempotent producers write: nothing stands twice.

The node's files may not grow past a size that its logs have reached already, so a write fails as on a full
disk, in the middle of a batch if that is where the limit lies, and is taken again when the limit is lifted.
"""

import resource
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.base.ids import TopicPartition
from tests.crash.reading import read_back
from tests.support.processes.cluster_processes import ClusterNode, MillpondCluster
from tests.support.processes.ports import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

TOPIC = "disks"
PARTITIONS = 6
# What the logs hold before the fault, and how long files may be while it lasts.
FILLED_BYTES = 300_000
FILE_BYTES = 128 * 1024
PATIENCE_S = 60.0


class Writer:
    """An idempotent producer on a thread of its own; when which partition acknowledged what."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self._name = name
        self.acknowledged: dict[int, list[str]] = {n: [] for n in range(PARTITIONS)}
        self.last_s: dict[int, float] = dict.fromkeys(range(PARTITIONS), 0.0)
        self.longest_s: dict[int, float] = dict.fromkeys(range(PARTITIONS), 0.0)
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "delivery.timeout.ms": 120_000,
                "topic.metadata.refresh.interval.ms": 60_000,
                "log_level": 0,
                "on_delivery": self._on_delivery,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for partition in range(PARTITIONS):
                value = f"{self._name}-{number}"
                number += 1
                try:
                    self._producer.produce(TOPIC, value.ljust(200), partition=partition)
                except BufferError:
                    self._producer.poll(0.05)
            self._producer.poll(0.005)
        self._producer.flush(PATIENCE_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert isinstance(value, bytes)
        if error is not None:
            self.errors.append(str(error))
            return
        now = time.perf_counter()
        if self.last_s[partition]:
            waited = now - self.last_s[partition]
            self.longest_s[partition] = max(self.longest_s[partition], waited)
        self.last_s[partition] = now
        self.acknowledged[partition].append(value.decode().strip())

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MillpondCluster]:
    """Three nodes with Kafka's own time-outs."""
    properties = {"offsets.topic.num.partitions": "3"}
    with MillpondCluster(tmp_path / "cluster", properties=properties) as made:
        yield made


def fill(node: ClusterNode) -> None:
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (FILE_BYTES, hard))


def make_room(node: ClusterNode) -> None:
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.parametrize("role", ["leader", "controller"])
def test_a_disk_that_fails_for_a_while_makes_no_duplicates(
    cluster: MillpondCluster, role: str
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    for answer in admin.create_topics([topic]).values():
        answer.result(PATIENCE_S)
    cluster.wait_in_sync()
    _prefill(cluster.bootstrap)
    controller = cluster.controller()
    number = controller
    if role == "leader":
        leaders = [cluster.leader_of(TopicPartition(TOPIC, n)) for n in range(PARTITIONS)]
        number = next(one for one in leaders if one != controller)
    sick = cluster.nodes[number]
    pid = sick.pid
    writers = [Writer(f"w{n}", cluster.bootstrap) for n in range(2)]
    try:
        wait_until(lambda: _has_all(writers, 0.0), timeout_s=PATIENCE_S, what="everybody writes")
        fill(sick)
        began = time.perf_counter()
        wait_until(
            lambda: "is offline" in sick.output, timeout_s=PATIENCE_S, what="the disk's failure"
        )
        failed = time.perf_counter()
        wait_until(
            lambda: _has_all(writers, failed),
            timeout_s=PATIENCE_S,
            what="every partition takes writes while the disk fails",
        )
        print(
            f"offline after {failed - began:.1f} s; all written {time.perf_counter() - began:.1f} s"
        )
        wait_until(
            lambda: _is_out(cluster, sick), timeout_s=PATIENCE_S, what="nobody waits for the node"
        )
        make_room(sick)
        wait_until(
            lambda: "takes writes again" in sick.output, timeout_s=PATIENCE_S, what="its return"
        )
        cluster.wait_in_sync()
        back = time.perf_counter()
        wait_until(lambda: _has_all(writers, back), timeout_s=PATIENCE_S, what="writes go on")
    finally:
        for writer in writers:
            writer.stop()
    print("longest waits", [f"{max(one.longest_s.values()):.2f} s" for one in writers])
    assert sick.pid == pid
    assert sick.is_running()
    for writer in writers:
        assert writer.errors == []
    for partition in range(PARTITIONS):
        stored = Counter(
            value.decode().strip()
            for _offset, value in read_back(cluster.bootstrap, TOPIC, partition)
        )
        twice = [value for value, count in stored.items() if count > 1 and value.startswith("w")]
        assert twice == []
        for writer in writers:
            assert set(writer.acknowledged[partition]) <= stored.keys()


def _prefill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for partition in range(PARTITIONS):
        for _ in range(FILLED_BYTES // 10_000):
            producer.produce(TOPIC, b"f" * 10_000, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def _has_all(writers: list[Writer], since_s: float) -> bool:
    return all(writer.last_s[n] > since_s for writer in writers for n in range(PARTITIONS))


def _is_out(cluster: MillpondCluster, sick: ClusterNode) -> bool:
    others = ",".join(node.bootstrap for node in cluster.nodes.values() if node is not sick)
    admin = AdminClient({"bootstrap.servers": others, "log_level": 0})
    found = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
    return all(one.leader != sick.node_id and sick.node_id not in one.isrs for one in found)
