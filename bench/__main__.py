"""`python -m bench`: Millpond beside Apache Kafka on this machine; `make bench` calls it.

    python -m bench                     the log and the wire, at most 25 minutes
    python -m bench groups              groups, transactions, commits, share groups, at most 6 minutes
    python -m bench --quick             a smaller everything, at most 4 minutes
    python -m bench --only round-trip   cells whose name starts so or matches so; may be repeated
    python -m bench --list              names of the cells
    python -m bench --no-kafka          Millpond alone
    python -m bench cluster             three nodes beside three, at most 10 minutes
    python -m bench spark               Spark's formats beside each other, at most 6 minutes

Both brokers run at the same time and idle while the other is measured; each cell is measured A, B, A, B ...
Groups of cells that look at memory or at growth get fresh brokers. Everything is on loopback, the data is in
a temporary directory that is removed at the end, and only processes started here are stopped.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tests.support import java_tools

from bench import groups as group_cells
from bench import growth, latency, machine, rdkafka, throughput
from bench.brokers import KAFKA, MILLPOND, Broker, KafkaBroker, first_produce, make_broker
from bench.model import FULL, QUICK, Cell, Results, Sample, Scale, Values
from bench.raw_client import BenchmarkError
from bench.report import write_document, write_json

REPOSITORY = Path(__file__).resolve().parents[1]
ROUNDS_MIN = 3
# What a broker or a client that fails looks like from here. Its cell is marked and the run goes on.
FAILURES = (BenchmarkError, AssertionError, OSError, RuntimeError, subprocess.SubprocessError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cells that share a pair of running brokers."""

    name: str
    cells: tuple[Cell, ...]
    properties: Mapping[str, str] = field(default_factory=dict)  # for both brokers


def main() -> None:
    if sys.argv[1:2] == ["spark"]:
        from bench import spark

        spark.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["cluster"]:
        from bench import cluster

        cluster.main(sys.argv[2:])
        return
    options = _options()
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="millpond-bench-", dir=options.data) as scratch:
        directory = Path(scratch)
        groups = [
            replace(group, cells=wanted)
            for group in _groups(options.suite, scale, directory)
            if (wanted := tuple(cell for cell in group.cells if _wanted(cell, options.only)))
        ]
        if options.list:
            for group in groups:
                for cell in group.cells:
                    print(cell.name)
            return
        chosen = {MILLPOND: options.millpond, KAFKA: options.kafka}
        systems = [system for system, run in chosen.items() if run]
        if KAFKA in systems and (reason := KafkaBroker.missing_reason()):
            raise SystemExit(f"bench: {reason}; or use --no-kafka")
        _raise_descriptor_limit()
        # An installed package has its byte code beside it; a check-out must be allowed to keep it too.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        results = Results(
            scale=scale.name if options.suite == "all" else options.suite,
            rounds=options.rounds,
            systems=systems,
            machine=_facts(directory),
        )
        Run(results, groups, directory, scale).everything()
        path = write_json(results, options.output)
    cells = [cell for group in groups for cell in group.cells]
    console = Console()
    console.print(f"Raw samples: {path}")
    if options.only and not options.document:
        return
    document = options.document or REPOSITORY / "docs" / "benchmarks.md"
    suite = None if options.suite == "all" else options.suite
    write_document(results, _in_report_order(cells), document, source=_shown(path), suite=suite)
    console.print(f"Table: {document}")


def _groups(suite: str, scale: Scale, directory: Path) -> list[Group]:
    if suite == "groups":
        cells = tuple(group_cells.cells())
        return [Group(name="groups", cells=cells, properties=group_cells.PROPERTIES)]
    return all_groups(scale, directory)


def all_groups(scale: Scale, directory: Path) -> list[Group]:
    groups = [
        Group(name="start", cells=tuple(latency.start_cells(directory))),
        Group(name="round trips", cells=tuple(latency.cells(scale))),
        Group(name="throughput", cells=tuple(throughput.cells(scale))),
        Group(name="growth: topics", cells=tuple(growth.topic_cells(scale))),
        Group(name="growth: connections", cells=tuple(growth.connection_cells(scale))),
        Group(name="growth: log", cells=tuple(growth.log_cells(scale))),
    ]
    if scale.fresh_brokers:
        return groups
    together = tuple(cell for group in groups[1:] for cell in group.cells)
    return [groups[0], Group(name="all", cells=together)]


class Run:
    """One run over all groups: starts brokers, takes samples, keeps to the time budget."""

    def __init__(
        self, results: Results, groups: list[Group], directory: Path, scale: Scale
    ) -> None:
        self.results = results
        self.groups = groups
        self.directory = directory
        self.started = time.perf_counter()
        self.ends = self.started + 60 * scale.minutes_max
        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )

    def everything(self) -> None:
        runs = sum(len(group.cells) for group in self.groups) * self.results.rounds
        with self.progress:
            self.task = self.progress.add_task("starting", total=runs * len(self.results.systems))
            for group in self.groups:
                if self._time_left() < 20:
                    self._skip(group.cells, "the time budget is spent")
                    continue
                with self._brokers(group) as brokers:
                    for cell in group.cells:
                        self._cell(cell, brokers)
        self.results.seconds = time.perf_counter() - self.started

    def _time_left(self) -> float:
        return self.ends - time.perf_counter()

    def _skip(self, cells: tuple[Cell, ...], reason: str) -> None:
        for cell in cells:
            self.results.skipped.append(f"{cell.name} ({reason})")
        self.progress.advance(
            self.task, len(cells) * self.results.rounds * len(self.results.systems)
        )

    @contextmanager
    def _brokers(self, group: Group) -> Iterator[list[Broker]]:
        with ExitStack() as stack:
            brokers = []
            for system in self.results.systems:
                self.progress.update(self.task, description=f"{group.name}: starting {system}")
                data = self.directory / f"{group.name}-{system}"
                broker = make_broker(system, data, group.properties)
                brokers.append(broker)
                stack.callback(shutil.rmtree, data, ignore_errors=True)
                if group.name != "start":  # its cells start their own
                    stack.callback(broker.stop)
                    broker.launch()
                    first_produce(broker, "bench-ready")
            yield brokers

    def _cell(self, cell: Cell, brokers: list[Broker]) -> None:
        needed = cell.seconds * self.results.rounds * len(brokers)
        if self._time_left() < needed:
            self._skip((cell,), "the time budget is spent")
            return
        broken = {broker.name for broker in brokers if not self._prepare(cell, broker)}
        for round_number in range(1, self.results.rounds + 1):
            for broker in brokers:
                self.progress.update(
                    self.task, description=f"{cell.name}  {broker.name} #{round_number}"
                )
                if broker.name not in broken and not self._sample(cell, broker, round_number):
                    broken.add(broker.name)
                self.progress.advance(self.task)

    def _prepare(self, cell: Cell, broker: Broker) -> bool:
        if cell.prepare is None:
            return True
        self.progress.update(self.task, description=f"{cell.name}  {broker.name} preparing")
        try:
            values = cell.prepare(broker)
        except FAILURES as error:
            self._failed(cell, broker, 0, error)
            return False
        if values:
            self.results.samples.append(
                Sample(cell=cell.name, system=broker.name, round=0, values=values)
            )
        return True

    def _sample(self, cell: Cell, broker: Broker, round_number: int) -> bool:
        clock, busy, own = time.perf_counter(), machine.busy_seconds(), machine.own_cpu_seconds()
        cpu = _cpu_or_zero(broker)
        try:
            values: Values = cell.run(broker)
        except FAILURES as error:
            self._failed(cell, broker, round_number, error)
            return False
        used = max(0.0, _cpu_or_zero(broker) - cpu) + machine.own_cpu_seconds() - own
        cores = machine.core_count()
        wall = time.perf_counter() - clock
        others = max(0.0, machine.busy_seconds() - busy - used) / (wall * cores)
        self.results.samples.append(
            Sample(
                cell=cell.name,
                system=broker.name,
                round=round_number,
                values=values,
                others_cpu=round(others, 3),
            )
        )
        return True

    def _failed(self, cell: Cell, broker: Broker, round_number: int, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self.progress.console.print(f"[red]{cell.name} {broker.name}: {text[:400]}")
        self.results.samples.append(
            Sample(
                cell=cell.name, system=broker.name, round=round_number, values={}, error=text[:2000]
            )
        )


def _cpu_or_zero(broker: Broker) -> float:
    try:
        return machine.cpu_seconds_of(broker.pid)
    except (AssertionError, OSError):
        return 0.0  # not running: the cell starts its own


def _in_report_order(cells: list[Cell]) -> list[Cell]:
    """Sections in the order in which they first appear, cells of one section together."""
    order = list(dict.fromkeys(cell.section for cell in cells))
    return sorted(cells, key=lambda cell: order.index(cell.section))


def _wanted(cell: Cell, only: list[str]) -> bool:
    return not only or any(
        cell.name.startswith(part) or fnmatchcase(cell.name, part) for part in only
    )


def _shown(path: Path) -> str:
    return str(path.relative_to(REPOSITORY)) if path.is_relative_to(REPOSITORY) else path.name


def _raise_descriptor_limit() -> None:
    """A thousand connections and two thousand topics need descriptors, here and in the brokers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 20_000 if hard == resource.RLIM_INFINITY else min(20_000, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _facts(directory: Path) -> dict[str, object]:
    facts = machine.facts(directory)
    facts["librdkafka"] = rdkafka.version()
    facts["kafka"] = next(
        (jar.stem.rpartition("-")[2] for jar in java_tools.jars().glob("kafka-server-[0-9]*.jar")),
        "not installed",
    )
    facts["date"] = datetime.now(UTC).strftime("%Y-%m-%d")
    return facts


def _rounds(text: str) -> int:
    rounds = int(text)
    if rounds < ROUNDS_MIN:
        raise argparse.ArgumentTypeError(f"at least {ROUNDS_MIN} rounds make a median")
    return rounds


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("suite", nargs="?", choices=("all", "groups"), default="all")
    parser.add_argument("--quick", action="store_true", help="smaller, at most 4 minutes")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=_rounds, default=ROUNDS_MIN, metavar="N")
    parser.add_argument("--kafka", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--millpond", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--list", action="store_true", help="print the names of the cells and end")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "bench" / "results")
    parser.add_argument("--document", type=Path, help="where the table goes (docs/benchmarks.md)")
    parser.add_argument("--data", type=Path, help="parent of the temporary data directory")
    return parser.parse_args()


if __name__ == "__main__":
    main()
