"""A node that was started alone becomes three, by `millpond node add`, while librdkafka writes to it.

The first is killed in the end: what it acknowledged when it was alone is there all the same.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.base.ids import TopicPartition
from millpond.client import BlockingAdmin
from tests.chaos.history import judge
from tests.chaos.workload import ChaosWriter
from tests.crash.reading import read_back
from tests.support.processes import net_spaces
from tests.support.processes.broker_process import ROOT
from tests.support.processes.cluster_processes import (
    ClusterNode,
    controller_of,
    leader_of,
    wait_in_sync,
)
from tests.support.processes.net_spaces import NetSpaces
from tests.support.processes.ports import wait_until

pytestmark = pytest.mark.chaos

TOPIC = "grown"
PLACE = TopicPartition(TOPIC, 0)
PROPERTIES = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[dict[int, ClusterNode]]:
    """Three nodes that are not started; the first knows of no other."""
    with ExitStack() as stack:
        net = None
        if net_spaces.missing_reason() is None:
            net = stack.enter_context(NetSpaces([1, 2, 3]))
        found = {one: ClusterNode(one, tmp_path / f"node-{one}", net=net) for one in (1, 2, 3)}
        for number, node in found.items():
            node.properties = {"node.id": str(number), **PROPERTIES}
            stack.callback(_end, node)
        yield found


def _end(node: ClusterNode) -> None:
    if node.is_running():
        node.kill()


@pytest.mark.timeout(240)
def test_one_node_becomes_three_and_the_first_may_go(nodes: dict[int, ClusterNode]) -> None:
    everywhere = ",".join(node.bootstrap for node in nodes.values())
    first = nodes[1].start().bootstrap
    admin = AdminClient({"bootstrap.servers": first, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 1)], operation_timeout=30)[TOPIC].result(40)
    writer = ChaosWriter("w", everywhere, TOPIC, 0)
    writer.start()
    add_the_others(nodes)
    factor = ("--replication-factor", "3")
    millpond("partition", "reassign", TOPIC, "--to", "1,2,3", *factor, at=first)
    wait_in_sync(everywhere, 60)
    with BlockingAdmin(everywhere) as asked:
        assert {voter.node_id for voter in asked.describe_quorum().voters} == {1, 2, 3}
        assert set(asked.describe_topic(TOPIC).partitions[0].in_sync) == {1, 2, 3}
    writer.allow()

    nodes[1].kill()
    others = ",".join(nodes[number].bootstrap for number in (2, 3))
    wait_until(
        lambda: controller_of(others) in {2, 3} and leader_of(others, PLACE) in {2, 3},
        timeout_s=60,
        what="others lead",
    )
    # By its settings it is still alone; what it agreed on with the others counts.
    nodes[1].start()
    wait_in_sync(everywhere, 60)
    writer.stop()
    assert writer.fatal is None, writer.fatal
    assert writer.given_up == []
    stored = [(at, value.decode()) for at, value in read_back(everywhere, TOPIC, 0)]
    verdict = judge(writer.texts(), stored, writer="w")
    print(f"growth: {verdict.acknowledged} records acknowledged, lost={len(verdict.lost)}")
    assert verdict.is_good, verdict


@pytest.mark.timeout(240)
def test_a_node_whose_disk_was_replaced_gets_its_vote_again(nodes: dict[int, ClusterNode]) -> None:
    """What docs/cluster.md says to do, and afterwards any one node may be lost."""
    first = nodes[1].start().bootstrap
    add_the_others(nodes)
    admin = AdminClient({"bootstrap.servers": first, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 3)], operation_timeout=30)[TOPIC].result(40)
    with BlockingAdmin(first) as asked:
        [old] = [one.directory_id for one in asked.describe_quorum().voters if one.node_id == 3]

    nodes[3].kill()
    shutil.rmtree(nodes[3].data)
    nodes[3].start()
    wait_until(lambda: "voter joining" in status(first), timeout_s=60, what="voter joining")
    millpond("node", "add", "3", at=first)
    wait_until(lambda: status(first) == "", timeout_s=60, what="a healthy cluster")
    with BlockingAdmin(first) as asked:
        [new] = [one.directory_id for one in asked.describe_quorum().voters if one.node_id == 3]
    assert new != old

    nodes[2].kill()
    left = ",".join(nodes[number].bootstrap for number in (1, 3))
    wait_until(lambda: controller_of(left) in {1, 3}, timeout_s=60, what="a leader of the quorum")
    admin = AdminClient({"bootstrap.servers": left, "log_level": 0})
    admin.create_topics([NewTopic("after", 1, 2)], operation_timeout=30)["after"].result(40)


def add_the_others(nodes: dict[int, ClusterNode]) -> None:
    """Start the second and the third node and make them voters of the first node's cluster."""
    first = nodes[1].bootstrap
    with BlockingAdmin(first) as asked:
        cluster_id = asked.describe_cluster().cluster_id
    assert cluster_id is not None
    for number in (2, 3):
        nodes[number].properties |= {
            "cluster.id": cluster_id,
            "controller.quorum.voters": f"1@{first}",
            "cluster.secret.file": str(nodes[1].data / "cluster.secret"),
        }
        nodes[number].start()
        millpond("node", "add", str(number), at=first)


def status(at: str) -> str:
    """What `millpond cluster status` calls grave; nothing if the cluster is healthy."""
    done = run_millpond("cluster", "status", at=at)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def millpond(*arguments: str, at: str) -> None:
    """A command that succeeds."""
    done = run_millpond(*arguments, at=at)
    assert done.returncode == 0, done.stdout + done.stderr


def run_millpond(*arguments: str, at: str) -> subprocess.CompletedProcess[str]:
    """A command."""
    return subprocess.run(
        [sys.executable, "-m", "millpond", *arguments, "-b", at],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
