"""Facts about this machine and its processes, read from /proc.

Every benchmark result carries them: a figure without its machine, versions and noise says nothing.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def facts(data_directory: Path) -> dict[str, Any]:
    """Return what a reader needs to judge or repeat the figures."""
    memory = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line
    )
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(int(memory["MemTotal"].split()[0]) / 1e6, 1),
        "kernel": platform.release(),
        "filesystem": _output(["stat", "-f", "-c", "%T", str(data_directory)]),
        "python": platform.python_version(),
        "java": _output(["java", "-version"]).partition("\n")[0],
        "packages": {name: _package(name) for name in ("uvloop", "crc32c", "confluent-kafka")},
        "commit": _output(["git", "rev-parse", "--short", "HEAD"]),
        "load_average": os.getloadavg(),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _output(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return "not installed"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return (done.stdout or done.stderr).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The resident set of a process: now and at its highest."""

    rss_mb: float
    peak_mb: float


def memory_of(pid: int) -> Memory:
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return Memory(
        rss_mb=int(fields["VmRSS"].split()[0]) / 1024,
        peak_mb=int(fields["VmHWM"].split()[0]) / 1024,
    )


def cpu_seconds_of(pid: int) -> float:
    """Return user and system time of a process with all of its threads."""
    # The command name may contain spaces and brackets; the text after its last bracket does not.
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS_PER_SECOND


def core_count() -> int:
    return os.cpu_count() or 1


def busy_seconds() -> float:
    """Return the CPU time that the whole machine spent on anything but idling and waiting for disks."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND


def own_cpu_seconds() -> float:
    """Return the CPU time of this process and the children that it has waited for."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return total
