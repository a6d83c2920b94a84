"""The stories of ``tests/interop/java/rabbit/driver``: all of them in one JVM for each broker."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.support.java_tools import QUICK_START, jars

RABBIT = Path(__file__).resolve().parents[1] / "java" / "rabbit"
POM = RABBIT / "pom.xml"
COMPILE_TIMEOUT_S = 180


def missing_reason() -> str | None:
    """Why they cannot be told here; None if they can."""
    if shutil.which("javac") is None:
        return "a JDK is not installed (make interop-deps)"
    if not (_jars() / ".complete").exists():
        return "RabbitMQ's Java client is not in the cache (make interop-deps)"
    return None


def command() -> tuple[str, ...]:
    """Of the driver; the port of a broker comes after it."""
    flags = ("-Xmx256m", *QUICK_START, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    return ("java", *flags, "-cp", f"{_classes()}:{_jars()}/*", "Stories")


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
        compile_ = ["javac", "-nowarn", "-cp", f"{_jars()}/*", "-d", str(target)]
        done = subprocess.run(
            [*compile_, *map(str, sources)],
            capture_output=True,
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"the driver does not compile:\n{done.stderr.decode()}"
        (target / ".complete").touch()
    return target
