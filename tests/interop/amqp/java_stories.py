"""The stories of ``tests/interop/java/rabbit/driver``: all of them in one JVM for each broker."""

import functools
import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.java_tools import QUICK_START, jars

RABBIT = Path(__file__).resolve().parents[1] / "java" / "rabbit"
POM = RABBIT / "pom.xml"
TIMEOUT_S = 120


def missing_reason() -> str | None:
    """Why they cannot be told here; None if they can."""
    if shutil.which("javac") is None:
        return "a JDK is not installed (make interop-deps)"
    if not (_jars() / ".complete").exists():
        return "RabbitMQ's Java client is not in the cache (make interop-deps)"
    return None


@functools.cache
def told(port: int) -> dict[str, list[str]]:
    """What each story's client saw at this broker."""
    command = ["java", "-Xmx256m", *QUICK_START, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    done = subprocess.run(
        [*command, "-cp", f"{_classes()}:{_jars()}/*", "Stories", str(port)],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    print(done.stderr.decode(errors="replace")[-8000:])
    assert done.returncode == 0
    stories: dict[str, list[str]] = {}
    for line in done.stdout.decode().splitlines():
        if line.startswith("== "):
            stories[line[3:]] = []
        else:
            stories[max(stories, key=list(stories).index)].append(line)
    return stories


def _jars() -> Path:
    return jars(POM, "rabbit-clients")


def _classes() -> Path:
    """Compiled once for each state of the sources."""
    sources = sorted((RABBIT / "driver").glob("*.java"))
    key = hashlib.sha256(_jars().name.encode())
    for source in sources:
        key.update(source.read_bytes())
    target = _jars().parent / f"rabbit-driver-{key.hexdigest()[:12]}"
    if not (target / ".complete").exists():
        command = ["javac", "-nowarn", "-cp", f"{_jars()}/*", "-d", str(target), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, f"the driver does not compile:\n{done.stderr.decode()}"
        (target / ".complete").touch()
    return target
