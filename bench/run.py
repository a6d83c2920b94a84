"""One run of a benchmark: starts the two systems, takes samples in turns, keeps to the time budget.

Each cell is measured A, B, A, B ... while both systems run and the other idles. A cell that fails is marked
and the run continues.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import machine
from bench.brokers import Broker
from bench.model import Cell, Results, Sample, Values
from bench.raw_client import BenchmarkError

REPOSITORY = Path(__file__).resolve().parents[1]
ROUNDS_MIN = 3
# The errors of a broker or a client that fails. Its cell is marked and the run continues.
FAILURES = (BenchmarkError, AssertionError, OSError, RuntimeError, subprocess.SubprocessError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Creates the two systems of a run, and waits for a launched one."""

    make: Callable[[str, Path, Mapping[str, str]], Broker]
    wait_ready: Callable[[Broker], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cells that share a pair of running brokers."""

    name: str
    cells: tuple[Cell, ...]
    properties: Mapping[str, str] = field(default_factory=dict)  # for both brokers


class Run:
    """One run over all groups: starts brokers, takes samples, keeps to the time budget."""

    def __init__(
        self,
        results: Results,
        groups: list[Group],
        directory: Path,
        *,
        minutes_max: float,
        pair: Pair,
    ) -> None:
        self.results = results
        self.groups = groups
        self.directory = directory
        self.pair = pair
        self.started = time.perf_counter()
        self.ends = self.started + 60 * minutes_max
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
                broker = self.pair.make(system, data, group.properties)
                brokers.append(broker)
                stack.callback(shutil.rmtree, data, ignore_errors=True)
                if group.name != "start":  # its cells start their own brokers
                    stack.callback(broker.stop)
                    broker.launch()
                    self.pair.wait_ready(broker)
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
    except (AssertionError, BenchmarkError, OSError):
        return 0.0  # not running: the cell starts its own


def in_report_order(cells: list[Cell]) -> list[Cell]:
    """Sections in the order in which they first appear, cells of one section together."""
    order = list(dict.fromkeys(cell.section for cell in cells))
    return sorted(cells, key=lambda cell: order.index(cell.section))


def wanted(cell: Cell, only: list[str]) -> bool:
    return not only or any(
        cell.name.startswith(part) or fnmatchcase(cell.name, part) for part in only
    )


def shown(path: Path) -> str:
    return str(path.relative_to(REPOSITORY)) if path.is_relative_to(REPOSITORY) else path.name


def document_of(options: argparse.Namespace) -> Path | None:
    """Return where the tables of a run go: the named document, or docs/benchmarks.md after a whole run.

    None for a run that is smaller, that leaves cells out or that measures one system alone.
    """
    if options.document is not None:
        named: Path = options.document
        return named
    is_partial = (
        options.quick
        or getattr(options, "only", [])
        or not all(getattr(options, system, True) for system in ("millpond", "kafka", "rabbitmq"))
    )
    return None if is_partial else REPOSITORY / "docs" / "benchmarks.md"


def raise_descriptor_limit() -> None:
    """Raise the limit: a thousand connections and two thousand topics need descriptors, here and in the
    brokers.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 20_000 if hard == resource.RLIM_INFINITY else min(20_000, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def rounds(text: str) -> int:
    """Parse a number of rounds from the command line."""
    count = int(text)
    if count < ROUNDS_MIN:
        raise argparse.ArgumentTypeError(f"at least {ROUNDS_MIN} rounds make a median")
    return count
