"""`millpond topic` against a broker in this process."""

import json

import pytest

from millpond.cli.topic import total_size
from tests.support.processes.ports import free_port
from tests.unit.cli.conftest import Run


def test_topics_come_and_go(run: Run) -> None:
    created = run("topic", "create", "orders", "--partitions", "3", "--config", "retention.ms=5000")
    assert created.exit_code == 0
    assert created.stdout == "orders: created with 3 partitions\n"
    assert "orders\n" in run("topic", "list").stdout

    described = json.loads(run("topic", "describe", "orders", "--json").stdout)
    [document] = described
    assert document["topic"] == "orders"
    assert document["configs"] == {"retention.ms": "5000"}
    assert [item["partition"] for item in document["partitions"]] == [0, 1, 2]
    assert document["partitions"][0]["end_offset"] == 0

    deleted = run("topic", "delete", "orders", "--yes")
    assert (deleted.exit_code, deleted.stdout) == (0, "orders: deleted\n")
    assert "orders\n" not in run("topic", "list").stdout


def test_create_again_is_refused_or_fine(run: Run) -> None:
    run("topic", "create", "twice")

    again = run("topic", "create", "twice")
    assert again.exit_code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    assert again.stdout == ""

    fine = run("topic", "create", "twice", "--if-not-exists")
    assert (fine.exit_code, fine.stdout) == (0, "twice: exists already\n")


def test_several_at_once_and_each_has_its_outcome(run: Run) -> None:
    run("topic", "create", "several-b")
    result = run("topic", "create", "several-a", "several-b", "--json")
    assert result.exit_code == 1
    outcomes = {item["topic"]: item for item in json.loads(result.stdout)}
    assert outcomes["several-a"]["created"] is True
    assert outcomes["several-b"]["created"] is False
    assert "TOPIC_ALREADY_EXISTS" in outcomes["several-b"]["error"]

    gone = run("topic", "delete", "several-a", "nosuch", "--json")
    assert gone.exit_code == 1
    assert {item["topic"]: item["deleted"] for item in json.loads(gone.stdout)} == {
        "several-a": True,
        "nosuch": False,
    }
    assert run("topic", "delete", "nosuch", "--if-exists").exit_code == 0


def test_a_dry_run_creates_nothing(run: Run) -> None:
    assert run("topic", "create", "dry", "--dry-run").stdout.startswith("dry: can be created")
    assert "dry\n" not in run("topic", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["create", "bad name!"], "INVALID_TOPIC"),
        (["create", "x", "--replication-factor", "7"], "INVALID_REPLICATION_FACTOR"),
        (["create", "x", "--config", "no.such.setting=1"], "no.such.setting"),
        (["describe", "nosuch"], "UNKNOWN_TOPIC_OR_PARTITION"),
        (["alter", "nosuch", "--config", "retention.ms=1"], "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_what_the_broker_refuses(run: Run, arguments: list[str], reason: str) -> None:
    result = run("topic", *arguments)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["create"],
        ["create", "x", "--partitions", "0"],
        ["create", "x", "--config", "retention.ms"],
        ["alter", "x"],
        ["list", "-b", "nowhere:port"],
        ["list", "--timeout", "0"],
    ],
)
def test_what_is_asked_wrongly(run: Run, arguments: list[str]) -> None:
    result = run("topic", *arguments)
    assert result.exit_code == 2
    assert "Error" in result.stderr


def test_nobody_there(run: Run) -> None:
    address = f"127.0.0.1:{free_port()}"
    result = run("topic", "list", "-b", address)
    assert result.exit_code == 3
    assert f"no broker answers at {address}" in result.stderr
    assert "millpond up" in result.stderr


def test_alter_settings_and_partitions(run: Run) -> None:
    run("topic", "create", "altered", "--config", "segment.bytes=1000000")
    changed = run(
        "topic", "alter", "altered", "--config", "retention.ms=77", "--partitions", "4",
        "--delete-config", "segment.bytes",
    )  # fmt: skip
    assert changed.exit_code == 0, changed.stderr
    assert "altered: retention.ms 77\n" in changed.stdout
    assert "altered: segment.bytes back to its default\n" in changed.stdout

    [document] = json.loads(run("topic", "describe", "altered", "--json").stdout)
    assert document["configs"] == {"retention.ms": "77"}
    assert len(document["partitions"]) == 4

    [everything] = json.loads(run("topic", "describe", "altered", "--all-configs", "--json").stdout)
    assert everything["configs"]["cleanup.policy"] == "delete"

    fewer = run("topic", "alter", "altered", "--partitions", "2")
    assert fewer.exit_code == 1
    assert "INVALID_PARTITIONS" in fewer.stderr

    for change in (("--partitions", "9"), ("--config", "retention.ms=1")):
        misspelt = run("topic", "alter", "altred", *change)
        assert misspelt.exit_code == 1
        assert misspelt.stderr.endswith("Did you mean altered?\n")


def test_a_port_that_there_is_not_is_named_as_such(run: Run) -> None:
    result = run("topic", "list", "-b", "127.0.0.1:99999")
    assert result.exit_code == 2
    assert "ports are 1 to 65535" in result.stderr


def test_describe_counts_records_and_bytes(run: Run) -> None:
    run("topic", "create", "counted")
    run("produce", "counted", "a", "b", "c")
    lines = run("topic", "describe", "counted").stdout.splitlines()
    assert lines[0].startswith("counted: 1 partition, replication factor 1, ")
    names, row = lines[1].split("\t"), lines[2].split("\t")
    values = dict(zip(names, row, strict=True))
    assert (values["start_offset"], values["end_offset"], values["records"]) == ("0", "3", "3")
    assert int(values["bytes"]) > 60


def test_list_as_json(run: Run) -> None:
    run("topic", "create", "listed", "--partitions", "2")
    [entry] = [
        item
        for item in json.loads(run("topic", "list", "--json").stdout)
        if item["topic"] == "listed"
    ]
    assert (entry["partitions"], entry["replication_factor"], entry["internal"]) == (2, 1, False)


def test_a_mistyped_topic_is_answered_with_the_nearest(run: Run) -> None:
    run("topic", "create", "shipments")

    for command in (("consume",), ("topic", "describe"), ("topic", "delete")):
        result = run(*command, "shipmens")
        assert result.exit_code == 1
        assert result.stderr.rstrip().endswith("Did you mean shipments?")
    assert run("consume", "nothing-like-it").stderr.count("Did you mean") == 0


@pytest.mark.parametrize(
    ("sizes", "words"),
    [(["?", "?"], "size not known"), (["?", 2048], "2.0 kB"), ([0, 0], "0 B")],
)
def test_a_size_that_no_broker_tells_is_not_called_0(sizes: list[object], words: str) -> None:
    assert total_size(sizes) == words
