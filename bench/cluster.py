"""`python -m bench cluster`: three nodes of Millpond beside three of Apache Kafka, on this machine.

    python -m bench cluster             at most 11 minutes
    python -m bench cluster --quick     smaller, to see that it works
    python -m bench cluster --no-kafka  Millpond alone

Both clusters keep their default time-outs and run at the same time; each idles while the other is measured.
All nodes share the machine's cores, so figures of throughput show the cost of replication, not the speed of
three machines. The table goes into docs/benchmarks.md, between its own marks. A cell that fails is named
there, and the others are measured: a cluster with stopped nodes is restarted first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from tests.support.processes.cluster_processes import (
    ClusterNode,
    MillpondCluster,
    controller_of,
    leader_of,
    wait_in_sync,
)
from tests.support.processes.java_tools import missing_reason
from tests.support.processes.kafka_cluster import KafkaCluster, KafkaNode
from tests.support.processes.ports import wait_until

from bench import machine
from bench.brokers import KAFKA, KAFKA_JVM_FLAGS, MILLPOND
from bench.raw_client import BenchmarkError
from bench.report import number
from bench.run import document_of
from millpond.base.ids import TopicPartition
from millpond.client import BlockingAdmin, ClientError

REPOSITORY = Path(__file__).resolve().parents[1]
BEGIN = "<!-- bench:cluster:begin (written by `python -m bench cluster`) -->"
END = "<!-- bench:cluster:end -->"
PARTITIONS = 6
TIMEOUT_S = 120.0
CLIENT_S_MAX = 120
# Each cell is measured once; further rounds begin only while the whole will be done in 11 minutes, and
# nothing begins after this.
BUDGET_S = 10 * 60.0
ROUNDS_SHARE = 0.55

T = TypeVar("T")
Trio: TypeAlias = MillpondCluster | KafkaCluster
Cell: TypeAlias = Callable[[], dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table."""

    cell: str
    key: str
    label: str
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement."""

    cell: str
    system: str
    round: int
    values: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A cell that could not be measured."""

    cell: str
    system: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of everything."""

    messages: dict[int, int]  # bytes of a record -> how many
    rounds: int
    partitions: int


FULL = Scale(messages={100: 2_000_000, 1024: 300_000}, rounds=3, partitions=1000)
QUICK = Scale(messages={100: 50_000, 1024: 10_000}, rounds=1, partitions=60)

FIGURES = (
    Figure(cell="produce 100 B", key="msgs_per_s", label="produce, 3 replicas, acks=all, 100 B, msgs/s"),
    Figure(cell="produce 1 KB", key="mb_per_s", label="produce, 3 replicas, acks=all, 1 KB, MB/s"),
    Figure(cell="produce 1 KB", key="cpu_s_per_gb", label="CPU of all nodes, s/GB", higher_is_better=False),
    Figure(cell="consume 100 B", key="msgs_per_s", label="consume, 100 B, msgs/s"),
    Figure(cell="consume 1 KB", key="mb_per_s", label="consume, 1 KB, MB/s"),
    Figure(cell="leader fail-over", key="seconds", label="leader killed: last to next acknowledgement, s",
           higher_is_better=False),
    Figure(cell="controller fail-over", key="seconds", label="controller killed: until a topic is made, s",
           higher_is_better=False),
    Figure(cell="clean stop", key="seconds", label="leader stopped cleanly: longest pause, s",
           higher_is_better=False),
    Figure(cell="restart", key="stop_s", label="node of a thousand partitions: clean stop, s",
           higher_is_better=False),
    Figure(cell="restart", key="start_s", label="node of a thousand partitions: start until in sync, s",
           higher_is_better=False),
    Figure(cell="memory", key="rss_mb", label="memory of all nodes at the end, MB", higher_is_better=False),
    *(
        Figure(cell=f"scaling {count}", key="mb_per_s", label=f"produce, 1 replica, {count} node(s), MB/s")
        for count in (1, 2, 3)
    ),
)  # fmt: skip


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    systems = [MILLPOND, KAFKA] if options.kafka else [MILLPOND]
    if options.kafka and (reason := missing_reason()):
        raise SystemExit(f"bench: {reason}; or use --no-kafka")
    scale = QUICK if options.quick else FULL
    console = Console()
    run = Run(scale, console)
    with tempfile.TemporaryDirectory(prefix="millpond-bench-", dir=options.data) as scratch:
        directory = Path(scratch)
        run.measure(systems, directory)
        facts = machine.facts(directory)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    path = options.output / f"{stamp}-cluster.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = {
        "machine": facts,
        "samples": [asdict(one) for one in run.samples],
        "failures": [asdict(one) for one in run.failures],
    }
    path.write_text(json.dumps(raw, indent=1) + "\n")
    body = markdown(run.samples, run.failures, facts, source=path.name, scale=scale)
    console.print(body, markup=False, soft_wrap=True)
    console.print(f"{run.elapsed_s / 60:.1f} minutes, {len(run.failures)} failures")
    document = document_of(options)
    if document is not None:
        write_document(body, document)


class Run:
    """All cells, one after the other; a failure is recorded and does not end the run."""

    def __init__(self, scale: Scale, console: Console) -> None:
        self.samples: list[Sample] = []
        self.failures: list[Failure] = []
        self._scale = scale
        self._console = console
        self._began = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self._began

    def measure(self, systems: list[str], directory: Path) -> None:
        """Measure all cells with three nodes, then one, two and three for the scaling."""
        with ExitStack() as stack:
            trios: dict[str, Trio] = {}
            for system in systems:
                self._console.print(f"starting three nodes of {system}")
                trio = make(system, directory / system, nodes=3)
                if self._try("start", system, partial(_started, stack, trio)) is not None:
                    trios[system] = trio
            for name, cell, rounds in cells(self._scale):
                for number_ in self._rounds(rounds):
                    for system, trio in trios.items():
                        topic = f"{name.replace(' ', '-')}-{number_}"
                        self._measure(name, system, number_, trio, partial(cell, trio, topic))
        for count in (1, 2, 3):
            for system in systems:
                self._try(
                    f"scaling {count}", system, partial(self._scaling, count, system, directory)
                )

    def _scaling(self, count: int, system: str, directory: Path) -> None:
        name = f"scaling {count}"
        with make(system, directory / f"{system}-{count}", nodes=count) as some:
            for number_ in self._rounds(self._scale.rounds):
                cell = partial(
                    produce, some, f"scaling-{number_}", size=1024, scale=self._scale, replicas=1
                )
                self._measure(name, system, number_, some, cell)

    def _rounds(self, wanted: int) -> Iterator[int]:
        for number_ in range(1, wanted + 1):
            if number_ > 1 and self.elapsed_s > BUDGET_S * ROUNDS_SHARE:
                return
            yield number_

    def _measure(self, name: str, system: str, round_number: int, trio: Trio, cell: Cell) -> None:
        if self.elapsed_s > BUDGET_S:
            self._fail(name, system, "out of time")
            return
        values = self._try(name, system, cell)
        if values is None:
            self._try("putting it together again", system, partial(mend, trio))
            return
        said = ", ".join(f"{key} {number(value)}" for key, value in values.items())
        self._console.print(f"{name} #{round_number} {system}: {said}")
        self.samples.append(Sample(cell=name, system=system, round=round_number, values=values))

    def _try(self, name: str, system: str, act: Callable[[], T]) -> T | None:
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - whatever a cell dies of, the others are measured
            self._fail(name, system, f"{type(error).__name__}: {error}")
            return None

    def _fail(self, name: str, system: str, reason: str) -> None:
        lines = reason.strip().splitlines() or [""]
        self.failures.append(Failure(cell=name, system=system, reason=lines[0][:200]))
        self._console.print(f"[red]{name} {system}: {reason}", soft_wrap=True)


def _started(stack: ExitStack, trio: Trio) -> bool:
    stack.enter_context(trio)
    wait_in_sync(trio.bootstrap, TIMEOUT_S)
    return True


def mend(trio: Trio) -> None:
    """Start the nodes that a cell has left stopped, and wait until all replicas are in sync."""
    for node in trio.nodes.values():
        if not _is_running(node):
            trio.start_node(node.node_id)
    wait_in_sync(trio.bootstrap, TIMEOUT_S)


def _is_running(node: ClusterNode | KafkaNode) -> bool:
    if isinstance(node, ClusterNode):
        return node.is_running()
    return node.process is not None and node.process.poll() is None


def make(system: str, directory: Path, *, nodes: int) -> Trio:
    """Return a cluster with its system's own defaults, not yet started."""
    if system == MILLPOND:
        return MillpondCluster(directory, nodes=nodes)
    factor = str(min(3, nodes))
    return KafkaCluster(
        directory,
        nodes=nodes,
        properties={
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
            "share.coordinator.state.topic.replication.factor": factor,
        },
        heap_mb=1024,
        jvm_flags=KAFKA_JVM_FLAGS,
        start_timeout_s=TIMEOUT_S,
    )


def cells(scale: Scale) -> Iterator[tuple[str, Callable[[Trio, str], dict[str, float]], int]]:
    """Yield the cells in the order of measurement."""
    for size, name in ((100, "100 B"), (1024, "1 KB")):
        yield f"produce {name}", partial(produce, size=size, scale=scale, replicas=3), scale.rounds
        yield f"consume {name}", partial(consume, size=size, scale=scale), scale.rounds
    yield "clean stop", clean_stop, scale.rounds
    yield "leader fail-over", leader_failover, scale.rounds
    yield "controller fail-over", controller_failover, scale.rounds
    yield "restart", partial(restart, scale=scale), 1
    yield "memory", memory, 1


# --- cells ---


def produce(trio: Trio, topic: str, *, size: int, scale: Scale, replicas: int) -> dict[str, float]:
    """Produce with librdkafka as fast as possible; half as much before, as a warm-up, does not count."""
    create(trio, topic, partitions=PARTITIONS, replicas=replicas)
    cpu = cpu_of(trio)
    count = scale.messages[size]
    more = ("--count", count, "--warmup", count // 2, "--size", size, "--acks", "-1")
    told = client("produce", trio, topic, *more)
    used = cpu_of(trio) - cpu
    return {**rates(told), "cpu_s_per_gb": used / ((count + count // 2) * size / 1e9)}


def consume(trio: Trio, topic: str, *, size: int, scale: Scale) -> dict[str, float]:
    """Consume with librdkafka what the produce cell of the same round has written."""
    count = scale.messages[size]
    written = topic.replace("consume", "produce")
    more = ("--count", count, "--size", size, "--partitions", PARTITIONS)
    return rates(client("consume", trio, written, *more))


def leader_failover(trio: Trio, topic: str) -> dict[str, float]:
    """Measure from the last acknowledgement before the leader was killed to the first one after."""
    return _lose_leader(trio, topic, lambda node_id: trio.nodes[node_id].kill())


def clean_stop(trio: Trio, topic: str) -> dict[str, float]:
    """Measure the longest pause when the leader shuts down cleanly."""
    return _lose_leader(trio, topic, trio.stop_node)


def _lose_leader(trio: Trio, topic: str, lose: Callable[[int], None]) -> dict[str, float]:
    create(trio, topic, partitions=1, replicas=3)
    leader = leader_of(trio.bootstrap, TopicPartition(topic, 0))
    with Ticker(trio.bootstrap, topic) as ticker:
        ticker.wait_for(100)
        began = time.perf_counter()
        lose(leader)
        ticker.wait_for(len(ticker.moments) + 200, after=began)
    trio.start_node(leader)
    wait_in_sync(trio.bootstrap, TIMEOUT_S)
    before = [moment for moment in ticker.moments if moment < began][-1]
    row = [before, *(moment for moment in ticker.moments if moment >= began)]
    return {"seconds": max(later - earlier for earlier, later in pairwise(row))}


def controller_failover(trio: Trio, topic: str) -> dict[str, float]:
    """Measure from the death of the quorum's leader until a topic can be created."""
    leader = controller_of(trio.bootstrap)
    others = ",".join(node.bootstrap for number, node in trio.nodes.items() if number != leader)
    with BlockingAdmin(others, retry_backoff_ms=10) as admin:
        admin.list_topics()
        began = time.perf_counter()
        trio.nodes[leader].kill()
        wait_until(lambda: _made(admin, topic), timeout_s=TIMEOUT_S, what="a topic is made")
        took = time.perf_counter() - began
    trio.start_node(leader)
    wait_in_sync(trio.bootstrap, TIMEOUT_S)
    return {"seconds": took}


def _made(admin: BlockingAdmin, topic: str) -> bool:
    try:
        admin.create_topic(topic, partitions=1, replication_factor=2, timeout_s=2)
    except ClientError as error:
        return "TOPIC_ALREADY_EXISTS" in str(error)
    return True


def restart(trio: Trio, topic: str, *, scale: Scale) -> dict[str, float]:
    """Measure a clean restart of one node with many partitions."""
    create(trio, topic, partitions=scale.partitions, replicas=3)
    node_id = next(number for number in trio.nodes if number != controller_of(trio.bootstrap))
    began = time.perf_counter()
    trio.stop_node(node_id)
    stopped = time.perf_counter()
    trio.start_node(node_id)
    wait_in_sync(trio.bootstrap, TIMEOUT_S)
    return {"stop_s": stopped - began, "start_s": time.perf_counter() - stopped}


def memory(trio: Trio, topic: str) -> dict[str, float]:
    """Measure the memory of all nodes."""
    return {"rss_mb": sum(machine.memory_of(node.pid).rss_mb for node in trio.nodes.values())}


class Ticker:
    """A producer that sends a record every few milliseconds and notes when each is acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.moments: list[float] = []
        self._topic = topic
        # librdkafka's defaults but for the linger, and acks=all with idempotence as it recommends.
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1}
        self._producer = Producer({**settings, "log_level": 0})

    def wait_for(self, count: int, *, after: float = 0.0) -> None:
        """Send until ``count`` acknowledgements have come, some of them after a moment."""
        deadline = time.perf_counter() + TIMEOUT_S
        while len(self.moments) < count or not self.moments[-1] > after:
            self._producer.produce(
                self._topic, b"tick", partition=0, on_delivery=self._acknowledged
            )
            self._producer.poll(0.005)
            if time.perf_counter() > deadline:
                raise BenchmarkError("nothing is acknowledged any more")

    def __enter__(self) -> Ticker:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.flush(TIMEOUT_S)

    def _acknowledged(self, error: object, _: object) -> None:
        if error is None:
            self.moments.append(time.perf_counter())


def create(trio: Trio, topic: str, *, partitions: int, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": trio.bootstrap})
    minimum = {"min.insync.replicas": str(min(2, replicas))}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=minimum)
    admin.create_topics([new], operation_timeout=60)[topic].result(90)
    wait_in_sync(trio.bootstrap, TIMEOUT_S)


def client(verb: str, trio: Trio, topic: str, *arguments: object) -> dict[str, Any]:
    """Run bench.rdkafka in its own process."""
    paths = [str(REPOSITORY / "src"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "bench.rdkafka", verb, trio.bootstrap, topic, *map(str, arguments)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=CLIENT_S_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"{verb}: {done.stderr[-500:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def rates(told: dict[str, Any]) -> dict[str, float]:
    return {"msgs_per_s": told["msgs_per_s"], "mb_per_s": told["mb_per_s"]}


def cpu_of(trio: Trio) -> float:
    return sum(machine.cpu_seconds_of(node.pid) for node in trio.nodes.values())


# --- the table ---


def markdown(
    samples: list[Sample],
    failures: list[Failure],
    facts: dict[str, Any],
    *,
    source: str,
    scale: Scale,
) -> str:
    """Return the table of medians, their spread, and the ratio; failures below."""
    lines = [
        (
            f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}, {facts['java']}. Millpond at"
            f" {facts['commit']}. Three nodes of each on one machine, default time-outs, topics with"
            f" {PARTITIONS} partitions and `min.insync.replicas=2`; medians of up to {scale.rounds} rounds"
            " with the lowest and highest. The ratio is Millpond's median divided by Kafka's; bold is the"
            f" better side of 1. Raw samples: `bench/results/{source}`."
        ),
        "",
        "| figure | Millpond | Apache Kafka | ratio |",
        "|---|--:|--:|--:|",
    ]
    for figure in FIGURES:
        ours, theirs = (_values(samples, figure, system) for system in (MILLPOND, KAFKA))
        if not ours and not theirs:
            continue
        ratio = ""
        if ours and theirs and median(theirs):
            value = median(ours) / median(theirs)
            ratio = f"{value:.2f}"
            if (value >= 1) == figure.higher_is_better:
                ratio = f"**{ratio}**"
        lines.append(f"| {figure.label} | {_shown(ours)} | {_shown(theirs)} | {ratio} |")
    if failures:
        lines += ["", "Not measured: " + "; ".join(map(_in_words, failures)) + "."]
    return "\n".join(lines) + "\n"


def _in_words(failure: Failure) -> str:
    return f"{failure.cell} of {failure.system} ({failure.reason})"


def _values(samples: list[Sample], figure: Figure, system: str) -> list[float]:
    return [
        one.values[figure.key]
        for one in samples
        if one.cell == figure.cell and one.system == system and figure.key in one.values
    ]


def _shown(values: list[float]) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))}-{number(max(values))})"


def write_document(body: str, path: Path) -> None:
    """Replace the text between the marks; append it to the file the first time."""
    text = path.read_text()
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n## A cluster of three\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{body}{END}{after}")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench cluster", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it works")
    parser.add_argument("--kafka", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "bench" / "results")
    parser.add_argument("--document", type=Path, help="where the table goes (docs/benchmarks.md)")
    parser.add_argument("--data", type=Path, help="parent of the temporary data directory")
    return parser.parse_args(arguments)
