"""``python -m examples.demo``: what it leaves running, and what it says where it cannot run."""

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")

from examples.demo.__main__ import main

from millpond.client import BlockingClient
from millpond.spark import java

ROOT = Path(__file__).parents[3]

KEEPER = """
import sys
from examples.demo.keeping import with_broker

def work(broker, place):
    (place / "lake").write_text("rows")
    print(broker.bootstrap, place, flush=True)
    return True

sys.exit(0 if with_broker(work, keep=sys.argv[1] == "keep") else 1)
"""


def start(how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", KEEPER, how], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def test_keep_leaves_the_broker_and_the_files_until_ctrl_c() -> None:
    with start("keep") as demo:
        assert demo.stdout is not None
        bootstrap, place = demo.stdout.readline().split()
        said = demo.stdout.readline()
        assert bootstrap in said
        with BlockingClient(bootstrap) as client:
            client.create_topic("afterwards", partitions=1)
        assert (Path(place) / "lake").read_text() == "rows"
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0
    assert not Path(place).exists()


def test_without_it_nothing_is_left() -> None:
    with start("go") as demo:
        assert demo.stdout is not None
        _bootstrap, place = demo.stdout.readline().split()
        assert demo.wait(60) == 0
    assert not Path(place).exists()


def test_a_machine_without_java_is_told_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_USUAL_PLACES", ())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in ("JAVA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")

    result = CliRunner().invoke(main, [])

    assert result.exit_code == 1
    (line,) = result.output.splitlines()
    assert "Java 17 or newer" in line
    assert "pip install '.[spark,jre]' in a clone" in line
