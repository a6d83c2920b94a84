"""Three nodes as Kafka's own tools and clients see them.

``MILLPOND_INTEROP_PEER=kafka`` runs the same stories against three nodes of Apache Kafka.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.base.ids import TopicPartition
from millpond.cli import cli
from millpond.client import BlockingAdmin
from tests.chaos.history import judge
from tests.chaos.workload import ChaosWriter
from tests.crash.reading import read_back
from tests.interop.conftest import PROPERTIES, require_java
from tests.support.cluster_processes import (
    MillpondCluster,
    controller_of,
    leader_of,
    wait_in_sync,
)
from tests.support.java_host import JavaHost
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ports import wait_until

TIMEOUT_S = 60
NODES = {1, 2, 3}


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MillpondCluster | KafkaCluster]:
    """Three nodes for all stories here; each leaves them running."""
    require_java()
    kind = os.environ.get("MILLPOND_INTEROP_PEER", "millpond")
    directory = tmp_path_factory.mktemp("cluster")
    properties = {**PROPERTIES, "min.insync.replicas": "2"}
    if kind == "kafka":
        with KafkaCluster(directory, properties=properties) as kafka:
            yield kafka
    else:
        with MillpondCluster(directory, properties=properties) as millpond:
            yield millpond


class Tools:
    """Kafka's tools, told where the cluster is."""

    def __init__(self, host: JavaHost, bootstrap: str) -> None:
        self._host = host
        self.bootstrap = bootstrap

    def say(self, name: str, *args: str) -> str:
        """What a tool prints; it must end well."""
        done = self._host.tool(name, "--bootstrap-server", self.bootstrap, *args, timeout_s=120)
        return done.check().out

    def refuse(self, name: str, *args: str) -> str:
        """What a tool prints when it must not end well."""
        done = self._host.tool(name, "--bootstrap-server", self.bootstrap, *args, timeout_s=120)
        assert done.code != 0, done.out
        return done.out + done.err


@pytest.fixture
def tools(java_host: JavaHost, cluster: MillpondCluster | KafkaCluster) -> Tools:
    return Tools(java_host, cluster.bootstrap)


def rows(text: str) -> list[dict[str, str]]:
    """`Topic: a  Partition: 0  Leader: 1 ...` as a table."""
    return [
        dict(re.findall(r"(\w+): ?([\w,.-]*)", line))
        for line in text.splitlines()
        if "Partition:" in line
    ]


def nodes_of(text: str) -> set[int]:
    return {int(number) for number in text.split(",") if number}


def create(tools: Tools, topic: str, *args: str) -> None:
    tools.say("kafka-topics", "--create", "--topic", topic, *args)
    # A tool asks any node, and a node may hear of a new topic a little later than the one that made it.
    for address in tools.bootstrap.split(","):
        with BlockingAdmin(address) as admin:
            wait_until(
                lambda admin=admin: topic in {one.name for one in admin.list_topics()},  # type: ignore[misc]
                timeout_s=TIMEOUT_S,
                what=f"{address} knows the topic",
            )


def settles(what: str, condition: Callable[[], bool]) -> None:
    """Any node may be asked, and each hears of what the controller has decided in its time."""
    wait_until(condition, timeout_s=TIMEOUT_S, what=what)


def test_topics_have_three_replicas_on_three_nodes(tools: Tools, topic: str) -> None:
    create(tools, topic, "--partitions", "6", "--replication-factor", "3")
    wait_in_sync(tools.bootstrap)
    described = rows(tools.say("kafka-topics", "--describe", "--topic", topic))
    assert len(described) == 6
    for row in described:
        assert nodes_of(row["Replicas"]) == NODES
        assert nodes_of(row["Isr"]) == NODES
    # Leaders are dealt out, too: each node leads two of six.
    assert sorted(row["Leader"] for row in described) == ["1", "1", "2", "2", "3", "3"]
    refused = tools.refuse(
        *("kafka-topics", "--create", "--topic", f"{topic}-4"),
        *("--partitions", "1", "--replication-factor", "4"),
    )
    assert "InvalidReplicationFactorException" in refused


def test_every_node_takes_what_is_the_controllers_to_decide(
    cluster: MillpondCluster | KafkaCluster, topic: str
) -> None:
    for node in cluster.nodes.values():
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        name = f"{topic}-by-{node.node_id}"
        new = NewTopic(name, num_partitions=1, replication_factor=3)
        admin.create_topics([new], operation_timeout=30)[name].result(TIMEOUT_S)
    wait_in_sync(cluster.bootstrap)
    admin = AdminClient({"bootstrap.servers": cluster.nodes[3].bootstrap})
    assert {f"{topic}-by-{number}" for number in NODES} <= set(admin.list_topics(timeout=30).topics)


def test_the_quorum(tools: Tools) -> None:
    status = tools.say("kafka-metadata-quorum", "describe", "--status")
    fields = dict(re.findall(r"^(\w+): +(.*)$", status, re.MULTILINE))
    assert int(fields["LeaderId"]) == controller_of(tools.bootstrap)
    assert int(fields["LeaderEpoch"]) > 0
    assert {int(number) for number in re.findall(r'"id": (\d+)', fields["CurrentVoters"])} == NODES
    lines = tools.say("kafka-metadata-quorum", "describe", "--replication").splitlines()
    states = {line.split()[0]: line.split()[-1] for line in lines[1:]}
    assert set(states) == {"1", "2", "3"}
    assert sorted(states.values()) == ["Follower", "Follower", "Leader"]


def test_partitions_move_while_they_are_written(
    tools: Tools, topic: str, tmp_path: Path, cluster: MillpondCluster | KafkaCluster
) -> None:
    create(tools, topic, "--replica-assignment", "1:2,1:2")
    writers = [ChaosWriter(f"mover-{number}", tools.bootstrap, topic, number) for number in (0, 1)]
    for writer in writers:
        writer.start()
    wait_until(
        lambda: all(len(writer.moments) > 200 for writer in writers),
        timeout_s=TIMEOUT_S,
        what="something is written",
    )
    plan = tmp_path / "plan.json"
    moves = [{"topic": topic, "partition": number, "replicas": [3, 2]} for number in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    reassign = ("kafka-reassign-partitions", "--reassignment-json-file", str(plan))
    said = tools.say(*reassign, "--execute", "--throttle", "5000000")
    assert "Successfully started" in said
    wait_until(
        lambda: "still in progress" not in tools.say(*reassign, "--verify"),
        timeout_s=TIMEOUT_S,
        what="the moves are done",
    )
    verified = tools.say(*reassign, "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "No partition reassignments found." in tools.say("kafka-reassign-partitions", "--list")
    configs = ("--describe", "--entity-type", "topics", "--entity-name", topic)
    settles("no throttle", lambda: "throttled" not in tools.say("kafka-configs", *configs))

    def replicas() -> list[set[int]]:
        described = rows(tools.say("kafka-topics", "--describe", "--topic", topic))
        return [nodes_of(row["Replicas"]) for row in described]

    settles("the partitions have moved", lambda: replicas() == [{3, 2}, {3, 2}])
    for writer in writers:
        writer.stop()
        assert writer.fatal is None
        check(writer)
    if isinstance(cluster, MillpondCluster):
        left_behind = cluster.nodes[1].data / f"{topic}-0"
        wait_until(lambda: not left_behind.exists(), timeout_s=TIMEOUT_S, what="the old copy goes")


def test_preferred_leaders_come_back_by_election(
    tools: Tools, topic: str, cluster: MillpondCluster | KafkaCluster
) -> None:
    create(tools, topic, "--replica-assignment", "2:1:3")
    place = TopicPartition(topic, 0)
    wait_in_sync(tools.bootstrap)
    assert leader_of(tools.bootstrap, place) == 2
    cluster.stop_node(2)
    wait_until(
        lambda: leader_of(tools.bootstrap, place) == 1, timeout_s=TIMEOUT_S, what="1 takes over"
    )
    unhealthy = ("kafka-topics", "--describe", "--under-replicated-partitions")
    settles("a replica is missed", lambda: topic in tools.say(*unhealthy))
    cluster.start_node(2)
    wait_in_sync(tools.bootstrap)
    assert tools.say(*unhealthy).strip() == ""
    elect = ("kafka-leader-election", "--election-type", "preferred")
    one = ("--topic", topic, "--partition", "0")
    assert "Successfully completed leader election" in tools.say(*elect, *one)
    settles("2 leads again", lambda: leader_of(tools.bootstrap, place) == 2)
    assert "Valid replica already elected" in tools.say(*elect, *one)


def test_a_rolling_restart_keeps_serving(
    cluster: MillpondCluster | KafkaCluster, tools: Tools, topic: str
) -> None:
    create(tools, topic, "--partitions", "3", "--replication-factor", "3")
    wait_in_sync(tools.bootstrap)
    writers = [
        ChaosWriter(f"rolling-{number}", tools.bootstrap, topic, number) for number in range(3)
    ]
    for writer in writers:
        writer.start()
    for node_id in sorted(NODES):
        cluster.stop_node(node_id)
        count = [len(writer.moments) for writer in writers]
        wait_until(
            lambda count=count: all(  # type: ignore[misc]
                len(writer.moments) > before for writer, before in zip(writers, count, strict=True)
            ),
            timeout_s=TIMEOUT_S,
            what=f"all partitions are served without node {node_id}",
        )
        cluster.start_node(node_id)
        wait_in_sync(tools.bootstrap)
    for writer in writers:
        writer.stop()
        assert writer.fatal is None
        assert writer.given_up == []
        check(writer)


def test_librdkafka_in_a_group_over_three_nodes(
    cluster: MillpondCluster | KafkaCluster, tools: Tools, topic: str
) -> None:
    create(tools, topic, "--partitions", "6", "--replication-factor", "3")
    producer = Producer({"bootstrap.servers": tools.bootstrap, "enable.idempotence": True})
    for number in range(3000):
        producer.produce(topic, f"{number}".encode(), partition=number % 6)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": tools.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[int] = []
    try:
        while len(found) < 3000:
            batch = consumer.consume(500, timeout=TIMEOUT_S)
            assert batch, f"only {len(found)} came"
            found.extend(int(one.value() or b"-1") for one in batch if one.error() is None)
    finally:
        consumer.close()
    assert sorted(found) == list(range(3000))


def test_java_copies_in_transactions_over_three_nodes(
    java_host: JavaHost, tools: Tools, topic: str
) -> None:
    create(tools, topic, "--partitions", "2", "--replication-factor", "3")
    create(tools, f"{topic}-copy", "--partitions", "2", "--replication-factor", "3")
    said = java_host.run(
        "Transactions.copy", tools.bootstrap, topic, f"{topic}-copy", "consumer", timeout_s=180
    )
    assert any("200" in line for line in said), said


def test_millponds_own_commands(
    cluster: MillpondCluster | KafkaCluster, tools: Tools, topic: str
) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(cli, [*arguments, "--bootstrap", tools.bootstrap])
        assert result.exit_code == 0, result.output
        return result.stdout

    create(tools, topic, "--replica-assignment", "3:1,3:2")
    wait_in_sync(tools.bootstrap)
    status = json.loads(run("cluster", "status", "--json"))
    assert status["healthy"] is True
    assert [node["state"] for node in status["nodes"]] == ["ready"] * 3
    assert status["quorum"]["leader"] == controller_of(tools.bootstrap)
    moved = run("partition", "reassign", topic, "--to", "1,2", "--throttle", "10000000")
    assert f"{topic}-0: moved to 1,2" in moved

    def replicas() -> list[list[int]]:
        described = json.loads(run("partition", "list", topic, "--json"))
        return [row["replicas"] for row in described]

    settles("the partitions have moved", lambda: replicas() == [[1, 2], [2, 1]])
    run("partition", "elect", topic)
    place = TopicPartition(topic, 1)
    settles("2 leads it", lambda: leader_of(tools.bootstrap, place) == 2)


def check(writer: ChaosWriter) -> None:
    """Everything that was acknowledged is there, once, in order."""
    stored = [
        (offset, value.decode())
        for offset, value in read_back(writer.bootstrap, writer.topic, writer.partition)
    ]
    verdict = judge(writer.texts(), stored, writer=writer.name)
    assert verdict.is_good, verdict
