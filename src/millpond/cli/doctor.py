"""``millpond doctor``: is this machine fit, is the data sound, does the broker answer?

Each check is a small function that answers one or more findings; none changes anything. Exit code 0 when
nothing is wrong (advice does not count), 1 when something is.
"""

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millpond.cli.output import check_bootstrap, is_terminal, print_table
from millpond.client._model import parse_bootstrap

if TYPE_CHECKING:
    from millpond.server.config import Settings

GIB = 1024**3
FREE_BYTES_LOW = 1 * GIB
FREE_BYTES_WRONG = 100 * 1024**2
OPEN_FILES_LOW = 4096
# Millpond did not exist before; a clock that says otherwise gives every record a wrong time.
EARLIEST_SANE_YEAR = 2025


class Verdict(StrEnum):
    """How a finding is to be taken."""

    GOOD = "ok"
    ADVICE = "advice"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check, and what to do about it."""

    check: str
    verdict: Verdict
    detail: str
    advice: str = ""


@click.command()
@click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    envvar="MILLPOND_CONFIG",
    help="Check with the settings of this file.",
)
@click.option(
    "-d", "--data", type=click.Path(path_type=Path), metavar="DIR", help="The data directory."
)
@click.option(
    "-b",
    "--bootstrap-server",
    "--bootstrap",
    "bootstrap",
    metavar="HOST:PORT",
    envvar="MILLPOND_BOOTSTRAP",
    callback=check_bootstrap,
    help="Ask this broker; the configured listener otherwise.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs to read.")  # fmt: skip
def doctor(*, file: Path | None, data: Path | None, bootstrap: str | None, as_json: bool) -> None:
    """Check Python, the machine's limits, the settings, the data directory and the connection."""
    findings = list(_examine(file, data, bootstrap))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        _print(findings)
    sys.exit(1 if any(finding.verdict is Verdict.WRONG for finding in findings) else 0)


def _examine(file: Path | None, data: Path | None, bootstrap: str | None) -> Iterator[Finding]:
    yield from check_python()
    yield from check_libraries()
    yield from check_open_files()
    yield from check_clock()
    settings, finding = _load_settings(file, data)
    yield finding
    if settings is None:
        return
    yield from check_data(settings)
    yield from check_address(settings, bootstrap)


# --- the machine ----------------------------------------------------------------------------------


def check_python() -> Iterator[Finding]:
    """The interpreter."""
    version = f"{platform.python_implementation()} {platform.python_version()}"
    if not __debug__:
        yield Finding(
            check="python",
            verdict=Verdict.WRONG,
            detail=f"{version} with -O",
            advice="run without -O and PYTHONOPTIMIZE: Millpond's checks are asserts",
        )
    else:
        yield Finding(check="python", verdict=Verdict.GOOD, detail=version)


def check_libraries() -> Iterator[Finding]:
    """The compiled libraries that the broker leans on."""
    from importlib import import_module
    from importlib.metadata import version

    for name, why, needed in (
        ("crc32c", "checksums", True),
        ("cramjam", "compression", True),
        ("uvloop", "a faster event loop", False),
    ):
        try:
            import_module(name)
        except ImportError as error:
            yield Finding(
                check=name,
                verdict=Verdict.WRONG if needed else Verdict.ADVICE,
                detail=f"not usable: {error}",
                advice=f"pip install {name} ({why})",
            )
        else:
            yield Finding(check=name, verdict=Verdict.GOOD, detail=f"{version(name)}, for {why}")


def check_open_files() -> Iterator[Finding]:
    """The limit of open files; `up` lifts the soft one to the hard one by itself."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = hard == resource.RLIM_INFINITY or hard >= OPEN_FILES_LOW
    yield Finding(
        check="open files",
        verdict=Verdict.GOOD if enough else Verdict.ADVICE,
        detail=f"{soft} now, up to {'any number' if hard == resource.RLIM_INFINITY else hard}",
        advice="" if enough else f"raise the hard limit to {OPEN_FILES_LOW} or more (ulimit -Hn)",
    )


def check_clock() -> Iterator[Finding]:
    """Check whether the wall clock can be right."""
    now = time.localtime()
    sane = now.tm_year >= EARLIEST_SANE_YEAR
    yield Finding(
        check="clock",
        verdict=Verdict.GOOD if sane else Verdict.WRONG,
        detail=time.strftime("%Y-%m-%d %H:%M:%S %Z", now),
        advice="" if sane else "set the clock: records carry its time, and retention goes by it",
    )


# --- settings and data ----------------------------------------------------------------------------


def _load_settings(file: Path | None, data: Path | None) -> "tuple[Settings | None, Finding]":
    from millpond.base.errors import InvalidConfig
    from millpond.server.config import Given, Origin, load_settings

    overrides = []
    if data is not None:
        overrides.append(Given("log.dirs", str(data), Origin.COMMAND_LINE, "--data"))
    try:
        settings = load_settings(file=file, environment=os.environ, overrides=overrides)
    except InvalidConfig as error:
        return None, Finding(check="settings", verdict=Verdict.WRONG, detail=str(error))
    count = len(settings.sources)
    detail = f"{count} set, the rest at their defaults" if count else "all at their defaults"
    remarks = "; ".join((*settings.warnings, *settings.notices))
    verdict = Verdict.ADVICE if settings.warnings else Verdict.GOOD
    return settings, Finding(check="settings", verdict=verdict, detail=detail, advice=remarks)


def check_data(settings: "Settings") -> Iterator[Finding]:
    """The data directory: usable, in use, closed cleanly, room left."""
    path = settings.data
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield Finding(
            check="data",
            verdict=Verdict.WRONG,
            detail=f"{existing} is not a directory that can be written to",
            advice="make it writable, or choose another with --data",
        )
        return
    yield _check_space(existing)
    if not path.exists():
        yield Finding(
            check="data",
            verdict=Verdict.GOOD,
            detail=f"{path} is not there yet; `millpond up` makes it",
        )
        return
    from millpond.server.failures import StartFailed
    from millpond.server.local_cluster import nodes_in

    try:
        nodes = nodes_in(path)
    except StartFailed as failure:
        advice = "; ".join(failure.advice)
        yield Finding(check="data", verdict=Verdict.WRONG, detail=failure.what, advice=advice)
        return
    if nodes is None:
        yield from _check_contents(path, settings.node_id)
        return
    for number in range(1, nodes + 1):  # as `millpond up --nodes` has laid them out
        if (path / f"node-{number}").exists():
            yield from _check_contents(path / f"node-{number}", number)


def _check_space(path: Path) -> Finding:
    usage = shutil.disk_usage(path)
    detail = f"{usage.free / GIB:.1f} GiB free of {usage.total / GIB:.1f}"
    if usage.free < FREE_BYTES_WRONG:
        advice = "a full disk stops writes; free some space or lower log.retention.bytes"
        return Finding(check="disk", verdict=Verdict.WRONG, detail=detail, advice=advice)
    if usage.free < FREE_BYTES_LOW:
        advice = "little room is left; retention can be limited with log.retention.bytes"
        return Finding(check="disk", verdict=Verdict.ADVICE, detail=detail, advice=advice)
    return Finding(check="disk", verdict=Verdict.GOOD, detail=detail)


def _check_contents(path: Path, node_id: int) -> Iterator[Finding]:
    partitions = [
        entry
        for entry in path.iterdir()
        if entry.is_dir() and entry.name.rpartition("-")[2].isdecimal()
    ]
    count = f"{len(partitions)} partitions in {path.resolve()}"
    holder = lock_holder(path)
    if holder is not None:
        yield Finding(check="data", verdict=Verdict.GOOD, detail=f"{count}; in use by {holder}")
        return
    yield from _check_meta(path, node_id)
    clean = (path / ".kafka_cleanshutdown").exists()
    if clean or not partitions:
        yield Finding(check="data", verdict=Verdict.GOOD, detail=f"{count}; closed cleanly")
    else:
        yield Finding(
            check="data",
            verdict=Verdict.ADVICE,
            detail=f"{count}; not closed cleanly",
            advice="the next start checks the logs and says what it finds; `millpond log verify` looks now",
        )


def _check_meta(path: Path, node_id: int) -> Iterator[Finding]:
    from millpond.server.properties import read_properties

    meta = path / "meta.properties"
    if not meta.exists():
        return
    values = {entry.key: entry.value for entry in read_properties(meta.read_text(encoding="utf-8"))}
    owner = values.get("node.id", values.get("broker.id", ""))
    if owner != str(node_id):
        yield Finding(
            check="identity",
            verdict=Verdict.WRONG,
            detail=f"the data belongs to node {owner or '?'}, the settings say node {node_id}",
            advice=f"set node.id={owner}, or choose another directory with --data",
        )
    else:
        cluster = values.get("cluster.id", "?")
        yield Finding(
            check="identity", verdict=Verdict.GOOD, detail=f"node {node_id} of cluster {cluster}"
        )


def lock_holder(path: Path) -> str | None:
    """Describe the process that holds the lock of a data directory; ``None`` if none does."""
    import fcntl

    lock = path / ".lock"
    try:
        with lock.open("rb") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read(64).decode("ascii", "replace").strip()
                return f"process {text}" if text.isdecimal() else "another process"
    except OSError:
        return None
    return None


# --- the connection -------------------------------------------------------------------------------


def check_address(settings: "Settings", bootstrap: str | None) -> Iterator[Finding]:
    """Check whether a broker answers, in Kafka's protocol."""
    import socket

    from millpond.server.endpoints import LOOPBACK, host_port

    listener = settings.listeners[0].bind
    asked = bootstrap is not None
    host, port = parse_bootstrap(bootstrap)[0] if bootstrap else (listener.host, listener.port)
    host = host or LOOPBACK
    address = host_port(host, port)
    if port == 0:
        yield Finding(check="address", verdict=Verdict.GOOD, detail=f"{host}: any free port")
        return
    try:
        with socket.create_connection((host, port), timeout=3):
            pass
    except OSError as error:
        yield Finding(
            check="address",
            verdict=Verdict.WRONG if asked else Verdict.GOOD,
            detail=f"{address}: {error.strerror or error}" if asked else f"{address} is free",
            advice="is the broker running? `millpond up` starts one" if asked else "",
        )
        return
    yield _ask_broker(address)


def _ask_broker(address: str) -> Finding:
    from millpond.client.blocking import BlockingClient

    started = time.monotonic()
    try:
        with BlockingClient(address, client_id="millpond-doctor", timeout_s=5) as client:
            cluster = client.describe_cluster()
            topics = client.list_topics()
    except Exception as error:  # noqa: BLE001 - whatever went wrong is the finding
        return Finding(
            check="address",
            verdict=Verdict.WRONG,
            detail=f"{address} accepts connections but does not answer as a Kafka broker: {error}",
            advice="another program may have the port; choose another with --listen",
        )
    elapsed_ms = (time.monotonic() - started) * 1000
    count = "1 topic" if len(topics) == 1 else f"{len(topics)} topics"
    detail = f"{address} answers in {elapsed_ms:.0f} ms: cluster {cluster.cluster_id}, {count}"
    return Finding(check="address", verdict=Verdict.GOOD, detail=detail)


# --- showing --------------------------------------------------------------------------------------


def _print(findings: list[Finding]) -> None:
    if not is_terminal():
        rows = [(item.verdict, item.check, item.detail, item.advice) for item in findings]
        print_table(("Verdict", "Check", "Detail", "Advice"), rows)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    colours = {Verdict.GOOD: "green", Verdict.ADVICE: "yellow", Verdict.WRONG: "bold red"}
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        colour = colours[finding.verdict]
        advice = f"\n[dim]{escape(finding.advice)}[/]" if finding.advice else ""
        table.add_row(
            f"[{colour}]{finding.verdict}[/]", finding.check, escape(finding.detail) + advice
        )
    Console(highlight=False).print(table)
