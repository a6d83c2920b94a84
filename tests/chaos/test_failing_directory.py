"""One of two log directories of a node fails while idempotent producers write: the other one goes on.

Files of the node may not grow past a size that the logs in its second directory have reached already, and
those in its first have not, so only writes to the second fail, as on a full disk.
"""

import resource
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.base.ids import TopicPartition
from millpond.client import BlockingAdmin
from tests.chaos.test_failing_disk import PARTITIONS, TOPIC, Writer, make_room
from tests.crash.reading import read_back
from tests.support.processes.cluster_processes import ClusterNode, MillpondCluster
from tests.support.processes.ports import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

# How long files may be during the fault, and what logs of the second directory hold before it.
FILE_BYTES = 8 * 1024 * 1024
FILLED_BYTES = 9 * 1024 * 1024
PATIENCE_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MillpondCluster]:
    """Three nodes with Kafka's own time-outs and two log directories each."""
    made = MillpondCluster(tmp_path / "cluster", properties={"offsets.topic.num.partitions": "3"})
    for node in made.nodes.values():
        node.properties["log.dirs"] = f"{node.data},{second(node)}"
    with made:
        yield made


def second(node: ClusterNode) -> Path:
    return node.directory / "data2"


def lying_in(directory: Path) -> set[int]:
    return {int(one.name.rpartition("-")[2]) for one in directory.glob(f"{TOPIC}-*")}


def limit_files(node: ClusterNode) -> None:
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (FILE_BYTES, hard))


@pytest.mark.parametrize("role", ["leader", "controller"])
def test_partitions_in_the_other_directory_go_on(cluster: MillpondCluster, role: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    for answer in admin.create_topics([topic]).values():
        answer.result(PATIENCE_S)
    cluster.wait_in_sync()
    number = cluster.controller()
    if role == "leader":
        number = next(one for one in cluster.nodes if one != number)
    sick = cluster.nodes[number]
    pid = sick.pid
    well, lost = lying_in(sick.data), lying_in(second(sick))
    assert well | lost == set(range(PARTITIONS))
    assert well
    assert lost
    fill(cluster.bootstrap, lost)
    cluster.wait_in_sync()
    led = {n for n in well if cluster.leader_of(TopicPartition(TOPIC, n)) == number}
    writers = [Writer(f"w{n}", cluster.bootstrap) for n in range(2)]
    try:
        wait_until(
            lambda: all(writer.last_s[n] for writer in writers for n in range(PARTITIONS)),
            timeout_s=PATIENCE_S,
            what="everybody writes",
        )
        limit_files(sick)
        wait_until(
            lambda: "is offline" in sick.output, timeout_s=PATIENCE_S, what="the disk's failure"
        )
        failed = time.perf_counter()
        wait_until(
            lambda: all(writer.last_s[n] > failed for writer in writers for n in range(PARTITIONS)),
            timeout_s=PATIENCE_S,
            what="every partition takes writes while the directory fails",
        )
        wait_until(
            lambda: is_out(cluster, sick, lost), timeout_s=PATIENCE_S, what="others lead them"
        )
        # The node serves on with what lies in its other directory.
        found = described(cluster, sick)
        for n in well:
            assert number in found[n][1]
        assert {n for n in well if found[n][0] == number} == led
        with BlockingAdmin(sick.bootstrap) as client:
            told = client.describe_log_dirs(nodes=[number], offline=True)
        assert {one.path: one.is_offline for one in told} == {
            str(sick.data.resolve()): False,
            str(second(sick).resolve()): True,
        }
        make_room(sick)
        wait_until(
            lambda: "takes writes again" in sick.output, timeout_s=PATIENCE_S, what="its return"
        )
        cluster.wait_in_sync()
        back = time.perf_counter()
        wait_until(
            lambda: all(writer.last_s[n] > back for writer in writers for n in range(PARTITIONS)),
            timeout_s=PATIENCE_S,
            what="writes go on",
        )
    finally:
        for writer in writers:
            writer.stop()
    for name, group in (("other directory", well), ("failed directory", lost)):
        waits = [f"{max(one.longest_s[n] for n in group):.2f} s" for one in writers]
        print(f"longest waits, partitions of the {name}: {waits}")
    assert sick.pid == pid
    assert sick.is_running()
    for writer in writers:
        assert writer.errors == []
    for n in range(PARTITIONS):
        stored = Counter(
            value.decode().strip() for _offset, value in read_back(cluster.bootstrap, TOPIC, n)
        )
        assert [value for value, times in stored.items() if times > 1 and value[0] == "w"] == []
        for writer in writers:
            assert set(writer.acknowledged[n]) <= stored.keys()


def fill(bootstrap: str, partitions: set[int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for n in partitions:
        for _ in range(FILLED_BYTES // 100_000 + 1):
            producer.produce(TOPIC, b"f" * 100_000, partition=n)
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def described(cluster: MillpondCluster, sick: ClusterNode) -> dict[int, tuple[int, list[int]]]:
    """Leader and in-sync replicas of each partition, as the other nodes tell."""
    others = ",".join(node.bootstrap for node in cluster.nodes.values() if node is not sick)
    admin = AdminClient({"bootstrap.servers": others, "log_level": 0})
    found = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    return {n: (one.leader, one.isrs) for n, one in found.items()}


def is_out(cluster: MillpondCluster, sick: ClusterNode, partitions: set[int]) -> bool:
    found = described(cluster, sick)
    return all(found[n][0] != sick.node_id and sick.node_id not in found[n][1] for n in partitions)
