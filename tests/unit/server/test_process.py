"""A broker as a process of its own: how it starts, how it refuses to, how it ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from millpond.client.blocking import BlockingClient
from millpond.server.failures import ExitCode
from tests.support.processes.broker_process import ROOT, MillpondProcess
from tests.support.processes.ports import free_port, wait_until

# Processes start slowly on a busy machine; this is only to end what hangs.
pytestmark = pytest.mark.timeout(300)

STOP_SECONDS = 30.0
SECRET = "the secret of these nodes"


def run_up(
    *arguments: str,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    flags: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """`millpond up` that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, *flags, "-m", "millpond", "up", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


class TestStop:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_stops_it_cleanly_in_time(
        self, tmp_path: Path, number: signal.Signals
    ) -> None:
        with MillpondProcess(tmp_path) as broker:
            with BlockingClient(broker.bootstrap) as client:
                client.create_topic("orders")
                client.produce_batch("orders", 0, [(0, None, b"kept", ())])
            assert broker.stop(timeout_s=STOP_SECONDS, number=number) == 0

        assert (broker.data / ".kafka_cleanshutdown").exists()
        assert "stopped cleanly" in broker.output

    def test_a_node_that_still_waits_for_its_cluster_can_be_stopped(self, tmp_path: Path) -> None:
        broker = MillpondProcess(tmp_path, properties={"node.id": "1", "cluster.id": "pond"})
        others = f"2@127.0.0.1:{free_port()},3@127.0.0.1:{free_port()}"
        broker.properties["controller.quorum.voters"] = f"1@{broker.bootstrap},{others}"
        broker.properties["cluster.secret"] = SECRET
        broker.launch()
        try:
            wait_until(
                lambda: "waits for its cluster" in broker.output, timeout_s=60, what="it waits"
            )
        finally:
            code = broker.stop(timeout_s=STOP_SECONDS)

        assert code == 0
        assert "2 of the voters (nodes 1, 2, 3) must be up" in broker.output
        assert "stopping before the start is complete" in broker.output
        assert (broker.data / ".kafka_cleanshutdown").exists()

    def test_a_stop_that_could_not_write_is_not_called_clean(self, tmp_path: Path) -> None:
        with MillpondProcess(tmp_path) as broker:
            with BlockingClient(broker.bootstrap) as client:
                client.create_topic("orders")
                client.produce_batch("orders", 0, [(0, None, b"kept", ())])
            shutil.rmtree(broker.data)

            assert broker.stop(timeout_s=STOP_SECONDS) == ExitCode.DATA

        assert "not cleanly" in broker.output
        assert "stopped cleanly" not in broker.output

    def test_it_stops_in_time_while_clients_are_connected_and_waiting(self, tmp_path: Path) -> None:
        with MillpondProcess(tmp_path) as broker:
            idle = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(20)]
            half_a_request = idle[0]
            half_a_request.sendall(b"\x00\x00\x10\x00\x00\x12")

            assert broker.stop(timeout_s=STOP_SECONDS) == 0

            for each in idle:
                each.close()

    def test_what_was_acknowledged_is_there_after_the_next_start(self, tmp_path: Path) -> None:
        broker = MillpondProcess(tmp_path)
        with broker, BlockingClient(broker.bootstrap) as client:
            client.create_topic("orders")
            client.produce_batch("orders", 0, [(0, b"k", b"kept", ())])

        with broker, BlockingClient(broker.bootstrap) as client:
            assert client.produce_batch("orders", 0, [(0, None, b"next", ())]).base_offset == 1
        assert "closed cleanly" in broker.output

    def test_after_a_kill_the_next_start_says_what_it_checked(self, tmp_path: Path) -> None:
        with MillpondProcess(tmp_path) as broker:
            with BlockingClient(broker.bootstrap) as client:
                client.create_topic("orders")
                client.produce_batch("orders", 0, [(0, b"k", b"kept", ())])
            broker.restart()
            with BlockingClient(broker.bootstrap) as client:
                assert client.produce_batch("orders", 0, [(0, None, b"n", ())]).base_offset == 1

        assert "not closed cleanly" in broker.output
        assert "partition=orders" not in broker.output, "nothing to say about a log without damage"


def joining(node: int, cluster: str, first: MillpondProcess | None = None) -> dict[str, str]:
    """The settings of a node that joins another."""
    settings = {"node.id": str(node), "cluster.id": cluster, "cluster.secret": SECRET}
    if first is not None:
        settings["controller.quorum.voters"] = f"1@{first.bootstrap}"
    return settings


@contextmanager
def launched(process: MillpondProcess) -> Iterator[None]:
    """Started, and not waited for: it may never get so far."""
    process.launch()
    try:
        yield
    finally:
        process.kill()


def says(process: MillpondProcess, words: str) -> None:
    wait_until(lambda: words in process.output, timeout_s=60, what=f"it says {words!r}")


class TestRefusals:
    def test_a_second_broker_on_the_same_data_is_told_who_has_it(self, tmp_path: Path) -> None:
        with MillpondProcess(tmp_path / "first") as broker:
            second = run_up("--listen", "127.0.0.1:0", "--data", str(broker.data), cwd=tmp_path)

            assert second.returncode == 4
            assert f"process {broker.pid} " in second.stderr
            assert "--data" in second.stderr
            assert broker.is_running()

    def test_a_taken_port_names_the_address_and_touches_no_data(self, tmp_path: Path) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            address = f"127.0.0.1:{other.getsockname()[1]}"

            refused = run_up("--listen", address, "--data", "data", cwd=tmp_path)

        assert refused.returncode == 3
        assert f"Cannot listen on {address}" in refused.stderr
        assert "--listen 127.0.0.1:0" in refused.stderr
        assert not (tmp_path / "data").exists()

    def test_a_file_in_the_way_of_the_data(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_text("I was here first")

        refused = run_up("--listen", "127.0.0.1:0", "--data", "data", cwd=tmp_path)

        assert refused.returncode == 4
        assert "a file is in the way" in refused.stderr

    def test_data_of_another_node(self, tmp_path: Path) -> None:
        with MillpondProcess(tmp_path, properties={"node.id": "7"}) as broker:
            pass

        refused = run_up("--listen", "127.0.0.1:0", "--data", str(broker.data), cwd=tmp_path)

        assert refused.returncode == 4
        assert "node 7" in refused.stderr

    def test_data_of_another_cluster(self, tmp_path: Path) -> None:
        with MillpondProcess(tmp_path, properties={"cluster.id": "first"}) as broker:
            pass

        refused = run_up(
            "--listen", "127.0.0.1:0", "--data", str(broker.data), "--set", "cluster.id=second",
            cwd=tmp_path,
        )  # fmt: skip

        assert refused.returncode == 4
        assert "belongs to cluster first" in refused.stderr

    def test_an_id_that_is_none_is_refused_before_it_is_written_down(self, tmp_path: Path) -> None:
        options = ("--listen", "127.0.0.1:0", "--data", "new", "--set")
        ended = run_up(*options, "cluster.id=not a uuid", cwd=tmp_path)
        assert ended.returncode == ExitCode.SETTINGS
        assert "22 letters, digits, - and _" in ended.stderr
        assert not (tmp_path / "new" / "meta.properties").exists()

    def test_an_id_of_another_form_is_taken_with_a_warning(self, tmp_path: Path) -> None:
        """Clusters that have such an id get new nodes and new disks."""
        with MillpondProcess(tmp_path, properties={"cluster.id": "pond-1"}) as broker:
            assert "cluster.id pond-1 has not the form" in broker.output
        with MillpondProcess(tmp_path, properties={"cluster.id": "pond-1"}) as broker:
            said = broker.output.count("has not the form")
        assert said == 1, "at the first start only"

    def test_a_node_of_a_cluster_without_a_name(self, tmp_path: Path) -> None:
        voters = "controller.quorum.voters=1@127.0.0.1:19091,2@127.0.0.1:19092"
        ended = run_up("--listen", "127.0.0.1:0", "--set", voters, cwd=tmp_path)
        assert ended.returncode == ExitCode.FAILED
        assert "set cluster.id on every node to the same id" in ended.stderr

    def test_a_node_among_others_without_a_secret_says_what_to_do(self, tmp_path: Path) -> None:
        voters = "controller.quorum.voters=1@127.0.0.1:19091,2@127.0.0.1:19092"
        options = ("--listen", "127.0.0.1:0", "--set", voters, "--set", "cluster.id=c")
        ended = run_up(*options, cwd=tmp_path)
        assert ended.returncode == ExitCode.SETTINGS
        assert "no cluster secret" in ended.stderr
        assert "`millpond node secret --new`" in ended.stderr

    def test_a_node_with_another_secret_is_told_so_on_both_sides(self, tmp_path: Path) -> None:
        with MillpondProcess(tmp_path / "first", properties=joining(1, "c")) as broker:
            settings = joining(2, "c", broker) | {"cluster.secret": "quite another secret"}
            stranger = MillpondProcess(tmp_path / "stranger", properties=settings)
            with launched(stranger):
                says(stranger, "cannot prove to each other that they belong to one cluster")
                says(broker, "says that it is node 2 of this cluster and cannot prove it")
            for process in (broker, stranger):
                assert SECRET not in process.output
                assert "quite another secret" not in process.output

    def test_a_node_of_another_cluster_is_told_so_on_both_sides(self, tmp_path: Path) -> None:
        with MillpondProcess(tmp_path / "first", properties=joining(1, "first")) as broker:
            stranger = MillpondProcess(
                tmp_path / "stranger", properties=joining(2, "second", broker)
            )
            with launched(stranger):
                says(stranger, "node 1 belongs to another cluster")
                says(broker, "belongs to cluster second and asks as if to this one, first")

    def test_a_node_with_another_ones_id_is_told_so_on_both_sides(self, tmp_path: Path) -> None:
        with (
            MillpondProcess(tmp_path / "first", properties=joining(1, "c")) as broker,
            MillpondProcess(tmp_path / "second", properties=joining(2, "c", broker)) as second,
        ):
            says(second, "node 2 serves")
            namesake = MillpondProcess(tmp_path / "namesake", properties=joining(2, "c", broker))
            with launched(namesake):
                says(namesake, "another node has this id and is running")
                says(broker, "node 2 is not let in: Another broker is registered")
                assert second.is_running()

    def test_wrong_settings_are_all_named_on_one_screen(self, tmp_path: Path) -> None:
        (tmp_path / "server.properties").write_text("num.partitons=3\n")

        refused = run_up(
            "server.properties", "--set", "log.segment.bytes=big", "--listen", "nowhere",
            cwd=tmp_path, environment={"MILLPOND_NUM_PARTITION": "3"},
        )  # fmt: skip

        assert refused.returncode == 2
        assert "server.properties line 1" in refused.stderr
        assert "MILLPOND_NUM_PARTITION" in refused.stderr
        assert "log.segment.bytes" in refused.stderr
        assert len(refused.stderr.splitlines()) <= 24
        assert "Traceback" not in refused.stderr

    def test_python_without_asserts(self, tmp_path: Path) -> None:
        refused = run_up("--listen", "127.0.0.1:0", cwd=tmp_path, flags=("-O",))

        assert refused.returncode == 1
        assert "does not run under python -O" in refused.stderr
        assert not (tmp_path / "millpond-data").exists()


def test_settings_come_from_file_environment_and_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLPOND_DEFAULT_REPLICATION_FACTOR", "1")
    monkeypatch.setenv("MILLPOND_LOG_RETENTION_HOURS", "2")
    properties = {"num.partitions": "5", "log.retention.hours": "1", "zookeeper.connect": "zk:2181"}
    broker = MillpondProcess(tmp_path, properties=properties)
    with broker, BlockingClient(broker.bootstrap) as client:
        client.create_topic("orders")
        assert len(client.describe_topic("orders").partitions) == 5
        assert client.describe_configs("orders")["retention.ms"].value == "7200000"

    assert "accepted, no effect: zookeeper.connect" in broker.output


def test_json_log_lines_are_json_from_first_to_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLPOND_LOG_FORMAT", "json")
    with MillpondProcess(tmp_path) as broker:
        assert broker.stop() == 0

    messages = [json.loads(line)["message"] for line in broker.output.splitlines()]
    assert any("ready" in message for message in messages)
    assert any("stopped cleanly" in message for message in messages)


def test_without_uvloop_it_runs_on_asyncio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_EVENT_LOOP", "asyncio")
    with MillpondProcess(tmp_path) as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topic("orders")
        assert client.produce_batch("orders", 0, [(0, None, b"x", ())]).base_offset == 0


def test_three_listeners(tmp_path: Path) -> None:
    from tests.support.processes.ports import free_port

    ports = [free_port() for _ in range(2)]
    with MillpondProcess(tmp_path) as probe:
        first = probe.port
    names = {"PLAINTEXT": first, "INSIDE": ports[0], "OUTSIDE": ports[1]}
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in names.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "advertised.listeners": f"OUTSIDE://localhost:{ports[1]}",
    }
    probe.properties.update(properties)
    with probe:
        advertised = {}
        for name, port in names.items():
            with BlockingClient(f"127.0.0.1:{port}") as client:
                (node,) = client.describe_cluster().brokers
                advertised[name] = (node.host, node.port)

    assert advertised == {
        "PLAINTEXT": ("127.0.0.1", first),
        "INSIDE": ("127.0.0.1", ports[0]),
        "OUTSIDE": ("localhost", ports[1]),
    }


def test_the_file_that_kafka_ships_starts_a_broker_on_every_interface(tmp_path: Path) -> None:
    from tests.unit.server.test_config import KAFKA_4_SERVER_PROPERTIES

    kafka = MillpondProcess(tmp_path)
    shipped = dict(line.split("=", 1) for line in KAFKA_4_SERVER_PROPERTIES.split())
    kafka.properties.update(
        shipped
        | {
            "listeners": f"PLAINTEXT://:{kafka.port},CONTROLLER://:{kafka.port + 1}",
            "advertised.listeners": f"PLAINTEXT://localhost:{kafka.port}",
            "log.dirs": str(kafka.data),
        }
    )

    with kafka, BlockingClient(kafka.bootstrap) as client:
        (node,) = client.describe_cluster().brokers
        assert (node.node_id, node.host, node.port) == (1, "localhost", kafka.port)

    assert "not opened: it is for controllers" in kafka.output
