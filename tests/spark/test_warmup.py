"""`millpond spark warmup`: the archive of classes is made, and the next session takes its classes from it."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from millpond.cli import cli
from millpond.spark.java import find_java
from millpond.spark.session import archive_path
from tests.support.processes.broker_process import ROOT

# Nobody dies here, but it takes most of a minute: it is run by `make crash-spark`.
pytestmark = pytest.mark.crash

# A session of its own that writes down where each class came from.
SESSION = """
import sys
from millpond.spark.session import build_session
log = f"-Xlog:class+load:file={sys.argv[1]}"
spark = build_session("warm", "local[1]", **{"spark.driver.extraJavaOptions": log})
assert spark.range(10).count() == 10
spark.stop()
"""


def test_the_archive_is_made_and_the_next_session_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = find_java()
    if java.is_from_wheel:
        pytest.skip("the Java that pip brings cannot use a class archive")
    monkeypatch.setenv("MILLPOND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))

    made = CliRunner().invoke(cli, ["spark", "warmup"])

    assert made.exit_code == 0, made.output
    archive = archive_path(java)
    assert str(archive) in made.output
    assert [path.name for path in archive.parent.glob("*.jsa*")] == [archive.name], (
        "nothing else is left"
    )
    loaded = tmp_path / "classes.log"
    subprocess.run([sys.executable, "-c", SESSION, str(loaded)], check=True, timeout=300)
    # What is made while it runs (lambdas) is in no file, and so in no archive.
    lines = [line for line in loaded.read_text().splitlines() if "Lambda" not in line]
    ours = [line for line in lines if " org.apache.spark." in line]
    shared = [line for line in ours if "source: shared objects file (top)" in line]
    assert len(shared) > 1000
    assert len(shared) > 0.9 * len(ours), f"{len(shared)} of {len(ours)} came from the archive"
    assert str(archive) in CliRunner().invoke(cli, ["spark", "doctor", "--json"]).output
