"""``millpond pipeline`` where PySpark is not installed: what it lists, explains, and says is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millpond.spark.pipelines import PIPELINES

SOURCE = Path(__file__).resolve().parents[3] / "src"

# What the extra `spark` brings, and nothing else does.
WITHOUT_SPARK = """
import sys
for name in ("pyspark", "py4j", "pyarrow", "numpy", "pandas"):
    sys.modules[name] = None
from millpond.cli import main
main(sys.argv[1:])
"""


def millpond(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, *arguments],
        env=os.environ | {"PYTHONPATH": str(SOURCE), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_pipelines_are_listed() -> None:
    listed = millpond("pipeline", "list")
    assert listed.returncode == 0, listed.stderr
    assert [line.split("\t")[0] for line in listed.stdout.splitlines()[1:]] == list(PIPELINES)


@pytest.mark.parametrize("name", PIPELINES)
def test_each_explains_its_options(name: str) -> None:
    helped = millpond("pipeline", "run", name, "--help")
    assert helped.returncode == 0, helped.stderr
    assert PIPELINES[name].summary in helped.stdout.replace("\n  ", " ")
    assert "--dead-letters" in helped.stdout


def test_running_one_says_what_to_install() -> None:
    refused = millpond("pipeline", "run", "lake", "--from", "clicks", "--to", "x", "--batch")
    assert refused.returncode == 1
    assert refused.stderr == "Error: pyspark is not installed: pip install '.[spark]' in a clone\n"
