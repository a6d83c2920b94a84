"""`millpond doctor`: each way in which a machine or its data can be unfit is named."""

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

import millpond
from millpond.cli import cli


def examine(
    *arguments: str, environment: dict[str, str] | None = None
) -> tuple[int, dict[str, dict[str, str]]]:
    result = CliRunner().invoke(cli, ["doctor", "--json", *arguments], env=environment)
    return result.exit_code, {row["check"]: row for row in json.loads(result.stdout)}


@pytest.fixture
def quiet_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """A port on which nobody listens, configured as the broker's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    monkeypatch.setenv("MILLPOND_LISTENERS", f"PLAINTEXT://127.0.0.1:{port}")
    return port


def test_a_fit_machine_without_data(tmp_path: Path, quiet_port: int) -> None:
    code, found = examine("--data", str(tmp_path / "new"))

    assert code == 0
    assert found["data"]["verdict"] == "ok"
    assert "makes it" in found["data"]["detail"]
    assert found["address"]["detail"] == f"127.0.0.1:{quiet_port} is free"
    assert {"python", "crc32c", "cramjam", "open files", "clock", "disk"} <= found.keys()


def test_an_address_that_is_none_is_a_wrong_question() -> None:
    result = CliRunner().invoke(cli, ["doctor", "--bootstrap-server", "here:there"])

    assert result.exit_code == 2
    assert "'here:there' is no address" in result.stderr


def test_a_running_broker_is_found_by_its_lock_and_by_its_answer(tmp_path: Path) -> None:
    with millpond.Broker(data=tmp_path / "data") as broker:
        broker.create_topic("orders")
        code, found = examine(
            "--data", str(tmp_path / "data"), "--bootstrap-server", broker.bootstrap
        )

    assert code == 0
    assert "in use by process" in found["data"]["detail"]
    assert "1 topic" in found["address"]["detail"]


@pytest.mark.usefixtures("quiet_port")
def test_data_that_was_closed_cleanly_and_data_that_was_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with millpond.Broker(data=data) as broker:
        broker.create_topic("orders")

    code, found = examine("--data", str(data))
    assert code == 0
    assert "closed cleanly" in found["data"]["detail"]

    (data / ".kafka_cleanshutdown").unlink()
    code, found = examine("--data", str(data))
    assert code == 0
    assert found["data"]["verdict"] == "advice"
    assert "not closed cleanly" in found["data"]["detail"]


@pytest.mark.usefixtures("quiet_port")
def test_data_of_a_cluster_on_one_machine(tmp_path: Path) -> None:
    nodes = [{"id": 1, "host": "127.0.0.1", "port": 9092, "data": "node-1"}]
    plan = {"cluster_id": "pond", "listener": "PLAINTEXT", "nodes": nodes}
    (tmp_path / "cluster.json").write_text(json.dumps(plan))
    with millpond.Broker(data=tmp_path / "node-1", node_id=1):
        pass

    code, found = examine("--data", str(tmp_path))
    assert code == 0
    assert "node-1; closed cleanly" in found["data"]["detail"]

    (tmp_path / "cluster.json").write_text("{}")
    code, found = examine("--data", str(tmp_path))
    assert code == 1
    assert "not what it was" in found["data"]["detail"]


@pytest.mark.usefixtures("quiet_port")
def test_data_of_another_node(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with millpond.Broker(data=data, node_id=7):
        pass

    code, found = examine("--data", str(data))

    assert code == 1
    assert "node 7" in found["identity"]["detail"]


@pytest.mark.usefixtures("quiet_port")
def test_a_file_where_the_data_should_be(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")

    code, found = examine("--data", str(tmp_path / "data"))

    assert code == 1
    assert found["data"]["verdict"] == "wrong"


def test_nobody_answers_where_somebody_was_expected(quiet_port: int, tmp_path: Path) -> None:
    code, found = examine(
        "--bootstrap-server", f"127.0.0.1:{quiet_port}", "--data", str(tmp_path / "new")
    )

    assert code == 1
    assert "millpond up" in found["address"]["advice"]


def test_somebody_answers_who_is_no_broker(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        def hang_up() -> None:
            for _ in range(100):
                try:
                    connection, _ = other.accept()
                except OSError:
                    return
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.close()

        import threading

        threading.Thread(target=hang_up, daemon=True).start()
        code, found = examine(
            "--bootstrap-server", f"127.0.0.1:{port}", "--data", str(tmp_path / "new")
        )

    assert code == 1
    assert "does not answer as a Kafka broker" in found["address"]["detail"]


def test_wrong_settings_are_the_finding(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("num.partitons = 3")

    code, found = examine("--config", str(file))

    assert code == 1
    assert "Did you mean num.partitions?" in found["settings"]["detail"]


@pytest.mark.usefixtures("quiet_port")
def test_the_table_for_people(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["doctor", "--data", str(tmp_path / "new")])

    assert result.exit_code == 0
    assert "CPython" in result.stdout
