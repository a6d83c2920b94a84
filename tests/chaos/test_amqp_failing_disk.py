"""The disk of the node that hosts a queue fails and comes back while AMQP's clients publish and consume.

Every message that was confirmed is delivered, of all deliveries of one message at most one is called new, the
queue gets another host, and clients of the sick node go on: they are served by way of the new host, or are
told and go to another node. The disk fails as in ``test_failing_disk.py``.
"""

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.base.ids import TopicPartition
from tests.chaos.test_amqp import QUEUES, AmqpNodes
from tests.chaos.working_crew import working_crew
from tests.support.processes.cluster_processes import ClusterNode, leader_of

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

# What the logs hold before the fault, and how long files may be while it lasts.
FILLED_BYTES = 300_000
FILE_BYTES = 96 * 1024


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[AmqpNodes]:
    """Three nodes with Kafka's own time-outs."""
    made = AmqpNodes(tmp_path / "cluster", None, {"offsets.topic.num.partitions": "3"})
    with made.cluster:
        yield made


@pytest.mark.parametrize("what_fails", ["queues", "everything"])
def test_a_hosts_disk_fails_for_a_while(nodes: AmqpNodes, what_fails: str) -> None:
    nodes.add_user()
    nodes.declare()
    fill_queues(nodes)
    if what_fails == "everything":
        fill_metadata(nodes)
    cluster = nodes.cluster
    cluster.wait_in_sync()
    place = TopicPartition("orders", 0)
    sick = cluster.nodes[cluster.leader_of(place)]
    pid = sick.pid
    others = ",".join(node.bootstrap for node in cluster.nodes.values() if node is not sick)
    with working_crew(nodes.addresses, what_fails) as working:
        began = time.perf_counter()
        limit(sick, FILE_BYTES)
        failed = working.wait_for(lambda: "is offline" in sick.output, "the disk's failure")
        moved = working.wait_for(
            lambda: leader_of(others, place) not in {-1, sick.node_id},
            "another node hosts the queue",
        )
        all_went_on = working.wait_for_progress(moved, " while the disk fails")
        print(
            f"offline after {failed - began:.1f} s, another host after {moved - began:.1f} s, all go "
            f"on after {all_went_on - began:.1f} s; longest waits {working.longest_waits()}"
        )
        limit(sick, None)
        working.wait_for(lambda: "takes writes again" in sick.output, "its return")
        cluster.wait_in_sync()
        working.wait_for_progress(time.perf_counter(), " afterwards")
    assert sick.pid == pid
    assert sick.is_running()


def limit(node: ClusterNode, file_bytes: int | None) -> None:
    """No file of a node may grow past a length, or all may again."""
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    soft = hard if file_bytes is None else file_bytes
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (soft, hard))


def fill_queues(nodes: AmqpNodes) -> None:
    """Make the logs of the queues longer than files may be."""
    with nodes.connected(1) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in QUEUES:
            for _ in range(FILLED_BYTES // 10_000):
                channel.basic_publish("", queue, b"f" * 10_000)
            channel.queue_purge(queue)


def fill_metadata(nodes: AmqpNodes) -> None:
    """Make the log of the metadata longer than files may be."""
    with nodes.connected(1) as connection:
        channel = connection.channel()
        for number in range(2 * FILE_BYTES // 1_000):
            arguments = {"note": "f" * 1_000}
            channel.exchange_declare(f"filling-{number % 4}", arguments=arguments)
            channel.exchange_delete(f"filling-{number % 4}")
