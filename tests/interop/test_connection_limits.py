"""Limits of connections are altered while the broker runs, as Kafka's are, and hold at every door."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.kafka.wire_client import WireClient
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.ports import free_port

BROKER = 4
NODE, CLUSTER = "1", ""
SET, DELETE = 0, 1
PATIENCE_S = 60

# What a client says first at each door, after which the broker says something.
HELLO = {
    "kafka": bytes.fromhex("0000000e 0012 0000 00000007 0004") + b"wait",
    "amqp": b"AMQP\x00\x00\x09\x01",
    "management": b"GET /api/overview HTTP/1.1\r\nHost: x\r\n\r\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """A broker's doors, and the one connection that an administrator keeps."""

    ports: dict[str, int]
    admin: WireClient

    def alter(self, whom: str, **settings: str | None) -> None:
        """Set settings (underscores for dots), or delete those that are None."""
        changes = [
            AlterableConfig(name.replace("_", "."), DELETE if value is None else SET, value)
            for name, value in settings.items()
        ]
        resource = AlterConfigsResource(BROKER, whom, changes)
        request = IncrementalAlterConfigsRequest([resource], validate_only=False)
        (answer,) = self.admin.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        assert answer.error_code == 0, answer

    def knock(self, door: str) -> socket.socket:
        """A connection on which the first word is said."""
        link = socket.create_connection(("127.0.0.1", self.ports[door]), timeout=PATIENCE_S)
        with suppress(ConnectionError):  # it may be closed already
            link.sendall(HELLO[door])
        return link

    def is_let_in(self, door: str) -> bool:
        with self.knock(door) as link:
            return answers(link)


def answers(link: socket.socket) -> bool:
    """Whether the broker says something; False if it closes the connection instead."""
    try:
        return bool(link.recv(1))
    except ConnectionError:
        return False


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    process = MillpondProcess(tmp_path)
    ports = {"kafka": process.port, "amqp": free_port(), "management": free_port()}
    process.properties["listeners"] = ",".join(
        f"{name}://127.0.0.1:{ports[door]}"
        for name, door in (("PLAINTEXT", "kafka"), ("AMQP", "amqp"), ("MANAGEMENT", "management"))
    )
    with process, WireClient(process.port) as admin:
        yield Doors(ports=ports, admin=admin)


def test_limits_hold_from_the_next_connection_on(doors: Doors) -> None:
    for whom in (NODE, CLUSTER):
        # The administrator's is one.
        for settings in (
            {"max_connections": "1"},
            {"max_connections_per_ip": "1"},
            {"max_connections_per_ip_overrides": "127.0.0.1:1"},
        ):
            doors.alter(whom, **settings)
            assert not any(map(doors.is_let_in, HELLO)), settings
            doors.alter(
                whom, **dict.fromkeys(settings, "127.0.0.1:50" if "127" in str(settings) else "50")
            )
            assert all(map(doors.is_let_in, HELLO)), settings
            doors.alter(whom, **dict.fromkeys(settings, None))
            assert all(map(doors.is_let_in, HELLO)), settings


def test_the_nodes_own_limit_counts_before_the_clusters(doors: Doors) -> None:
    doors.alter(CLUSTER, max_connections="1")
    doors.alter(NODE, max_connections="50")
    assert all(map(doors.is_let_in, HELLO))
    doors.alter(NODE, max_connections=None)
    assert not any(map(doors.is_let_in, HELLO))


def test_connections_beyond_the_rate_are_closed_unserved(doors: Doors) -> None:
    doors.alter(NODE, max_connection_creation_rate="1")
    # More than may come at once.
    links = [doors.knock("kafka") for _ in range(40)]
    assert not any(map(doors.is_let_in, HELLO))
    doors.alter(NODE, max_connection_creation_rate="1000000")
    assert all(map(doors.is_let_in, HELLO))
    for link in links:
        link.close()


def test_what_would_shut_everybody_out_is_refused(doors: Doors) -> None:
    for name, value in (
        ("max.connections", "0"),
        ("max.connections", "-1"),
        ("max.connections.per.ip", "0"),
        ("max.connection.creation.rate", "0"),
        ("max.connections.per.ip.overrides", "127.0.0.1"),
        ("max.connections.per.ip.overrides", "127.0.0.1:x"),
    ):
        for whom in (NODE, CLUSTER):
            resource = AlterConfigsResource(BROKER, whom, [AlterableConfig(name, SET, value)])
            request = IncrementalAlterConfigsRequest([resource], validate_only=False)
            (answer,) = doors.admin.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
            assert answer.error_code == 42, (name, value)
