"""A cluster of the first release is upgraded node by node while librdkafka writes and reads.

Nodes of both releases are one cluster meanwhile: they vote for each other, follow each other and hand over
to each other. Nothing that was acknowledged is lost or doubled, whoever wrote it. When all are new, the
cluster is told so; from then on the old release is not let in.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from millpond.client import BlockingAdmin
from millpond.metadata.levels import NEWEST
from tests.chaos.history import judge
from tests.chaos.test_cluster import (
    PROPERTIES,
    TOGETHER_S,
    TOPIC,
    await_service,
    create_topic,
)
from tests.chaos.workload import ChaosWriter, GroupReader
from tests.crash.reading import read_back
from tests.support.processes import java_tools, net_spaces, old_release
from tests.support.processes.broker_process import ROOT
from tests.support.processes.cluster_processes import ClusterNode, MillpondCluster
from tests.support.processes.net_spaces import NetSpaces
from tests.support.processes.ports import wait_until

pytestmark = pytest.mark.chaos

NEW = ROOT / "src"
LEVEL = "millpond.version"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The sources of the first release."""
    return old_release.unpack(old_release.FIRST_CLUSTERS, tmp_path / "old")


@pytest.fixture
def cluster(tmp_path: Path, old: Path) -> Iterator[MillpondCluster]:
    """Three nodes of the first release."""
    with ExitStack() as stack:
        net = None
        if net_spaces.missing_reason() is None:
            net = stack.enter_context(NetSpaces([1, 2, 3]))
        made = MillpondCluster(tmp_path / "cluster", properties=PROPERTIES, net=net)
        for node in made.nodes.values():
            node.source = old
        yield stack.enter_context(made)


@pytest.mark.timeout(300)
def test_a_rolling_upgrade_keeps_serving_and_loses_nothing(
    cluster: MillpondCluster, old: Path
) -> None:
    create_topic(cluster)
    assert levels_known(cluster, 1) is None, "the old nodes are not old"
    writers = [ChaosWriter(f"w{number}", cluster.bootstrap, TOPIC, number) for number in range(3)]
    reader = GroupReader(cluster.bootstrap, TOPIC)
    reader.start()
    for writer in writers:
        writer.start()
    began = time.perf_counter()
    gaps: list[tuple[str, float]] = []
    secret = ""
    # The first one is taken back once: until the level is raised an upgrade can be given up.
    for node_id, source in ((1, NEW), (1, old), (1, NEW), (2, NEW), (3, NEW)):
        way = f"node {node_id} to the {'new' if source == NEW else 'old'} release"
        gaps.append((way, replace(cluster, cluster.nodes[node_id], source, writers)))
        if node_id == 2:
            assert "node 3 does not know it" in upgrade(cluster, succeeds=False)
            secret = cluster.nodes[3].properties.pop("cluster.secret.file")
    # A node that could not prove that it is one would be shut out.
    assert "it has no cluster secret" in upgrade(cluster, succeeds=False)
    assert "this node has no cluster secret" in cluster.nodes[3].output
    cluster.nodes[3].properties["cluster.secret.file"] = secret
    gaps.append(("node 3 gets the secret", replace(cluster, cluster.nodes[3], NEW, writers)))
    assert levels_known(cluster, 1) == (0, NEWEST)
    assert f"{LEVEL}: 0 -> {NEWEST}" in upgrade(cluster)
    if java_tools.missing_reason() is None:
        kafkas_tool_agrees(cluster)
    for writer in writers:
        writer.allow()
    await_service(writers, time.perf_counter())
    for writer in writers:
        writer.stop()
    reader.stop()
    taken_s = time.perf_counter() - began
    verdicts = []
    for writer in writers:
        assert writer.fatal is None, writer.fatal
        assert writer.given_up == []
        stored = [
            (offset, value.decode())
            for offset, value in read_back(cluster.bootstrap, TOPIC, writer.partition)
        ]
        verdicts.append(judge(writer.texts(), stored, writer=writer.name))
    print(
        f"upgrade: {sum(one.acknowledged for one in verdicts)} records acknowledged,"
        f" lost={sum(len(one.lost) for one in verdicts)},"
        f" duplicated={sum(len(one.duplicated) for one in verdicts)},"
        f" {reader.read} read by the group meanwhile, in {taken_s:.1f} s"
    )
    for way, gap_s in gaps:
        print(f"  {way}: longest gap {gap_s:.2f} s")
    for verdict in verdicts:
        assert verdict.is_good, verdict
    assert reader.regressions() == []
    assert reader.read > 0
    refuses_the_old(cluster, cluster.nodes[3], old)


def replace(
    cluster: MillpondCluster, node: ClusterNode, source: Path, writers: list[ChaosWriter]
) -> float:
    """Stop a node, start it in another release, wait until all is well; the longest gap of a writer."""
    for writer in writers:
        writer.allow()
    began = time.perf_counter()
    cluster.stop_node(node.node_id)
    node.source = source
    node.start()
    cluster.wait_whole(TOGETHER_S)
    cluster.wait_in_sync(TOGETHER_S)
    await_service(writers, time.perf_counter())
    return max(writer.gap_s(began) for writer in writers)


def levels_known(cluster: MillpondCluster, node_id: int) -> tuple[int, int] | None:
    """The level in force and the highest that a node can work at; None if it has not heard of levels."""
    with BlockingAdmin(cluster.bootstrap) as admin:
        found = admin.describe_features(node_id).get(LEVEL)
    return None if found is None else (found.level, found.highest)


def upgrade(cluster: MillpondCluster, *, succeeds: bool = True) -> str:
    """What `millpond cluster upgrade` says."""
    done = subprocess.run(
        [sys.executable, "-m", "millpond", "cluster", "upgrade", "-b", cluster.bootstrap],
        env={**os.environ, "PYTHONPATH": str(NEW)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = done.stdout + done.stderr
    assert (done.returncode == 0) is succeeds, said
    return said


def kafkas_tool_agrees(cluster: MillpondCluster) -> None:
    """What Kafka's own tool sees of the features, and that it brings them to a release of Kafka's."""
    tool = ("kafka-features", "--bootstrap-server", cluster.bootstrap)
    described = java_tools.run_tool(*tool, "describe").check().out
    [line] = [line for line in described.splitlines() if f"Feature: {LEVEL}" in line]
    assert re.search(rf"FinalizedVersionLevel: {NEWEST}\b", line), line
    assert "was upgraded" in java_tools.run_tool(*tool, "upgrade", "--release-version", "4.3").out


def refuses_the_old(cluster: MillpondCluster, node: ClusterNode, old: Path) -> None:
    """A node of a release that cannot prove that it is a node is not let in, and the others say so; with the
    new release it is let in again.
    """
    cluster.stop_node(node.node_id)
    node.source = old
    before = {one: len(cluster.nodes[one].output) for one in (1, 2)}
    node.launch()
    words = "Fetch with the id of a replica is for nodes of this cluster only"
    wait_until(
        lambda: any(words in cluster.nodes[one].output[start:] for one, start in before.items()),
        timeout_s=TOGETHER_S,
        what="the old node is refused",
    )
    others = ",".join(cluster.nodes[one].bootstrap for one in (1, 2))
    with BlockingAdmin(others) as admin:
        assert {one.node_id for one in admin.describe_cluster().brokers} == {1, 2}
    node.kill()
    node.source = NEW
    node.start()
    cluster.wait_whole(TOGETHER_S)
