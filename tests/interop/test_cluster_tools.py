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
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.base.ids import TopicPartition
from millpond.cli import cli
from millpond.client import BlockingAdmin
from tests.chaos.history import judge
from tests.chaos.workload import ChaosWriter
from tests.crash.reading import read_back
from tests.interop.conftest import PROPERTIES, require_java
from tests.support.processes.cluster_processes import (
    MillpondCluster,
    controller_of,
    leader_of,
    wait_in_sync,
)
from tests.support.processes.java_host import JavaHost
from tests.support.processes.kafka_cluster import KafkaCluster
from tests.support.processes.ports import wait_until

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
    properties = {
        **PROPERTIES,
        "min.insync.replicas": "2",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    if kind == "kafka":
        with KafkaCluster(directory, properties=properties) as kafka:
            yield kafka
    else:
        millpond = MillpondCluster(directory, properties=properties)
        for node in millpond.nodes.values():
            node.properties["broker.rack"] = f"rack-{node.node_id}"
        with millpond:
            yield millpond


class Tools:
    """Kafka's tools, told where the cluster is."""

    def __init__(self, host: JavaHost, bootstrap: str) -> None:
        self.host = host
        self.bootstrap = bootstrap

    def say(self, name: str, *args: str) -> str:
        """What a tool prints; it must end well."""
        done = self.host.tool(name, "--bootstrap-server", self.bootstrap, *args, timeout_s=120)
        return done.check().out

    def refuse(self, name: str, *args: str) -> str:
        """What a tool prints when it must not end well."""
        done = self.host.tool(name, "--bootstrap-server", self.bootstrap, *args, timeout_s=120)
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


def test_an_unclean_election_when_nobody_in_sync_is_left(
    tools: Tools, topic: str, cluster: MillpondCluster | KafkaCluster
) -> None:
    create(tools, topic, "--replica-assignment", "2:3", "--config", "min.insync.replicas=1")
    place = TopicPartition(topic, 0)
    wait_in_sync(tools.bootstrap)
    cluster.stop_node(3)
    produce(tools.bootstrap, topic, b"only on node 2")
    cluster.nodes[2].kill()
    cluster.start_node(3)
    up = Tools(tools.host, ",".join(cluster.nodes[node].bootstrap for node in (1, 3)))
    settles("nobody leads it", lambda: leader_of(up.bootstrap, place) == -1)
    one = ("--topic", topic, "--partition", "0")
    refused = up.refuse("kafka-leader-election", "--election-type", "preferred", *one)
    assert "PreferredLeaderNotAvailableException" in refused
    said = up.say("kafka-leader-election", "--election-type", "unclean", *one)
    assert "Successfully completed leader election (UNCLEAN)" in said
    settles("3 leads it", lambda: leader_of(up.bootstrap, place) == 3)
    produce(up.bootstrap, topic, b"instead")
    cluster.start_node(2)
    wait_in_sync(tools.bootstrap)
    assert [value for _, value in read_back(tools.bootstrap, topic, 0)] == [b"instead"]
    again = tools.say("kafka-leader-election", "--election-type", "unclean", *one)
    assert "Valid replica already elected" in again


def test_a_vote_is_taken_and_given_back(
    tools: Tools, cluster: MillpondCluster | KafkaCluster, tmp_path: Path
) -> None:
    if isinstance(cluster, KafkaCluster):
        pytest.skip("Kafka's voters cannot change where controller.quorum.voters names them")
    node = cluster.nodes[next(one for one in (3, 2) if one != cluster.controller())]
    stored = (node.data / "meta.properties").read_text()
    (directory,) = re.findall(r"^directory\.id=(.+)$", stored, re.MULTILINE)
    wait_in_sync(tools.bootstrap)

    def voters() -> set[int]:
        said = tools.say("kafka-metadata-quorum", "describe", "--status")
        (listed,) = re.findall(r"^CurrentVoters: +(.*)$", said, re.MULTILINE)
        return {int(number) for number in re.findall(r'"id": (\d+)', listed)}

    whom = ("--controller-id", str(node.node_id), "--controller-directory-id", directory)
    said = tools.say("kafka-metadata-quorum", "remove-controller", *whom)
    assert f"KRaft controller {node.node_id} with directory id {directory}" in said
    assert voters() == NODES - {node.node_id}
    # The tool reads who it is that gets a vote from the node's own files, as they are for Kafka.
    settings = tmp_path / "controller.properties"
    settings.write_text(
        f"process.roles=broker,controller\nnode.id={node.node_id}\nlog.dirs={node.data}\n"
        f"listeners=PLAINTEXT://{node.bootstrap}\ncontroller.listener.names=PLAINTEXT\n"
    )
    said = tools.say("kafka-metadata-quorum", "--command-config", str(settings), "add-controller")
    assert f"Added controller {node.node_id} with directory id {directory}" in said
    assert voters() == NODES
    wait_in_sync(tools.bootstrap)


def test_librdkafka_reads_from_the_replica_in_its_rack(
    tools: Tools, topic: str, cluster: MillpondCluster | KafkaCluster
) -> None:
    if isinstance(cluster, KafkaCluster):
        pytest.skip("these nodes of Kafka are in no racks")
    create(tools, topic, "--replica-assignment", "1:2:3")
    wait_in_sync(tools.bootstrap)
    places: list[tuple[int, int]] = []

    def on_stats(text: str) -> None:
        seen = json.loads(text)["topics"].get(topic, {}).get("partitions", {}).get("0")
        if seen is not None:
            places.append((seen["leader"], seen["broker"]))

    consumer = Consumer(
        {
            "bootstrap.servers": tools.bootstrap,
            "group.id": topic,
            "client.rack": "rack-3",
            "auto.offset.reset": "earliest",
            "statistics.interval.ms": 100,
            "stats_cb": on_stats,
        }
    )
    consumer.assign([Place(topic, 0, 0)])
    try:
        settles(
            "the reader has gone from the leader to its rack",
            lambda: consumer.poll(0.1) is None and places[-1:] == [(1, 3)],
        )
        for number in range(5):
            produce(tools.bootstrap, topic, b"%d" % number)
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert message.value() == b"%d" % number
        count = len(places)
        settles("it says again where", lambda: bool(consumer.poll(0.1) or len(places) > count))
        assert places[-1] == (1, 3)
    finally:
        consumer.close()


def test_java_reads_from_the_replica_in_its_rack(
    java_host: JavaHost, tools: Tools, topic: str, cluster: MillpondCluster | KafkaCluster
) -> None:
    if isinstance(cluster, KafkaCluster):
        pytest.skip("these nodes of Kafka are in no racks")
    create(tools, topic, "--replica-assignment", "1:2:3")
    wait_in_sync(tools.bootstrap)
    assert java_host.run(
        "Consumers.rack", tools.bootstrap, topic, "consumer", "uniform", "rack-2"
    ) == ["reads from 2", "read 100, still from 2"]


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


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    """One record that all in-sync replicas have."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def check(writer: ChaosWriter) -> None:
    """Everything that was acknowledged is there, once, in order."""
    stored = [
        (offset, value.decode())
        for offset, value in read_back(writer.bootstrap, writer.topic, writer.partition)
    ]
    verdict = judge(writer.texts(), stored, writer=writer.name)
    assert verdict.is_good, verdict
