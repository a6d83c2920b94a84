"""The stories of ``tests/interop/java/rabbit/driver``: all of them in one JVM for each broker."""

import hashlib
import shutil
from pathlib import Path

from tests.support.processes.java_host import compile_once
from tests.support.processes.java_tools import QUICK_START, jars

RABBIT = Path(__file__).resolve().parents[1] / "java" / "rabbit"
POM = RABBIT / "pom.xml"


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
    compile_once(sources, _jars(), target)
    return target
