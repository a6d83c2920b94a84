"""Where a node's cluster secret comes from, and that it is kept to itself."""

import logging
from pathlib import Path

import pytest

from millpond.metadata.configs import BrokerConfig
from millpond.server.failures import StartFailed
from millpond.server.secret import given_secret, kept_secret, new_secret, write_secret

TEXT = "a secret for these tests"


def test_a_node_makes_its_secret_once_and_keeps_it_private(tmp_path: Path) -> None:
    made = kept_secret(BrokerConfig({}), tmp_path)
    path = tmp_path / "cluster.secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().strip() == made.text
    assert kept_secret(BrokerConfig({}), tmp_path).text == made.text
    assert [one.name for one in tmp_path.iterdir()] == ["cluster.secret"]
    assert new_secret().text != new_secret().text


def test_settings_come_before_the_data_directory(tmp_path: Path) -> None:
    kept_secret(BrokerConfig({}), tmp_path)
    file = tmp_path / "elsewhere"
    write_secret(file, new_secret())
    by_text = given_secret(BrokerConfig({"cluster.secret": TEXT}), tmp_path)
    by_file = given_secret(BrokerConfig({"cluster.secret.file": str(file)}), tmp_path)
    assert by_text is not None
    assert by_text.text == TEXT
    assert by_file is not None
    assert by_file.text == file.read_text().strip()


def test_who_writes_second_gets_the_first_ones(tmp_path: Path) -> None:
    first = write_secret(tmp_path / "s", new_secret())
    assert write_secret(tmp_path / "s", new_secret()).text == first.text


def test_a_node_of_a_local_cluster_finds_the_secret_of_all_its_nodes(tmp_path: Path) -> None:
    node = tmp_path / "node-1"
    node.mkdir()
    kept = write_secret(tmp_path / "cluster.secret", new_secret())
    assert given_secret(BrokerConfig({}), node) is None  # just a directory above
    (tmp_path / "cluster.json").write_text("{}")
    found = given_secret(BrokerConfig({}), node)
    assert found is not None
    assert found.text == kept.text


def test_there_may_be_none(tmp_path: Path) -> None:
    assert given_secret(BrokerConfig({}), tmp_path) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cluster.secret": TEXT, "cluster.secret.file": "x"}, "are both set"),
        ({"cluster.secret": "short"}, "has 16 to 1024 characters"),
        ({"cluster.secret.file": "no/such/file"}, "Cannot read the cluster's secret"),
    ],
)
def test_what_is_wrong_is_said_without_the_secret(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(StartFailed) as caught:
        given_secret(BrokerConfig(settings), tmp_path)
    assert words in str(caught.value)
    assert TEXT not in str(caught.value)
    assert ": short" not in str(caught.value)


def test_a_file_that_others_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "s"
    file.write_text(TEXT)
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        given_secret(BrokerConfig({"cluster.secret.file": str(file)}), tmp_path)
    assert "chmod 600" in caplog.text
    assert TEXT not in caplog.text
