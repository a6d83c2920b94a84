"""A node leaves a real cluster, by `millpond node drain` and `node remove`, while librdkafka writes to it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from millpond.cli import cli
from tests.chaos.workload import ChaosWriter
from tests.interop.conftest import PROPERTIES, require_java
from tests.interop.test_cluster_tools import Tools, check, create
from tests.support.processes.cluster_processes import MillpondCluster, wait_in_sync
from tests.support.processes.java_host import JavaHost

pytestmark = pytest.mark.interop

LEAVER = 4
PLACES = (0, 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MillpondCluster]:
    """Four nodes that all vote."""
    require_java()
    with MillpondCluster(tmp_path / "cluster", nodes=4, properties=PROPERTIES) as millpond:
        yield millpond


@pytest.mark.timeout(180)
def test_a_node_leaves_while_it_is_written_to(
    cluster: MillpondCluster, java_host: JavaHost, topic: str
) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(cli, [*arguments, "--bootstrap", stay])
        assert result.exit_code == 0, result.output
        return result.stdout

    stay = ",".join(one.bootstrap for one in cluster.nodes.values() if one.node_id != LEAVER)
    tools = Tools(java_host, stay)
    create(tools, topic, "--replica-assignment", f"{LEAVER}:1:2,1:{LEAVER}:3")
    wait_in_sync(stay)
    writers = [ChaosWriter(f"w{number}", stay, topic, number) for number in PLACES]
    for writer in writers:
        writer.start()
    run("node", "drain", str(LEAVER))
    described = json.loads(run("partition", "list", topic, "--json"))
    assert all(LEAVER not in row["replicas"] for row in described)
    assert all(len(row["replicas"]) == 3 for row in described)
    cluster.stop_node(LEAVER)
    run("node", "remove", str(LEAVER))
    said = tools.say("kafka-metadata-quorum", "describe", "--status")
    (voters,) = re.findall(r"^CurrentVoters: +(.*)$", said, re.MULTILINE)
    assert {int(number) for number in re.findall(r'"id": (\d+)', voters)} == {1, 2, 3}
    status = json.loads(run("cluster", "status", "--json"))
    assert status["healthy"] is True
    assert len(status["nodes"]) == 3
    for writer in writers:
        writer.stop()
        assert writer.fatal is None
        assert writer.given_up == []
        check(writer)
