"""Ways between nodes are cut while AMQP's clients publish and consume; clients reach every node.

A node that has lost only the host of a queue reaches it by way of the third. A node that has lost both others
tells its clients, which go to another node. Waits are reported and not judged: a busy machine is slow.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pika.exceptions
import pytest

from millpond.base.ids import TopicPartition
from tests.chaos.amqp_crew import Book
from tests.chaos.test_amqp import AmqpNodes, crew, end
from tests.chaos.test_amqp_failing_disk import PATIENCE_S, all_go_on, waits
from tests.support import net_spaces
from tests.support.net_spaces import NetSpaces
from tests.support.ports import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

PLACE = TopicPartition("orders", 0)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[AmqpNodes]:
    """Three nodes with Kafka's own time-outs, whose ways can be cut."""
    if reason := net_spaces.missing_reason():
        pytest.skip(f"nothing can be cut here: {reason}")
    with ExitStack() as stack:
        net = stack.enter_context(NetSpaces([1, 2, 3]))
        made = AmqpNodes(tmp_path / "cluster", net, {"offsets.topic.num.partitions": "3"})
        stack.enter_context(made.cluster)
        made.add_user()
        made.declare()
        yield made


def test_clients_of_a_node_that_lost_the_host_go_on_by_way_of_the_third(nodes: AmqpNodes) -> None:
    cluster = nodes.cluster
    assert cluster.net is not None
    host, controller = cluster.leader_of(PLACE), cluster.controller()
    other = next(node for node in cluster.nodes if node not in {host, controller})
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
        cluster.net.cut(host, other)
        began = time.perf_counter()
        log = cluster.nodes[other]
        wait_until(
            lambda: "passes on what clients here want" in log.output,
            timeout_s=PATIENCE_S,
            what="a third node passes on what clients want",
        )
        passed_on = time.perf_counter()
        wait_until(
            lambda: all_go_on(publishers, readers, passed_on),
            timeout_s=PATIENCE_S,
            what="all publish and consume while two nodes do not reach each other",
        )
        print(
            f"passed on after {passed_on - began:.1f} s, all go on after "
            f"{time.perf_counter() - began:.1f} s; longest waits {waits(publishers)}"
        )
        assert cluster.leader_of(PLACE) == host
        cluster.net.heal()
        wait_until(
            lambda: "are reached straight again" in log.output,
            timeout_s=PATIENCE_S,
            what="the straight way is used again",
        )
        healed = time.perf_counter()
        wait_until(
            lambda: all_go_on(publishers, readers, healed),
            timeout_s=PATIENCE_S,
            what="all publish and consume afterwards",
        )
    finally:
        end(publishers)
    wait_until(lambda: not book.lost(), timeout_s=PATIENCE_S, what="all confirmed is delivered")
    end(readers)
    print(f"two lose each other: {book.report()}; longest waits {waits(publishers)}")
    assert not book.strange()
    assert not book.falsely_new()


@pytest.mark.parametrize("role", ["host", "controller"])
def test_clients_of_a_node_that_is_cut_off_are_told_and_go_elsewhere(
    nodes: AmqpNodes, role: str
) -> None:
    cluster = nodes.cluster
    assert cluster.net is not None
    lost = cluster.leader_of(PLACE) if role == "host" else cluster.controller()
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
        cluster.net.isolate(lost)
        began = time.perf_counter()
        wait_until(
            lambda: "AMQP connections are closed" in cluster.nodes[lost].output,
            timeout_s=PATIENCE_S,
            what="clients of the node that is cut off are told",
        )
        told = time.perf_counter()
        wait_until(
            lambda: all_go_on(publishers, readers, told),
            timeout_s=PATIENCE_S,
            what="all publish and consume at the other nodes",
        )
        print(
            f"told after {told - began:.1f} s, all go on after {time.perf_counter() - began:.1f} s; "
            f"longest waits {waits(publishers)}"
        )
        reason = r"\(320\).* cut off from the majority of its cluster"
        with pytest.raises(pika.exceptions.AMQPConnectionError, match=reason):
            nodes.connected(lost)
        cluster.net.heal()
        cluster.wait_whole()
        cluster.wait_in_sync()
        nodes.connected(lost).close()
    finally:
        end(publishers)
    wait_until(lambda: not book.lost(), timeout_s=PATIENCE_S, what="all confirmed is delivered")
    end(readers)
    print(f"{role} cut off: {book.report()}; longest waits {waits(publishers)}")
    assert not book.strange()
    assert not book.falsely_new()
