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
from tests.chaos.amqp_crew import Book, Publisher, Reader
from tests.chaos.test_amqp import QUEUES, AmqpNodes, crew, end
from tests.support.cluster_processes import ClusterNode, leader_of
from tests.support.ports import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

# What the logs hold before the fault, and how long files may be while it lasts.
FILLED_BYTES = 300_000
FILE_BYTES = 96 * 1024
PATIENCE_S = 60.0


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
    book = Book()
    publishers, readers = crew(book, nodes.addresses)
    for member in (*publishers, *readers):
        member.start()
    try:
        wait_until(
            lambda: all_go_on(publishers, readers, 0.0),
            timeout_s=PATIENCE_S,
            what="all publish and consume",
        )
        began = time.perf_counter()
        limit(sick, FILE_BYTES)
        wait_until(
            lambda: "is offline" in sick.output, timeout_s=PATIENCE_S, what="the disk's failure"
        )
        failed = time.perf_counter()
        wait_until(
            lambda: leader_of(others, place) not in {-1, sick.node_id},
            timeout_s=PATIENCE_S,
            what="another node hosts the queue",
        )
        moved = time.perf_counter()
        wait_until(
            lambda: all_go_on(publishers, readers, moved),
            timeout_s=PATIENCE_S,
            what="all publish and consume while the disk fails",
        )
        print(
            f"offline after {failed - began:.1f} s, another host after {moved - began:.1f} s, all go "
            f"on after {time.perf_counter() - began:.1f} s; longest waits {waits(publishers)}"
        )
        limit(sick, None)
        wait_until(
            lambda: "takes writes again" in sick.output, timeout_s=PATIENCE_S, what="its return"
        )
        cluster.wait_in_sync()
        back = time.perf_counter()
        wait_until(
            lambda: all_go_on(publishers, readers, back),
            timeout_s=PATIENCE_S,
            what="all publish and consume afterwards",
        )
    finally:
        end(publishers)
    wait_until(lambda: not book.lost(), timeout_s=PATIENCE_S, what="all confirmed is delivered")
    end(readers)
    print(f"{what_fails}: {book.report()}; longest waits {waits(publishers)}")
    assert sick.pid == pid
    assert sick.is_running()
    assert not book.strange()
    assert not book.falsely_new()


def waits(publishers: list[Publisher]) -> str:
    """How long each publisher was without a confirm, at most."""
    return ", ".join(f"{one.name}: {one.longest_s:.1f} s" for one in publishers)


def all_go_on(publishers: list[Publisher], readers: list[Reader], since: float) -> bool:
    confirmed = all(one.confirmed_at > since for one in publishers)
    return confirmed and all(one.delivered_at > since for one in readers)


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
