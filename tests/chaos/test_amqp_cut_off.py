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
from tests.chaos.test_amqp import AmqpNodes
from tests.chaos.working_crew import working_crew
from tests.support.processes import net_spaces
from tests.support.processes.net_spaces import NetSpaces

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
    with working_crew(nodes.addresses, "two lose each other") as working:
        cluster.net.cut(host, other)
        began = time.perf_counter()
        log = cluster.nodes[other]
        passed_on = working.wait_for(
            lambda: "passes on what clients here want" in log.output,
            "a third node passes on what clients want",
        )
        all_went_on = working.wait_for_progress(
            passed_on, " while two nodes do not reach each other"
        )
        print(
            f"passed on after {passed_on - began:.1f} s, all go on after "
            f"{all_went_on - began:.1f} s; longest waits {working.longest_waits()}"
        )
        assert cluster.leader_of(PLACE) == host
        cluster.net.heal()
        healed = working.wait_for(
            lambda: "are reached straight again" in log.output, "the straight way is used again"
        )
        working.wait_for_progress(healed, " afterwards")


@pytest.mark.parametrize("role", ["host", "controller"])
def test_clients_of_a_node_that_is_cut_off_are_told_and_go_elsewhere(
    nodes: AmqpNodes, role: str
) -> None:
    cluster = nodes.cluster
    assert cluster.net is not None
    lost = cluster.leader_of(PLACE) if role == "host" else cluster.controller()
    with working_crew(nodes.addresses, f"{role} cut off") as working:
        cluster.net.isolate(lost)
        began = time.perf_counter()
        told = working.wait_for(
            lambda: "AMQP connections are closed" in cluster.nodes[lost].output,
            "clients of the node that is cut off are told",
        )
        all_went_on = working.wait_for_progress(told, " at the other nodes")
        print(
            f"told after {told - began:.1f} s, all go on after {all_went_on - began:.1f} s; "
            f"longest waits {working.longest_waits()}"
        )
        reason = r"\(320\).* cut off from the majority of its cluster"
        with pytest.raises(pika.exceptions.AMQPConnectionError, match=reason):
            nodes.connected(lost)
        cluster.net.heal()
        cluster.wait_whole()
        cluster.wait_in_sync()
        nodes.connected(lost).close()
