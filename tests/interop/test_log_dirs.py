"""Nodes with two log directories each, as Kafka's own tools see them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millpond.client import BlockingAdmin, NewTopic
from tests.interop.conftest import PROPERTIES, require_java
from tests.support.processes.cluster_processes import ClusterNode, MillpondCluster
from tests.support.processes.java_host import JavaHost

PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MillpondCluster]:
    """Two nodes."""
    require_java()
    directory = tmp_path_factory.mktemp("cluster")
    made = MillpondCluster(directory, nodes=2, properties=PROPERTIES)
    for node in made.nodes.values():
        node.properties["log.dirs"] = f"{node.data},{second(node)}"
    with made:
        with BlockingAdmin(made.bootstrap) as admin:
            admin.create_topics([NewTopic(name="t", partitions=PARTITIONS, replication_factor=2)])
        made.wait_in_sync()
        yield made


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaHost]:
    host = JavaHost(tmp_path_factory.mktemp("java") / "java.log")
    yield host
    host.close()


def second(node: ClusterNode) -> Path:
    return node.directory / "data2"


def lying_in(directory: Path) -> set[str]:
    return {one.name for one in directory.glob("t-*")}


def described(java: JavaHost, cluster: MillpondCluster) -> dict[int, dict[Path, Any]]:
    shown = java.tool(
        "kafka-log-dirs",
        *("--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", "t"),
    ).check()
    brokers = json.loads(shown.out.splitlines()[-1])["brokers"]
    return {
        broker["broker"]: {Path(one["logDir"]): one for one in broker["logDirs"]}
        for broker in brokers
    }


def test_every_directory_is_described(java: JavaHost, cluster: MillpondCluster) -> None:
    found = described(java, cluster)
    assert set(found) == {1, 2}
    for number, node in cluster.nodes.items():
        assert set(found[number]) == {node.data.resolve(), second(node).resolve()}
        for path, one in found[number].items():
            assert one["error"] is None
            names = {partition["partition"] for partition in one["partitions"]}
            assert names == lying_in(path)
            assert len(names) == PARTITIONS // 2
            assert not any(partition["isFuture"] for partition in one["partitions"])


def test_a_reassignment_may_name_the_directories(
    java: JavaHost, cluster: MillpondCluster, tmp_path: Path
) -> None:
    node = cluster.nodes[2]
    here = next(path for path in (node.data, second(node)) if "t-0" in lying_in(path)).resolve()
    other = (second(node) if here == node.data.resolve() else node.data).resolve()
    plan = tmp_path / "plan.json"
    reassign = (
        "kafka-reassign-partitions",
        *("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan)),
    )

    def write(*directories: str) -> None:
        one = {"topic": "t", "partition": 0, "replicas": [2], "log_dirs": list(directories)}
        plan.write_text(json.dumps({"version": 1, "partitions": [one]}))

    write(str(here))
    said = java.tool(*reassign, "--execute").check().out
    assert "Successfully started" in said
    verified = java.tool(*reassign, "--verify").check().out
    assert "Reassignment of partition t-0 is completed." in verified
    assert "Reassignment of replica t-0-2 completed successfully." in verified
    # To another directory it is not moved, and the tool says so.
    write(str(other))
    refused = java.tool(*reassign, "--execute")
    assert "UnsupportedVersionException" in refused.out + refused.err
    assert "t-0" in lying_in(here)
    assert "t-0" not in lying_in(other)
