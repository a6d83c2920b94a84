"""What all interop tests share: one broker process for the whole run, and names of their own.

``MILLPOND_INTEROP_PEER=kafka`` runs the same tests against a real Apache Kafka, which is how a test proves
that it asks for what Kafka does and not for what Millpond happens to do.
"""

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.peers import Peer
from tests.support.processes import java_tools
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.java_host import JavaHost
from tests.support.processes.kafka_server import ApacheKafka

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is an interop test."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)
            # Real systems start beside each other on a busy machine: long, and only to end what hangs.
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
            # Clients of others leave sockets to the collector, which finds them in whatever test is running.
            for left in ("unclosed <socket", "unclosed <ssl.SSLSocket", "unclosed transport"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{left}:ResourceWarning"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """The broker under test, shared by all tests that leave it as they found it."""
    directory = tmp_path_factory.mktemp("broker")
    with start_peer(os.environ.get("MILLPOND_INTEROP_PEER", "millpond"), directory) as peer:
        yield Peer(process=peer)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A real Apache Kafka, for tests that compare with it."""
    with start_peer("kafka", tmp_path_factory.mktemp("kafka")) as peer:
        yield Peer(process=peer)


@pytest.fixture
def java() -> None:
    """Skip when Kafka's Java tools are not there."""
    require_java()


@pytest.fixture(scope="session")
def java_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaHost]:
    """One JVM for all scenarios and tools of the run."""
    require_java()
    with JavaHost(tmp_path_factory.mktemp("java") / "host.log") as host:
        yield host


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    return unique_name(request.node.name)


# For both kinds of broker: nobody waits three seconds for members that will not come, five for the next
# heartbeat, or ten until somebody looks for overdue transactions; a streams group may have short sessions.
# All else is as it comes.
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "200",
    "group.streams.min.session.timeout.ms": "2000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
}

_numbers = itertools.count(1)


def unique_name(base: str) -> str:
    """A legal topic name that starts like `base` and was not given before."""
    return f"{re.sub(r'[^a-zA-Z0-9-]+', '-', base)[:60].strip('-')}-{next(_numbers)}"


def start_peer(kind: str, directory: Path) -> MillpondProcess | ApacheKafka:
    """A process of the kind asked for, not yet started."""
    if kind == "kafka":
        require_java()
        return ApacheKafka(directory, properties=PROPERTIES)
    assert kind == "millpond", f"MILLPOND_INTEROP_PEER={kind}: millpond or kafka"
    return MillpondProcess(directory, properties=PROPERTIES)


def require_java() -> None:
    """Skip the present test when Kafka's jars or a JVM are missing."""
    reason = java_tools.missing_reason()
    if reason:
        pytest.skip(reason)
