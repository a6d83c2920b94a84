"""`python -m bench spark`: format("millpond") beside Spark's official connector, at both brokers, in one run.

    python -m bench spark               at most 15 minutes
    python -m bench spark --quick       smaller, to see that it works
    python -m bench spark --decode      only what a task reads in a second of CPU time

Both formats run in one session (``bench/spark_job.py``) and take turns; start-up is measured in separate
processes, without and with the archive that `millpond spark warmup` makes. One more session has a single core
to itself and the brokers the others. The table goes into docs/benchmarks.md, between its own marks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from tests.support.processes import java_tools

from bench import machine
from bench.brokers import KAFKA, MILLPOND, Broker, first_produce, make_broker
from bench.raw_client import BenchmarkError, RawClient
from bench.report import number
from bench.run import document_of
from bench.spark_job import OFFICIAL, OURS, OURS_AT_LEAST_ONCE, Order, quantile

REPOSITORY = Path(__file__).resolve().parents[1]
CONNECTOR = REPOSITORY / "tests" / "spark" / "connector" / "pom.xml"
BEGIN = "<!-- bench-spark:begin (written by `python -m bench spark`) -->"
END = "<!-- bench-spark:end -->"
DECODE_BEGIN = "<!-- bench-spark-decode:begin (written by `python -m bench spark --decode`) -->"
DECODE_END = "<!-- bench-spark-decode:end -->"
PARTITIONS = 4
RECORD_BYTES = 100
JOB_SECONDS_MAX = 900
TOPICS = {"large": "spark-large", "small": "spark-small", "slow": "spark-slow", "out": "spark-out"}
FORM_NAMES = {
    OURS: "millpond",
    OURS_AT_LEAST_ONCE: "millpond, at-least-once",
    OFFICIAL: "official connector",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table."""

    cell: str
    key: str
    label: str
    higher_is_better: bool = True


FIGURES = (
    Figure(cell="start", key="session_s", label="session, s", higher_is_better=False),
    Figure(
        cell="start", key="first_rows_s", label="session and first rows, s", higher_is_better=False
    ),
    Figure(
        cell="warm start", key="session_s", label="session, warmed up, s", higher_is_better=False
    ),
    Figure(
        cell="warm start",
        key="first_rows_s",
        label="session and first rows, warmed up, s",
        higher_is_better=False,
    ),
    Figure(cell="batch read", key="records_per_s", label="batch read, records/s"),
    Figure(cell="one core", key="records_per_s", label="batch read on one core, records/s"),
    Figure(cell="stream to Parquet", key="records_per_s", label="stream to Parquet, records/s"),
    Figure(cell="stream to the lake", key="records_per_s", label="the pipeline lake, records/s"),
    Figure(cell="micro-batch", key="p50_ms", label="micro-batch p50, ms", higher_is_better=False),
    Figure(cell="micro-batch", key="p99_ms", label="micro-batch p99, ms", higher_is_better=False),
    Figure(cell="write", key="records_per_s", label="batch write, records/s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement, as the job printed it. Round 0 was a warm-up."""

    cell: str
    broker: str
    form: str
    round: int
    values: dict[str, float]
    times_ms: list[float] = field(default_factory=list)


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    jars = sorted(java_tools.jars(CONNECTOR, "spark-connector").glob("*.jar"))
    reason = java_tools.missing_reason()
    if reason or len(jars) != 4:
        raise SystemExit(
            f"bench: {reason or 'no jars of the official connector'} (make interop-deps)"
        )
    console = Console()
    if options.decode:
        _decode(options, console)
        return
    with tempfile.TemporaryDirectory(prefix="millpond-bench-", dir=options.data) as scratch:
        directory = Path(scratch)
        samples = measure(options, ",".join(map(str, jars)), directory, console)
        facts = machine.facts(directory)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    path = options.output / f"{stamp}-spark.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = {"machine": facts, "samples": [asdict(one) for one in samples]}
    path.write_text(json.dumps(raw, indent=1) + "\n")
    body = markdown(
        samples, facts, records=options.records, rounds=options.rounds, source=path.name
    )
    console.print(body, markup=False, soft_wrap=True)
    document = document_of(options)
    if document is not None:
        write_document(body, document)


def _decode(options: argparse.Namespace, console: Console) -> None:
    """Measure what a task reads in a second of CPU time, and write its sentence."""
    with (
        tempfile.TemporaryDirectory(prefix="millpond-bench-", dir=options.data) as scratch,
        ExitStack() as stack,
    ):
        directory = Path(scratch)
        broker = make_broker(MILLPOND, directory / MILLPOND)
        stack.callback(broker.stop)
        broker.launch()
        first_produce(broker, "bench-ready")
        topic = TOPICS["large"]
        with RawClient("127.0.0.1", broker.port) as client:
            client.create_topics([topic], partitions=PARTITIONS)
            for partition in range(PARTITIONS):
                client.wait_until_writable(topic, partition)
            client.fill(topic, records=options.records, size=RECORD_BYTES, partitions=PARTITIONS)
            held = client.end_offsets(topic, PARTITIONS)
        samples = _run(
            Order(
                kind="decode",
                jars="",
                directory=str(directory),
                brokers={MILLPOND: f"127.0.0.1:{broker.port}"},
                records={MILLPOND: held},
                rounds=options.rounds,
                partitions=PARTITIONS,
                topics=TOPICS,
            ),
            console,
        )
        facts = machine.facts(directory)
    whole, decoded = (
        median([one.values[key] for one in samples if one.round > 0])
        for key in ("records_per_cpu_s", "decoded_per_cpu_s")
    )
    body = (
        f"One task of Spark reads {number(whole)} records of {RECORD_BYTES} bytes in a second of its Python"
        " process' CPU time (fetched, checked, decoded and made Arrow batches;"
        f" {number(decoded)} without the thread that fetches): median of {options.rounds} rounds over"
        f" {options.records:,} records. {facts['cpu']}, Python {facts['python']}, Millpond at"
        f" {facts['commit']}.\n"
    )
    console.print(body, markup=False, soft_wrap=True)
    document = document_of(options)
    if document is not None:
        write_document(body, document, DECODE_BEGIN, DECODE_END)


def measure(
    options: argparse.Namespace, jars: str, directory: Path, console: Console
) -> list[Sample]:
    """Start both brokers, fill them with the same bytes, run the jobs."""
    with ExitStack() as stack:
        brokers: dict[str, str] = {}
        held: dict[str, int] = {}
        running: list[Broker] = []
        for system in (MILLPOND, KAFKA):
            broker = make_broker(system, directory / system)
            running.append(broker)
            stack.callback(broker.stop)
            broker.launch()
            first_produce(broker, "bench-ready")
            with RawClient("127.0.0.1", broker.port) as client:
                wide = [topic for name, topic in TOPICS.items() if name != "slow"]
                client.create_topics(wide, partitions=PARTITIONS)
                client.create_topics([TOPICS["slow"]])
                client.wait_until_writable(TOPICS["slow"])
                for topic, records in (("large", options.records), ("small", 1000)):
                    for partition in range(PARTITIONS):
                        client.wait_until_writable(TOPICS[topic], partition)
                    client.fill(
                        TOPICS[topic], records=records, size=RECORD_BYTES, partitions=PARTITIONS
                    )
                held[system] = client.end_offsets(TOPICS["large"], PARTITIONS)
            brokers[system] = f"127.0.0.1:{broker.port}"
            console.print(f"{system}: {held[system]} records")
        samples: list[Sample] = []
        for cell, systems in (("start", (MILLPOND, KAFKA)), ("warm start", (MILLPOND,))):
            # A separate cache, so that the archive exists when it should and at no other time.
            cache = directory / f"cache-{cell.replace(' ', '-')}"
            if cell == "warm start":
                _warm_up(cache, console)
            for _ in range(options.rounds):
                for system in systems:
                    for form in (OURS, OFFICIAL):
                        order = Order(
                            kind="start",
                            cell=cell,
                            jars=jars if form == OFFICIAL else "",
                            directory=str(directory),
                            brokers={system: brokers[system]},
                            form=form,
                            topics=TOPICS,
                        )
                        samples += _run(order, console, cache=cache)
        one_core = Order(
            kind="one core",
            master="local[1]",
            jars=jars,
            directory=str(directory),
            brokers=brokers,
            records=held,
            rounds=options.rounds,
            topics=TOPICS,
        )
        samples += _run_on_one_core(one_core, [broker.pid for broker in running], console)
        samples += _run(
            Order(
                kind="work",
                jars=jars,
                directory=str(directory),
                brokers=brokers,
                records=held,
                rows_to_write=options.rows_to_write,
                batches_to_time=options.batches_to_time,
                rounds=options.rounds,
                topics=TOPICS,
            ),
            console,
        )
        return samples


def _warm_up(cache: Path, console: Console) -> None:
    """Create the archive of classes in the cache."""
    command = [sys.executable, "-m", "millpond", "spark", "warmup"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=_environment(cache),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"no archive: {done.stderr[-1000:]}")
    console.print(f"warmed up: {done.stdout.strip()}")


def _run_on_one_core(order: Order, brokers: list[int], console: Console) -> list[Sample]:
    """Run Spark, its JVM and its Python processes on the last core, the brokers on all others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 or shutil.which("taskset") is None:
        console.print("one core: needs two cores and taskset; left out")
        return []
    try:
        _pin(brokers, cores[:-1])
        return _run(order, console, prefix=("taskset", "--cpu-list", str(cores[-1])))
    finally:
        _pin(brokers, cores)


def _pin(processes: list[int], cores: list[int]) -> None:
    """Pin processes and their threads to these cores."""
    for process in processes:
        chosen = ",".join(map(str, cores))
        command = ["taskset", "--all-tasks", "--cpu-list", "--pid", chosen, str(process)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _environment(cache: Path | None) -> dict[str, str]:
    paths = [str(REPOSITORY / "src"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    own_cache = {"MILLPOND_CACHE": str(cache)} if cache is not None else {}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **own_cache}


def _run(
    order: Order, console: Console, *, cache: Path | None = None, prefix: Sequence[str] = ()
) -> list[Sample]:
    """Run a job and take its samples as they come."""
    with subprocess.Popen(
        [*prefix, sys.executable, "-m", "bench.spark_job", json.dumps(asdict(order))],
        cwd=REPOSITORY,
        env=_environment(cache),
        stdout=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stdout is not None
        samples = []
        for line in job.stdout:
            if line.startswith("{"):
                samples.append(Sample(**json.loads(line)))
                one = samples[-1]
                figures = ", ".join(f"{key} {number(value)}" for key, value in one.values.items())
                console.print(f"{one.cell} #{one.round} {one.form} at {one.broker}: {figures}")
        if job.wait(JOB_SECONDS_MAX) != 0:
            raise BenchmarkError(f"the Spark job ended with {job.returncode}")
    return samples


# --- the table ---


def markdown(
    samples: list[Sample], facts: dict[str, Any], *, records: int, rounds: int, source: str
) -> str:
    """The table of medians and ratios."""
    lines = [
        (
            f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}, {facts['java']}. Millpond at"
            f" {facts['commit']}. `local[2]`, {records:,} records of {RECORD_BYTES} bytes in {PARTITIONS}"
            f" partitions, medians of {rounds} rounds after a warm-up (micro-batches: quantiles of all"
            f" batches of the rounds{_batches(samples)}). One core: `local[1]`, Spark with all its processes"
            " pinned to one core and the brokers to the others, by the clock on the wall. The ratio is"
            " our format's figure divided by the official connector's at the same broker; bold is the better"
            f" side of 1. Raw samples: `bench/results/{source}`."
        ),
        "",
        "| figure | broker | format | value | ratio |",
        "|---|---|---|--:|--:|",
    ]
    for figure in FIGURES:
        for broker in (MILLPOND, KAFKA):
            official = _median(samples, figure, broker, OFFICIAL)
            for form, name in FORM_NAMES.items():
                value = _median(samples, figure, broker, form)
                if value is None:
                    continue
                ratio = ""
                if form != OFFICIAL and official:
                    ratio = f"{value / official:.2f}"
                    if (value >= official) == figure.higher_is_better:
                        ratio = f"**{ratio}**"
                shown = {MILLPOND: "Millpond", KAFKA: "Apache Kafka"}[broker]
                lines.append(f"| {figure.label} | {shown} | {name} | {number(value)} | {ratio} |")
    return "\n".join(lines) + "\n"


def _median(samples: list[Sample], figure: Figure, broker: str, form: str) -> float | None:
    counted = [
        one
        for one in samples
        if (one.cell, one.broker, one.form) == (figure.cell, broker, form) and one.round > 0
    ]
    if not counted:
        return None
    times = sorted(time for one in counted for time in one.times_ms)
    if times:
        return quantile(times, int(figure.key.removeprefix("p").removesuffix("_ms")) / 100)
    return median([one.values[figure.key] for one in counted])


def _batches(samples: list[Sample]) -> str:
    """Return the smallest number of batches that the quantiles are of."""
    counts: dict[tuple[str, str], int] = {}
    for one in samples:
        if one.times_ms and one.round > 0:
            place = one.broker, one.form
            counts[place] = counts.get(place, 0) + len(one.times_ms)
    return f", at least {min(counts.values())}" if counts else ""


def write_document(body: str, path: Path, begin: str = BEGIN, finish: str = END) -> None:
    """Replace the text between the marks, which must exist."""
    text = path.read_text()
    before, mark, rest = text.partition(begin)
    _, end, after = rest.partition(finish)
    if not mark or not end:
        raise SystemExit(f"bench: {path} has no place for the result ({begin} … {finish})")
    path.write_text(f"{before}{begin}\n{body}{finish}{after}")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench spark", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it works")
    parser.add_argument("--decode", action="store_true", help="only what a task reads in CPU time")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "bench" / "results")
    parser.add_argument("--document", type=Path, help="where the table goes (docs/benchmarks.md)")
    parser.add_argument("--data", type=Path, help="parent of the temporary data directory")
    options = parser.parse_args(arguments)
    options.records = 100_000 if options.quick else 2_000_000
    options.rows_to_write = 50_000 if options.quick else 500_000
    options.batches_to_time = 20 if options.quick else 100
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options
