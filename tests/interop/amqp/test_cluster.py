"""pika at three real nodes: declared at one, published at another, consumed at all; the host is killed."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from millpond.base.ids import TopicPartition
from tests.support.processes.cluster_processes import MillpondCluster
from tests.support.processes.ports import free_port, wait_until

PERSISTENT = pika.BasicProperties(delivery_mode=2)
QUEUE = "work"
BEFORE, ALL = 60, 160
PATIENCE_S = 60


class Nodes:
    """A cluster whose every node speaks AMQP."""

    def __init__(self, directory: Path) -> None:
        self.cluster = MillpondCluster(directory)
        self.ports: dict[int, int] = {}
        for node_id, node in self.cluster.nodes.items():
            self.ports[node_id] = free_port()
            kafka = f"PLAINTEXT://{node.bootstrap}"
            node.properties["listeners"] = f"{kafka},AMQP://127.0.0.1:{self.ports[node_id]}"

    def connect(self, *nodes: int) -> pika.BlockingConnection:
        """A connection to the first of these that answers."""
        found: list[pika.BlockingConnection] = []

        def is_connected() -> bool:
            for node in nodes:
                with contextlib.suppress(pika.exceptions.AMQPError, OSError):
                    where = pika.ConnectionParameters(
                        "127.0.0.1", self.ports[node], heartbeat=20, socket_timeout=5
                    )
                    found.append(pika.BlockingConnection(where))
                    return True
            return False

        wait_until(is_connected, timeout_s=PATIENCE_S, what=f"AMQP at nodes {nodes}", poll_s=0.1)
        return found[0]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    found = Nodes(tmp_path)
    with found.cluster:
        yield found


class Publisher(threading.Thread):
    """Publishes one message after the other, and knows which were confirmed."""

    def __init__(self, nodes: Nodes, *at: int) -> None:
        super().__init__(daemon=True)
        self._nodes = nodes
        self._at = at
        self.confirmed: list[bytes] = []
        self.refused = 0

    def run(self) -> None:
        with self._nodes.connect(*self._at) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while len(self.confirmed) < ALL:
                body = b"%d" % len(self.confirmed)
                try:
                    channel.basic_publish("", QUEUE, body, PERSISTENT, mandatory=True)
                except pika.exceptions.NackError:
                    self.refused += 1
                else:
                    self.confirmed.append(body)


class Reader(threading.Thread):
    """Takes and acknowledges messages; when its node is gone it goes to the next."""

    def __init__(self, nodes: Nodes, *at: int) -> None:
        super().__init__(daemon=True)
        self._nodes = nodes
        self._at = at
        self.taken: list[bytes] = []
        self.connections = 0
        self.is_enough = threading.Event()

    def run(self) -> None:
        while not self.is_enough.is_set():
            with contextlib.suppress(pika.exceptions.AMQPError):
                self._read()

    def _read(self) -> None:
        with self._nodes.connect(*self._at) as connection:
            self.connections += 1
            channel = connection.channel()
            channel.basic_qos(prefetch_count=20)
            for method, _properties, body in channel.consume(QUEUE, inactivity_timeout=0.2):
                if self.is_enough.is_set():
                    return
                if method is not None:
                    self.taken.append(body)
                    channel.basic_ack(method.delivery_tag)


def test_nothing_that_was_confirmed_is_lost_with_the_host_of_its_queue(nodes: Nodes) -> None:
    with nodes.connect(1) as connection:
        connection.channel().queue_declare(QUEUE, durable=True)
    assert nodes.cluster.leader_of(TopicPartition(QUEUE, 0)) == 1

    publisher = Publisher(nodes, 2)
    stays, moves = Reader(nodes, 3), Reader(nodes, 1, 2)
    for thread in (publisher, stays, moves):
        thread.start()
    wait_until(
        lambda: len(publisher.confirmed) >= BEFORE and len(moves.taken) > 0,
        timeout_s=PATIENCE_S,
        what=f"{BEFORE} messages are confirmed",
    )
    nodes.cluster.nodes[1].kill()

    publisher.join(PATIENCE_S)
    assert len(publisher.confirmed) == ALL, f"{publisher.refused} were refused"
    wait_until(
        lambda: set(publisher.confirmed) <= {*stays.taken, *moves.taken},
        timeout_s=PATIENCE_S,
        what="everything that was confirmed has come",
    )
    for reader in (stays, moves):
        reader.is_enough.set()
        reader.join(PATIENCE_S)
    print(
        f"{ALL} confirmed, {publisher.refused} refused and published again, "
        f"{len(stays.taken) + len(moves.taken)} delivered"
    )
    # The one whose node was killed went on at another; the other one never lost its connection.
    assert (stays.connections, moves.connections) == (1, 2)
