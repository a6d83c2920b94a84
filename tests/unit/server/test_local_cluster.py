"""The plan of a cluster on one machine: made once, kept, and refused where it does not fit."""

import json
from pathlib import Path

import pytest

from millpond.server.config import Given, Origin, Settings, given_in_code, load_settings
from millpond.server.failures import ExitCode, StartFailed
from millpond.server.local_cluster import LocalCluster, nodes_in, plan_cluster
from tests.support.processes.ports import free_port

CHANCE = bytes(range(16))


def settings_for(data: Path, listen: str | None = "127.0.0.1:0", **others: object) -> Settings:
    given = given_in_code({"log.dirs": str(data), **others})
    if listen is not None:
        given.append(Given("listeners", listen, Origin.COMMAND_LINE, "--listen"))
    return load_settings(overrides=given)


def plan_for(data: Path, nodes: int = 3, **others: object) -> LocalCluster:
    return plan_cluster(settings_for(data, **others), nodes=nodes, rng_bytes=CHANCE)  # type: ignore[arg-type]


def refusal(data: Path, nodes: int = 3, **others: object) -> StartFailed:
    with pytest.raises(StartFailed) as refused:
        plan_for(data, nodes, **others)
    return refused.value


def test_every_node_has_its_own_number_port_and_directory(tmp_path: Path) -> None:
    plan = plan_for(tmp_path / "data")

    assert [node.node_id for node in plan.nodes] == [1, 2, 3]
    assert len({node.port for node in plan.nodes}) == 3
    assert [node.data.name for node in plan.nodes] == ["node-1", "node-2", "node-3"]
    assert plan.voters.split(",")[2] == f"3@{plan.nodes[2].address}"


def test_ports_follow_the_first(tmp_path: Path) -> None:
    first = free_port()
    plan = plan_for(tmp_path / "data", nodes=1, listen=f"127.0.0.1:{first}")
    assert plan.bootstrap == f"127.0.0.1:{first}"


def test_the_next_start_finds_the_same_cluster(tmp_path: Path) -> None:
    first = plan_for(tmp_path / "data")
    again = plan_cluster(settings_for(tmp_path / "data", listen=None), nodes=3, rng_bytes=bytes(16))
    assert again == first
    assert nodes_in(tmp_path / "data") == 3
    assert nodes_in(tmp_path) is None


def test_another_number_of_nodes_is_refused(tmp_path: Path) -> None:
    plan_for(tmp_path / "data")
    error = refusal(tmp_path / "data", nodes=5)
    assert error.code == ExitCode.DATA
    assert "has 3" in error.what
    assert "--nodes 3" in error.advice[0]


def test_another_cluster_id_is_refused(tmp_path: Path) -> None:
    first = plan_for(tmp_path / "data")
    error = refusal(tmp_path / "data", listen=None, cluster_id="q3Gz0c1rT2uVtq8H0b7j5w")
    assert error.code == ExitCode.DATA
    assert f"belongs to cluster {first.cluster_id}, not to q3Gz0c1rT2uVtq8H0b7j5w" in error.what


def test_the_data_of_a_single_node_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    error = refusal(tmp_path)
    assert error.code == ExitCode.DATA
    assert not (tmp_path / "cluster.json").exists()


@pytest.mark.parametrize("place", ["afile", "afile/below"])
def test_a_file_where_the_directory_should_be_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "afile").write_text("in the way")
    error = refusal(tmp_path / place)
    assert error.code == ExitCode.DATA
    assert str(tmp_path / place) in error.what
    assert error.advice == ("a file is in the way; choose another directory with --data",)


def test_a_cluster_does_not_move_to_other_ports(tmp_path: Path) -> None:
    plan_for(tmp_path / "data")
    error = refusal(tmp_path / "data", listen=f"127.0.0.1:{free_port()}")
    assert error.code == ExitCode.SETTINGS
    assert "leave --listen out" in error.advice[0]


def test_a_taken_port_is_known_before_anything_is_written(tmp_path: Path) -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        error = refusal(tmp_path / "data", listen=f"127.0.0.1:{other.getsockname()[1]}")
    assert error.code == ExitCode.ADDRESS
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("listen", [":9092", "127.0.0.1:1,127.0.0.1:2"])
def test_one_address_that_clients_can_reach(tmp_path: Path, listen: str) -> None:
    assert refusal(tmp_path / "data", listen=listen).code == ExitCode.SETTINGS


def test_a_plan_that_somebody_has_edited_badly(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"nodes": 3}')
    assert refusal(tmp_path).code == ExitCode.DATA


def options(data: Path, nodes: int = 3, **others: object) -> list[str]:
    settings = settings_for(data, **others)  # type: ignore[arg-type]
    plan = plan_cluster(settings, nodes=nodes, rng_bytes=CHANCE)
    assert json.loads((data / "cluster.json").read_text())["cluster_id"] == plan.cluster_id
    return plan.options_of(plan.nodes[1], settings)


def test_what_a_node_is_told(tmp_path: Path) -> None:
    told = options(tmp_path / "data")
    assert "node.id=2" in told
    assert "default.replication.factor=3" in told
    assert "min.insync.replicas=2" in told
    assert str(tmp_path / "data" / "node-2") in told


def test_what_the_person_has_set_stays(tmp_path: Path) -> None:
    told = options(tmp_path / "data", **{"min.insync.replicas": 1})
    assert not any(option.startswith("min.insync.replicas") for option in told)


def test_two_nodes_have_two_replicas(tmp_path: Path) -> None:
    told = options(tmp_path / "data", nodes=2)
    assert "offsets.topic.replication.factor=2" in told
    assert "min.insync.replicas=1" in told


def test_every_node_speaks_amqp_at_a_port_of_its_own(tmp_path: Path) -> None:
    told = options(tmp_path / "data", listen="127.0.0.1:0,AMQP://127.0.0.1:5672")
    assert told[told.index("--amqp") + 1] == "127.0.0.1:5673"
    assert "--amqp" not in options(tmp_path / "other")


def test_all_nodes_read_one_secret_that_only_their_user_can(tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = settings_for(data)
    plan = plan_cluster(settings, nodes=3, rng_bytes=CHANCE)
    file = data / "cluster.secret"
    assert file.stat().st_mode & 0o777 == 0o600
    secret = file.read_text()
    for node in plan.nodes:
        assert f"cluster.secret.file={file.absolute()}" in plan.options_of(node, settings)
    plan_for(data)
    assert file.read_text() == secret, "the next start has the same"


def test_a_secret_of_the_settings_is_left_to_them(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, **{"cluster.secret": "given by the settings"})
    plan = plan_cluster(settings, nodes=3, rng_bytes=CHANCE)
    assert not (tmp_path / "cluster.secret").exists()
    assert not any(
        "cluster.secret" in option for option in plan.options_of(plan.nodes[0], settings)
    )
