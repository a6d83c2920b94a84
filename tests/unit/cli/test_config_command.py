"""`millpond config`: what can be set, what it means, what would be in force."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millpond.cli import cli


def run(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, ["config", *arguments], env=environment)


def test_list_finds_settings_by_a_part_of_their_name() -> None:
    result = run("list", "segment.bytes", "--json")

    rows = json.loads(result.stdout)
    assert {(row["name"], row["scope"]) for row in rows} >= {
        ("segment.bytes", "topic"),
        ("log.segment.bytes", "broker"),
    }
    assert all("segment.bytes" in row["name"] for row in rows)


def test_list_leaves_out_what_changes_nothing_unless_asked() -> None:
    without = {row["name"] for row in json.loads(run("list", "--json").stdout)}
    everything = {row["name"] for row in json.loads(run("list", "--all", "--json").stdout)}

    assert "zookeeper.connect" not in without
    assert "zookeeper.connect" in everything


def test_list_in_a_pipe_is_a_line_for_each_setting() -> None:
    lines = run("list", "log.retention").stdout.splitlines()

    assert lines[0].split("\t") == ["name", "scope", "default", "meaning"]
    assert [line.split("\t")[:3] for line in lines if line.startswith("log.retention.hours")] == [
        ["log.retention.hours", "broker", "168"]
    ]


def test_show_takes_settings_as_up_does(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("num.partitions = 3\n")

    assert (
        "num.partitions=5    # --set" in run("show", str(file), "--set", "num.partitions=5").stdout
    )
    assert run("show", "--set", "num.partition=5").exit_code == 2


def test_list_of_one_scope() -> None:
    rows = json.loads(run("list", "--topic", "--json").stdout)

    assert {row["scope"] for row in rows} == {"topic"}


def test_the_table_for_people_names_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.cli.config.is_terminal", lambda: True)

    result = run("list", "num.partitions")

    assert result.exit_code == 0
    assert "num.partitions" in result.stdout
    assert "DEFAULT" in result.stdout


def test_nothing_found_is_a_failure() -> None:
    result = run("list", "qwertyuiop")

    assert result.exit_code == 1
    assert "qwertyuiop" in result.stderr


def test_explain_says_how_to_set_it() -> None:
    topic = run("explain", "retention.ms").stdout
    broker = run("explain", "log.retention.ms").stdout

    assert "millpond kafka topic alter TOPIC --config retention.ms=VALUE" in topic
    assert "log.retention.minutes" in topic
    assert "MILLPOND_LOG_RETENTION_MS" in broker
    assert "while the broker runs" in broker


def test_explain_of_a_setting_in_both_scopes_explains_both() -> None:
    rows = json.loads(run("explain", "compression.type", "--json").stdout)

    assert [row["scope"] for row in rows] == ["topic", "broker"]


def test_explain_suggests_the_nearest() -> None:
    result = run("explain", "num.partitons")

    assert result.exit_code == 1
    assert "Did you mean num.partitions?" in result.stderr


def test_show_names_the_source_of_every_value(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nssl.key.password=hunter2\nzookeeper.connect=zk:1\n")

    result = run("show", str(file), environment={"MILLPOND_LOG_RETENTION_HOURS": "5"})

    assert f"num.partitions=3    # {file} line 1" in result.stdout
    assert "log.retention.hours=5    # variable MILLPOND_LOG_RETENTION_HOURS" in result.stdout
    assert "hunter2" not in result.output
    assert "accepted, no effect: zookeeper.connect" in result.stderr
    assert "not enforced" in result.stderr


def test_show_refuses_a_wrong_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitons=3\n")

    result = run("show", str(file))

    assert result.exit_code == 2
    assert "line 1" in result.stderr


@pytest.mark.parametrize("everything", [False, True])
def test_show_as_json(*, everything: bool) -> None:
    result = run("show", "--json", *(["--all"] if everything else []))

    names = {row["name"] for row in json.loads(result.stdout)["settings"]}
    assert ("num.partitions" in names) is everything


def test_a_secret_is_not_to_be_given_on_a_command_line() -> None:
    secret = run("explain", "cluster.secret").stdout
    assert "cluster.secret.file" in secret
    assert "--set" not in secret
