"""Three nodes under real faults while librdkafka and Java write and read: nothing acknowledged is lost.

Each round something is done to a node (the leader of a partition, the controller, or a follower), clients go
on meanwhile, it is mended, and the cluster must come together again. At the end every partition is read
with both clients and held against what was acknowledged, and the files of all replicas are compared.
``MILLPOND_CHAOS_SEED`` repeats a run's choices, ``MILLPOND_CHAOS_FAULTS`` makes it longer.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.base.ids import TopicPartition
from millpond.record import iter_batches
from tests.chaos.faults import MIX, Fault
from tests.chaos.history import Verdict, differing, judge, misread
from tests.chaos.workload import ChaosWriter, GroupReader, JavaWriter
from tests.crash.reading import read_back
from tests.support.processes import java_tools, net_spaces
from tests.support.processes.cluster_processes import ClusterNode, MillpondCluster
from tests.support.processes.net_spaces import NetSpaces

pytestmark = pytest.mark.chaos

FAULTS = int(os.environ.get("MILLPOND_CHAOS_FAULTS", "32"))
TOPIC = "chaos"
ROLES = ("leader", "controller", "follower")
LIBRDKAFKA_PARTITIONS = (0, 1)
JAVA_PARTITION = 2
# A round begins with some undisturbed service, so that a fault always has something to interrupt.
CALM_S = 0.5
TOGETHER_S = 60.0

# Shorter than Kafka's defaults, so that thirty faults and their recoveries fit into some minutes.
PROPERTIES = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "offsets.topic.num.partitions": "3",
}


@pytest.fixture
def chance() -> random.Random:
    """The dice of a run; the seed is printed with any failure."""
    seed = int(os.environ.get("MILLPOND_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"MILLPOND_CHAOS_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MillpondCluster]:
    """Three nodes, each in a network namespace of its own where that is possible."""
    with ExitStack() as stack:
        reason = net_spaces.missing_reason()
        net = None
        if reason is None:
            net = stack.enter_context(NetSpaces([1, 2, 3]))
        else:
            assert not os.environ.get("CI"), f"CI has no network namespaces: {reason}"
            print(f"no network namespaces ({reason}): nothing is cut in this run")
        directory = tmp_path / "cluster"
        yield stack.enter_context(MillpondCluster(directory, properties=PROPERTIES, net=net))


@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_or_doubled(
    cluster: MillpondCluster, chance: random.Random, tmp_path: Path
) -> None:
    if reason := java_tools.missing_reason():
        pytest.skip(reason)
    create_topic(cluster)
    writers = [
        ChaosWriter(f"librdkafka-{number}", cluster.bootstrap, TOPIC, number)
        for number in LIBRDKAFKA_PARTITIONS
    ]
    reader = GroupReader(cluster.bootstrap, TOPIC)
    with closing(JavaWriter(cluster.bootstrap, TOPIC, JAVA_PARTITION, tmp_path / "java")) as java:
        java.start()
        reader.start()
        for writer in writers:
            writer.start()
        gaps = live_through(cluster, writers, java, chance)
        promised = java.stop()
        for writer in writers:
            writer.stop()
        reader.stop()
        cluster.wait_in_sync(TOGETHER_S)
        logs = {JAVA_PARTITION: java.read()}
        verdicts = {JAVA_PARTITION: judge(promised, logs[JAVA_PARTITION], writer="java")}
        for writer in writers:
            assert writer.fatal is None, writer.fatal
            assert writer.given_up == []
            logs[writer.partition] = stored = [
                (offset, value.decode())
                for offset, value in read_back(cluster.bootstrap, TOPIC, writer.partition)
            ]
            verdicts[writer.partition] = judge(writer.texts(), stored, writer=writer.name)
    regressions = reader.regressions()
    cluster.stop()
    report(verdicts, gaps, reader)
    for partition, verdict in verdicts.items():
        assert verdict.is_good, f"{TOPIC}-{partition}: {verdict}"
    assert regressions == []
    assert reader.read > 0
    assert misread(reader.polls, logs) == []
    for partition in verdicts:
        files = {node.node_id: batches_of(node, partition) for node in cluster.nodes.values()}
        assert differing(files) == "", f"{TOPIC}-{partition}"


def live_through(
    cluster: MillpondCluster, writers: list[ChaosWriter], java: JavaWriter, chance: random.Random
) -> Counter[str]:
    """All the faults, one after the other; the longest gap of each kind."""
    gaps: Counter[str] = Counter()
    possible = [fault for fault in MIX if cluster.net is not None or not fault.needs_net]
    plan = deal(possible, chance)
    for number, (fault, wanted) in enumerate(plan, start=1):
        time.sleep(CALM_S)
        for writer in writers:
            writer.allow()
        role, node = victim(cluster, chance, wanted)
        began = time.perf_counter()
        acknowledged = sum(len(writer.moments) for writer in writers)
        fault.break_it(cluster, node, chance)
        time.sleep(fault.lasts_s)
        fault.mend(cluster, node)
        mended, java_mended = time.perf_counter(), java.acknowledged_bytes
        cluster.wait_whole(TOGETHER_S)
        cluster.wait_in_sync(TOGETHER_S)
        await_service(writers, mended)
        await_java(java, java_mended)
        gap = max(writer.gap_s(began) for writer in writers)
        gaps[fault.name] = max(gaps[fault.name], int(gap * 1000))
        more = sum(len(writer.moments) for writer in writers) - acknowledged
        print(
            f"fault {number}: {fault.name}, {role} {node.node_id}: {more} acknowledged meanwhile,"
            f" longest gap {gap:.1f} s, together again {time.perf_counter() - mended:.1f} s after",
            flush=True,
        )
    return gaps


def await_service(writers: list[ChaosWriter], since: float) -> None:
    """Every writer has heard an acknowledgement since then."""
    deadline = time.perf_counter() + TOGETHER_S
    while not all(writer.moments and writer.moments[-1] > since for writer in writers):
        assert all(writer.fatal is None for writer in writers), [one.fatal for one in writers]
        assert time.perf_counter() < deadline, "nothing is acknowledged any more"
        time.sleep(0.05)


def await_java(java: JavaWriter, since_bytes: int) -> None:
    """Kafka's own producer, too, has heard acknowledgements since then."""
    deadline = time.perf_counter() + TOGETHER_S
    while java.acknowledged_bytes <= since_bytes:
        assert time.perf_counter() < deadline, f"Java's producer is stuck:\n{java.state()}"
        time.sleep(0.05)


def deal(possible: Sequence[Fault], chance: random.Random) -> list[tuple[Fault, str]]:
    """Which faults strike whom, in which order: every kind strikes every role before one has its second turn.

    The first round gives each fault its first role, so a short run, too, kills who leads, who decides and
    who follows.
    """
    turns: Counter[str] = Counter()
    plan = []
    for number in range(FAULTS):
        fault = possible[number % len(possible)]
        plan.append((fault, ROLES[turns[fault.name] % len(ROLES)]))
        turns[fault.name] += 1
    chance.shuffle(plan)
    return plan


def victim(cluster: MillpondCluster, chance: random.Random, role: str) -> tuple[str, ClusterNode]:
    """Somebody with this role: who leads a partition, who leads the quorum, or somebody else."""
    place = TopicPartition(TOPIC, chance.randrange(3))
    leader, controller = cluster.leader_of(place), cluster.controller()
    if role == "leader":
        return role, cluster.nodes[leader]
    if role == "controller":
        return role, cluster.nodes[controller]
    others = [number for number in cluster.nodes if number not in {leader, controller}]
    others = others or [number for number in cluster.nodes if number != leader]
    return role, cluster.nodes[chance.choice(others)]


def create_topic(cluster: MillpondCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(TOPIC, num_partitions=3, replication_factor=3)
    admin.create_topics([new], operation_timeout=30)[TOPIC].result(40)
    cluster.wait_in_sync(TOGETHER_S)


def batches_of(node: ClusterNode, partition: int) -> list[tuple[int, int]]:
    """Offset and checksum of every batch in a replica's files."""
    found = []
    for segment in sorted((node.data / f"{TOPIC}-{partition}").glob("*.log")):
        for _, header in iter_batches(segment.read_bytes()):
            found.append((header.base_offset, header.crc))
    return found


def report(verdicts: dict[int, Verdict], gaps: Counter[str], reader: GroupReader) -> None:
    lost = sum(len(verdict.lost) for verdict in verdicts.values())
    doubled = sum(len(verdict.duplicated) for verdict in verdicts.values())
    acknowledged = sum(verdict.acknowledged for verdict in verdicts.values())
    print(
        f"chaos: {FAULTS} faults, {acknowledged} records acknowledged, lost={lost},"
        f" duplicated={doubled}, {reader.read} read by the group meanwhile,"
        f" longest gap in service {max(gaps.values()) / 1000:.1f} s"
    )
    for name, gap_ms in gaps.most_common():
        print(f"  {name}: longest gap {gap_ms / 1000:.1f} s")
