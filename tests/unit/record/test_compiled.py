"""The kernels in C are used where they are built, unless somebody says no or they are of another build."""

import os
import subprocess
import sys

import pytest

from millpond.record import compiled

ASK = "from millpond.record.compiled import COMPILED; print(COMPILED)"


def answer(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_twins_can_be_forced() -> None:
    assert answer(MILLPOND_PURE_PYTHON="1") == "False"


@pytest.mark.skipif(not compiled.COMPILED, reason="the kernels in C are not built here")
def test_kernels_of_another_build_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(MILLPOND_PURE_PYTHON="0") == "True"
    monkeypatch.setenv("MILLPOND_PURE_PYTHON", "")
    assert compiled._available()
    monkeypatch.setattr("millpond.record._columns.INTERFACE", compiled.INTERFACE + 1)
    assert not compiled._available()
