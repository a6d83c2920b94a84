"""``millpond log``: files shown and verified without a broker."""

import json
import shutil
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from millpond.base.ids import TopicPartition
from millpond.cli import cli
from millpond.log import FileStorage, LogConfig, LogDir
from tests.support.storage.log_kit import NOW, append, batch, marker
from tests.support.storage.poison import POISON, poisoned

SEGMENT = "00000000000000000000"
SIZE = 152  # of each of the first batches
ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with one partition of two segments, closed cleanly."""
    directory = LogDir(FileStorage(tmp_path))
    directory.open(1, "cluster", now_ms=NOW, config_for=lambda topic: LogConfig())
    config = LogConfig(segment_bytes=1000, index_interval_bytes=100)
    log = directory.create(TopicPartition("orders", 0), config, ID, now_ms=NOW)
    for number in range(8):
        append(log, batch((b"k%d" % number, b"v" * 80), timestamp=NOW + number))
    append(
        log, batch(b"\xff", producer_id=4, producer_epoch=0, base_sequence=0, transactional=True)
    )
    append(log, marker(commit=False, producer_id=4))
    directory.close(now_ms=NOW)
    return tmp_path


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(cli, ["log", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_dump_shows_the_batches_of_a_partition(data: Path) -> None:
    result = run("dump", data / "orders-0")

    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].endswith(f"{SEGMENT}.log")
    assert lines[1].startswith("@0 offsets 0-0 count 1 size ")
    assert sum(line.startswith("@") for line in lines) == 10
    assert "producer 4/0 sequence 0-0 transactional" in lines[-2]
    assert lines[-1].endswith("producer 4/0 transactional control")


def test_dump_shows_records_with_keys_and_values(data: Path) -> None:
    result = run("dump", data / "orders-0", "--records", "--from", "7")

    assert "    7 2023-11-14T22:13:20.007Z key 'k7' value 'vvvv" in result.output
    assert "key None value 'hex:ff'" in result.output
    assert "marker abort coordinator_epoch 0" in result.output
    assert "'k6'" not in result.output


def test_dump_stops_where_it_is_told(data: Path) -> None:
    result = run("dump", data / "orders-0" / f"{SEGMENT}.log", "--max", "2")
    assert sum(line.startswith("@") for line in result.output.splitlines()) == 2


def test_dump_prints_json_for_programs(data: Path) -> None:
    result = run("dump", data, "--json", "--records")

    entries = [json.loads(line) for line in result.output.splitlines()]
    assert len(entries) == 10
    assert entries[0]["records"][0]["key"] == "k0"
    assert entries[0]["valid"] is True
    assert entries[-1]["records"][0]["marker"] == "abort"
    assert entries[-1]["file"].endswith(".log")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (f"orders-0/{SEGMENT}.index", "offset 1 at byte 152"),
        (f"orders-0/{SEGMENT}.timeindex", "(1700000000001) at offset 1"),
        ("orders-0/00000000000000000010.snapshot", "producer 4/0 last sequence 0 at offset 8"),
        ("orders-0/00000000000000000006.txnindex", "producer 4 aborted offsets 8-9"),
        ("orders-0/leader-epoch-checkpoint", "epoch 0 from offset 0"),
        ("orders-0/partition.metadata", "topic id ABEiM0RVZneImaq7zN3u_w"),
        ("recovery-point-offset-checkpoint", "orders-0 10"),
        ("meta.properties", "cluster.id = cluster"),
        (".kafka_cleanshutdown", "version"),
    ],
)
def test_dump_shows_every_other_kind_of_file(data: Path, name: str, shown: str) -> None:
    result = run("dump", data / name)
    assert result.exit_code == 0
    assert shown in result.output
    assert all(json.loads(line) for line in run("dump", data / name, "--json").output.splitlines())


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_dump_says_what_is_torn(data: Path, suffix: str) -> None:
    path = data / "orders-0" / f"{SEGMENT}{suffix}"
    path.write_bytes(path.read_bytes() + b"\x01")
    result = run("dump", path)
    assert result.exit_code == 1
    assert "no whole entry" in result.output


def test_dump_steps_over_damage_and_says_so(data: Path) -> None:
    damage(data / "orders-0" / f"{SEGMENT}.log", SIZE + 8)
    damage(data / "orders-0" / f"{SEGMENT}.log", 3 * SIZE + 100)

    result = run("dump", data / "orders-0" / f"{SEGMENT}.log")

    assert result.exit_code == 1
    assert "@152 152 bytes are no batches" in result.output
    assert "WRONG CHECKSUM" in result.output
    assert "@304 offsets 2-2" in result.output


def test_dump_steps_over_records_that_cannot_be_read_and_says_so(data: Path) -> None:
    path = data / "orders-0" / f"{SEGMENT}.log"
    path.write_bytes(poisoned(POISON["garbage"]()) + path.read_bytes())
    result = run("dump", "--records", path)
    assert result.exit_code == 1
    assert "UNREADABLE: the records at offsets 0 to 2" in result.output
    assert "offsets 1-1" in result.output


def test_dump_refuses_what_is_no_log(data: Path) -> None:
    (data / "notes.txt").write_text("hello")
    result = run("dump", data / "notes.txt")
    assert result.exit_code == 1
    assert "no file of a log" in result.output
    assert run("dump", data / "nowhere").exit_code == 2


@pytest.mark.parametrize("part", ["", "orders-0", f"orders-0/{SEGMENT}.log"])
def test_verify_is_content_with_a_sound_log(data: Path, part: str) -> None:
    result = run("verify", data / part)

    assert result.exit_code == 0
    assert "sound" in result.output
    assert "problem" not in result.output


def test_verify_tells_problems_and_what_to_do(data: Path) -> None:
    damage(data / "orders-0" / f"{SEGMENT}.log", 100)

    result = run("verify", data)

    assert result.exit_code == 1
    assert (
        f"problem\torders-0/{SEGMENT}.log\twrong checksum at byte 0, offsets 0 to 0"
        in result.output
    )
    assert "Restore the file" in result.output
    assert "1 problem(s)" in result.output


def test_verify_prints_json_for_programs(data: Path) -> None:
    damage(data / "orders-0" / f"{SEGMENT}.log", 100)

    result = CliRunner().invoke(cli, ["log", "verify", "--json", str(data)])

    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["sound"] is False
    assert found["partitions"][0]["findings"][0]["severity"] == "problem"
    assert found["partitions"][0]["batches"] == 9  # the others


def test_verify_refuses_what_is_no_log(data: Path, tmp_path: Path) -> None:
    assert run("verify", data / "orders-0" / f"{SEGMENT}.index").exit_code == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run("verify", empty).exit_code == 2


def damage(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x41
    path.write_bytes(content)


def test_verify_takes_the_data_directory_as_other_commands_do(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("verify", "--data", data).exit_code == 0
    monkeypatch.chdir(tmp_path)
    missing = run("verify")
    assert missing.exit_code == 2
    assert "there is no directory" in missing.output
    assert "--data DIR" in missing.output
    monkeypatch.setenv("MILLPOND_LOG_DIRS", str(data))
    result = run("verify")
    assert result.exit_code == 0
    assert "sound" in result.output


def test_verify_reads_every_node_of_a_local_cluster(
    data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    nodes = tmp_path_factory.mktemp("several")
    for name in ("node-1", "node-2"):
        shutil.copytree(data, nodes / name)
    assert "2 partition(s)" in run("verify", nodes).output
    damage(nodes / "node-2" / "orders-0" / f"{SEGMENT}.log", 100)
    assert run("verify", nodes).exit_code == 1
