"""Three nodes under real faults while AMQP's clients publish with confirms and acknowledge by hand.

Two durable queues, a classic one and a quorum queue, each with copies on all nodes. The victim of a fault is
mostly the host of a queue. At the end every message that was confirmed must have been delivered, and of all
deliveries of one message at most one may have been called new. ``MILLPOND_CHAOS_SEED`` repeats a run's
choices, ``MILLPOND_CHAOS_AMQP_FAULTS`` makes it longer.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import pika
import pytest

from millpond.base.ids import TopicPartition
from tests.chaos.amqp_crew import Addresses, Book, Member, Publisher, Reader
from tests.chaos.faults import CUT_PAIR, ISOLATE, KILL, ONE_WAY, PAUSE, Fault
from tests.chaos.test_cluster import PROPERTIES, TOGETHER_S
from tests.support.processes import net_spaces
from tests.support.processes.cluster_processes import ClusterNode, MillpondCluster
from tests.support.processes.net_spaces import NetSpaces
from tests.support.processes.ports import free_port, wait_until

pytestmark = pytest.mark.chaos

FAULTS = int(os.environ.get("MILLPOND_CHAOS_AMQP_FAULTS", "9"))
QUEUES = {"work": "classic", "orders": "quorum"}
CALM_S = 0.5
# In this order, so that a short run has some of each; who it happens to is drawn.
PLAN: tuple[tuple[str, Fault], ...] = (
    ("host", KILL),
    ("host", PAUSE),
    ("host", ISOLATE),
    ("controller", KILL),
    ("host", KILL),
    ("host", ONE_WAY),
    ("controller", PAUSE),
    ("anybody", CUT_PAIR),
    ("host", KILL),
    ("anybody", KILL),
)


class AmqpNodes:
    """A cluster whose every node speaks AMQP where its clients can reach it."""

    def __init__(
        self,
        directory: Path,
        net: NetSpaces | None,
        properties: Mapping[str, str] = MappingProxyType(PROPERTIES),
    ) -> None:
        self.cluster = MillpondCluster(directory, properties=properties, net=net)
        self.addresses: dict[int, tuple[str, int]] = {}
        self._management = free_port()
        for node_id, node in self.cluster.nodes.items():
            host, port = node.host, free_port()
            self.addresses[node_id] = host, port
            node.properties["listeners"] = (
                f"PLAINTEXT://{node.bootstrap},AMQP://{host}:{port},"
                f"MANAGEMENT://127.0.0.1:{self._management + node_id}"
            )

    def add_user(self) -> None:
        """Guests may come from their own machine only, and a namespace is another one."""
        net = self.cluster.net
        prefix = [] if net is None else net.prefix(1)
        management = ["--management", f"127.0.0.1:{self._management + 1}"]
        for words in (["add", "crew", "--new-password", "secret"], ["permit", "crew"]):
            command = [*prefix, sys.executable, "-m", "millpond", "user", *words, *management]
            subprocess.run(command, check=True, timeout=60)

    def connected(self, node: int) -> pika.BlockingConnection:
        """A connection to one node."""
        host, port = self.addresses[node]
        who = pika.PlainCredentials("crew", "secret")
        return pika.BlockingConnection(pika.ConnectionParameters(host, port, credentials=who))

    def declare(self) -> None:
        for node, (name, kind) in zip((1, 2), QUEUES.items(), strict=True):
            with self.connected(node) as connection:
                arguments = {"x-queue-type": kind}
                connection.channel().queue_declare(name, durable=True, arguments=arguments)
        self.cluster.wait_in_sync(TOGETHER_S)


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("MILLPOND_CHAOS_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"MILLPOND_CHAOS_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[AmqpNodes]:
    with ExitStack() as stack:
        reason = net_spaces.missing_reason()
        net = None
        if reason is None:
            net = stack.enter_context(NetSpaces([1, 2, 3]))
        else:
            print(f"no network namespaces ({reason}): nothing is cut in this run")
        found = AmqpNodes(tmp_path / "cluster", net)
        stack.enter_context(found.cluster)
        yield found


@pytest.mark.timeout(600)
def test_nothing_confirmed_is_lost_and_nothing_seen_is_called_new(
    nodes: AmqpNodes, chance: random.Random
) -> None:
    nodes.add_user()
    nodes.declare()
    book = Book()
    publishers, readers = crew(book, nodes.addresses)
    for member in (*publishers, *readers):
        member.start()
    live_through(nodes.cluster, publishers, chance)
    end(publishers)
    wait_until(
        lambda: not book.lost(), timeout_s=TOGETHER_S, what="all that was confirmed is delivered"
    )
    end(readers)
    print(f"chaos of AMQP: {FAULTS} faults, {book.report()}")
    assert not book.strange()
    assert not book.falsely_new()
    assert len(book.confirmed) > 100 * FAULTS


def crew(book: Book, addresses: Addresses) -> tuple[list[Publisher], list[Reader]]:
    """At every node somebody who publishes to each queue, and two who read each."""
    publishers = [Publisher(book, addresses, queue, at=at) for queue in QUEUES for at in addresses]
    readers = [Reader(book, addresses, queue, at=at) for queue in QUEUES for at in addresses]
    return publishers, readers


def live_through(
    cluster: MillpondCluster, publishers: list[Publisher], chance: random.Random
) -> None:
    plan = [one for one in PLAN if cluster.net is not None or not one[1].needs_net]
    for number in range(FAULTS):
        time.sleep(CALM_S)
        role, fault = plan[number % len(plan)]
        node = victim(cluster, role, chance)
        fault.break_it(cluster, node, chance)
        time.sleep(fault.lasts_s)
        fault.mend(cluster, node)
        mended = time.perf_counter()
        cluster.wait_whole(TOGETHER_S)
        cluster.wait_in_sync(TOGETHER_S)
        wait_until(
            lambda: all(one.confirmed_at > mended for one in publishers),  # noqa: B023
            timeout_s=TOGETHER_S,
            what=f"every publisher hears confirms after {fault.name} of {role} {node.node_id}",
        )
        print(
            f"fault {number + 1}: {fault.name}, {role} {node.node_id}: all is well "
            f"{time.perf_counter() - mended:.1f} s after it was mended",
            flush=True,
        )


def victim(cluster: MillpondCluster, role: str, chance: random.Random) -> ClusterNode:
    if role == "controller":
        return cluster.nodes[cluster.controller()]
    if role == "host":
        queue = chance.choice(tuple(QUEUES))
        return cluster.nodes[cluster.leader_of(TopicPartition(queue, 0))]
    return cluster.nodes[chance.choice(tuple(cluster.nodes))]


def end(members: "list[Publisher] | list[Reader]") -> None:
    crew: list[Member] = [*members]
    for member in crew:
        member.stop()
    for member in crew:
        member.join(60)
        assert not member.is_alive(), member.name
