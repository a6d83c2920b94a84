"""A ready-to-use Spark session: finds Java, with good defaults and little logging.

Every setting here can be overridden; defaults are only set where the user set none.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any, TypeAlias

from millpond.spark.java import Java, cache_dir, use_java

SparkSession: TypeAlias = Any  # PySpark is not followed by the type checker

# The default manager starts twenty processes for each batch on a local disk; this one saves a third of a
# micro-batch's time. Its renames are safe on a local disk only, so a cluster keeps Spark's own choice.
_LOCAL_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    # Times without a zone mean the same on every machine, and results are written in UTC.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "50",
    # Spark refuses a source that supports filter pushdown unless this is set; see the option pushFilters.
    "spark.sql.python.filterPushdown.enabled": "true",
}

# A session on this machine alone needs no web server and no host name.
_LOCAL_DEFAULTS = {
    "spark.sql.streaming.checkpointFileManagerClass": _LOCAL_CHECKPOINTS,
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

_QUIET = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

_WORKER_PYTHON = """\
#!/bin/sh
# Python for Spark's workers, with the installed PySpark instead of the zip in Spark's own folder.
kept=
IFS=:
for place in $PYTHONPATH; do
  case $place in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept=${{kept:+$kept:}}$place ;;
  esac
done
PYTHONPATH=$kept exec {python} "$@"
"""


def build_session(app: str, master: str = "local[*]", **conf: str) -> SparkSession:
    """Return a session with our defaults; ``conf`` are Spark's settings by name and override them.

    ``build_session("orders", **{"spark.sql.shuffle.partitions": "8"})``. Raises ``NoJava`` when there is no
    Java runtime. If the process has a session already, that one is returned with the settings that can still
    be changed.
    """
    java = use_java()
    from pyspark.sql import SparkSession as Session

    # Spark would use any python3 on the path.
    os.environ.setdefault(
        "PYSPARK_PYTHON", str(worker_python()) if is_local(master) else sys.executable
    )
    if is_local(master):
        _let_workers_import()
    builder = Session.builder.appName(app).master(master)
    for name, value in session_settings(master, conf, java).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def session_settings(master: str, conf: dict[str, str], java: Java) -> dict[str, str]:
    """Return the settings of a session."""
    settings = dict(_DEFAULTS)
    if is_local(master):
        settings |= _LOCAL_DEFAULTS
        settings["spark.sql.shuffle.partitions"] = str(local_cores(master))
    settings |= conf
    flags = [f"-Dlog4j2.configurationFile={_quiet_logs().as_uri()}"]
    archive = archive_path(java)
    if archive.exists():
        flags += [
            f"-XX:SharedArchiveFile={shlex.quote(str(archive))}",
            "-Xshare:auto",
            "-Xlog:disable",
            "-Xlog:all=error",
        ]
    settings["spark.driver.extraJavaOptions"] = " ".join(
        [*flags, conf.get("spark.driver.extraJavaOptions", "")]
    ).strip()
    return settings


def is_local(master: str) -> bool:
    """Return whether everything runs in one JVM on this machine."""
    return master.startswith("local")


def local_cores(master: str) -> int:
    """Return the number of cores of ``local[n]``."""
    match = re.match(r"local\[(\d+)", master)
    if match is not None:
        return int(match[1])
    return 1 if master == "local" else os.cpu_count() or 1


def archive_path(java: Java) -> Path:
    """Return the path of the class archive for this Java and this Spark; ``warmup`` creates it."""
    try:
        spark = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        spark = "none"
    home = re.sub(r"[^A-Za-z0-9]+", "-", str(java.home)).strip("-")
    return cache_dir() / f"spark-{spark}-java-{java.version}-{home}.jsa"


def worker_python() -> Path:
    """Return the interpreter for Spark's Python processes: a script that starts this one a second faster.

    Spark puts its own copy of PySpark before the installed one: a zip without compiled files, which every
    process then compiles for itself. On a busy machine that takes longer than the ten seconds Spark waits.
    """
    installed = importlib.util.find_spec("pyspark")
    if os.name != "posix" or installed is None or ".zip" in (installed.origin or ".zip"):
        return Path(sys.executable)
    if any(character.isspace() for character in str(cache_dir())):
        return Path(
            sys.executable
        )  # Spark would cut the script's name there, and not find the source
    tag = hashlib.sha256(sys.executable.encode()).hexdigest()[:12]
    script = _WORKER_PYTHON.format(python=shlex.quote(sys.executable))
    return _kept(cache_dir() / f"spark-python-{tag}", script, mode=0o755)


def _quiet_logs() -> Path:
    return _kept(cache_dir() / "spark-log4j2.properties", _QUIET)


def _kept(path: Path, text: str, mode: int = 0o644) -> Path:
    """Return a small file in the cache directory, rewritten if it is missing or differs."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(mode)
        fresh.replace(path)
    return path


def _let_workers_import() -> None:
    """Let Python workers import Millpond from where this process did, also in a checkout."""
    ours = str(Path(__file__).resolve().parents[2])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if ours not in paths and not ours.endswith("site-packages"):
        os.environ["PYTHONPATH"] = os.pathsep.join([ours, *paths])
