"""An earlier release of Millpond, taken from this repository's own history, to be run beside this one."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.processes.broker_process import ROOT

# The first release that makes clusters, and the oldest that nodes of this one must live with.
FIRST_CLUSTERS = "510e5f7b8c4342b1644c21df5b660bda17978524"


def unpack(commit: str, directory: Path) -> Path:
    """The sources of a commit, to be put on PYTHONPATH.

    Skips the test where there is no history to take them from: an unpacked archive, or a shallow clone that
    cannot be deepened. A whole clone without the commit is a failure.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git clone: there is no earlier release to take from its history")
    packed = _git("archive", "--format=tar", commit, "src")
    is_shallow = _git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    if packed.returncode != 0 and is_shallow:
        _git("fetch", "--quiet", "--unshallow")
        packed = _git("archive", "--format=tar", commit, "src")
    if packed.returncode != 0:
        why = packed.stderr.decode(errors="replace").strip()
        reason = f"the history does not reach back to {commit[:7]} ({why}); git fetch --unshallow"
        if is_shallow:
            pytest.skip(reason)
        pytest.fail(reason)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory / "src"


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    # The clone may belong to somebody else than who runs the tests.
    safe = ("-c", f"safe.directory={ROOT}")
    return subprocess.run(
        ["git", *safe, *arguments], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
