"""`python -m bench faults`: how long clients wait when a node fails, beside Apache Kafka, on this machine.

    python -m bench faults                     all faults, at most 12 minutes
    python -m bench faults --quick             three of them, to see that it works
    python -m bench faults --only "cut off"    faults whose name contains this; may be repeated
    python -m bench faults --add FILE          with the samples of an earlier run; may be repeated
    python -m bench faults --no-kafka          Millpond alone

Three nodes of each with their default time-outs, each node in its own network namespace, so that the links
between nodes can be cut while clients reach all of them. Both clusters have the same fault at the same time.
The figure is the longest time without an acknowledgement: of a librdkafka producer (acks=all, idempotent, a
request time-out of 5 s) in any of three partitions that are led by the three nodes; and for Millpond of
publishers with confirms at a node without the fault, to three queues that were declared at the three nodes.
Needs root on Linux. The table goes into docs/benchmarks.md, between its own marks, when every fault was
measured at both.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypeAlias

import pika
import pika.exceptions
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from tests.support.processes import java_tools, net_spaces
from tests.support.processes.cluster_processes import (
    ClusterNode,
    MillpondCluster,
    controller_of,
    wait_in_sync,
)
from tests.support.processes.kafka_cluster import KafkaCluster, KafkaNode
from tests.support.processes.net_spaces import NetSpaces
from tests.support.processes.ports import free_port

from bench import machine
from bench.brokers import KAFKA, KAFKA_JVM_FLAGS, MILLPOND
from bench.raw_client import BenchmarkError

REPOSITORY = Path(__file__).resolve().parents[1]
BEGIN = "<!-- bench:faults:begin (written by `python -m bench faults`) -->"
END = "<!-- bench:faults:end -->"
NODES = (1, 2, 3)
REQUEST_TIMEOUT_MS = 5_000
TIMEOUT_S = 120.0
# Clients work for this long before a fault, and a killed node is away for this long.
BEFORE_S = 3.0
AWAY_S = 2.0
PACE_S = 0.005
AMQP = "Millpond, AMQP"
USER, PASSWORD = "bench", "secret"

Trio: TypeAlias = MillpondCluster | KafkaCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of the nodes ``struck``, which lasts for ``lasts_s``, and how it ends."""

    name: str
    # The node that leads the quorum, if it is one of them; others, and how many.
    controller: bool = False
    others: int = 0
    lasts_s: float = 14.0
    strike: Callable[[Trio, list[int]], None]
    mend: Callable[[Trio, list[int]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement."""

    fault: str
    system: str
    seconds: float


# --- faults ---


def kill(trio: Trio, struck: list[int]) -> None:
    for node in struck:
        trio.nodes[node].kill()


def kill_for_a_moment(trio: Trio, struck: list[int]) -> None:
    kill(trio, struck)
    time.sleep(AWAY_S)
    start(trio, struck)


def start(trio: Trio, struck: list[int]) -> None:
    for node in struck:
        _launch(trio, node)
    for node in struck:
        _wait_ready(trio, node)


def restart_each(trio: Trio, _struck: list[int]) -> None:
    for node in trio.nodes:
        trio.stop_node(node)
        trio.start_node(node)
        wait_in_sync(trio.bootstrap, TIMEOUT_S)


def stop_processes(trio: Trio, struck: list[int]) -> None:
    for node in struck:
        os.kill(trio.nodes[node].pid, signal.SIGSTOP)


def continue_processes(trio: Trio, struck: list[int]) -> None:
    for node in struck:
        os.kill(trio.nodes[node].pid, signal.SIGCONT)


def isolate(trio: Trio, struck: list[int]) -> None:
    assert trio.net is not None
    for node in struck:
        trio.net.isolate(node)


def part(trio: Trio, struck: list[int]) -> None:
    assert trio.net is not None
    trio.net.cut(struck[0], struck[1])


def heal(trio: Trio, _struck: list[int]) -> None:
    assert trio.net is not None
    trio.net.heal()


def nothing(_trio: Trio, _struck: list[int]) -> None:
    """Do nothing: the fault ends by itself."""


FAULTS = (
    Fault(name="a leader killed", others=1, strike=kill, mend=start),
    Fault(name="the controller killed", controller=True, strike=kill, mend=start),
    Fault(name="two killed, and started again after 2 s", controller=True, others=1, lasts_s=30.0,
          strike=kill_for_a_moment, mend=nothing),
    Fault(name="a rolling restart", lasts_s=3.0, strike=restart_each, mend=nothing),
    Fault(name="a leader stopped (SIGSTOP)", others=1, strike=stop_processes, mend=continue_processes),
    Fault(name="the controller stopped (SIGSTOP)", controller=True, strike=stop_processes,
          mend=continue_processes),
    Fault(name="a leader cut off from the others", others=1, strike=isolate, mend=heal),
    Fault(name="the controller cut off", controller=True, strike=isolate, mend=heal),
    Fault(name="two that are not the controller cut from each other", others=2, lasts_s=36.0, strike=part,
          mend=heal),
)  # fmt: skip
QUICK = ("a leader killed", "a leader cut off", "cut from each other")


def main(arguments: list[str]) -> None:
    options = _options(arguments)
    if reason := net_spaces.missing_reason():
        raise SystemExit(f"bench: no way between nodes can be cut here: {reason}")
    if options.kafka and (reason := java_tools.missing_reason()):
        raise SystemExit(f"bench: {reason}; or use --no-kafka")
    only = options.only or (QUICK if options.quick else ())
    faults = [one for one in FAULTS if not only or any(name in one.name for name in only)]
    console = Console()
    samples: list[Sample] = []
    for path in options.add:
        samples += [Sample(**one) for one in json.loads(path.read_text())["samples"]]
    with tempfile.TemporaryDirectory(prefix="millpond-bench-", dir=options.data) as scratch:
        directory = Path(scratch)
        samples += measure(faults, directory, console, kafka=options.kafka)
        facts = {**machine.facts(directory), "load": list(os.getloadavg())}
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    path = options.output / f"{stamp}-faults.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = {"machine": facts, "samples": [asdict(one) for one in samples]}
    path.write_text(json.dumps(raw, indent=1) + "\n")
    body = markdown(samples, facts, source=path.name)
    console.print(body, markup=False, soft_wrap=True)
    if is_complete(samples):
        write_document(body, options.document)


def measure(faults: list[Fault], directory: Path, console: Console, *, kafka: bool) -> list[Sample]:
    """Measure every fault, at all systems at the same time; a failure is printed and does not end the run."""
    samples: list[Sample] = []
    with ExitStack() as stack:
        ours = MillpondTrio(directory / MILLPOND, stack.enter_context(NetSpaces(NODES)))
        systems: dict[str, Callable[[Fault], list[Sample]]] = {MILLPOND: ours.suffer}
        starts: list[Callable[[], object]] = [ours.start]
        stack.callback(ours.stop)
        if kafka:
            theirs = make_kafka(directory / KAFKA, stack.enter_context(NetSpaces(NODES)))
            systems[KAFKA] = partial(_suffer_kafka, theirs)
            starts.append(theirs.start)
            stack.callback(theirs.stop)
        pool = stack.enter_context(ThreadPoolExecutor(len(systems)))
        for started in [pool.submit(one) for one in starts]:
            started.result()
        for fault in faults:
            running = {name: pool.submit(suffer, fault) for name, suffer in systems.items()}
            for name, future in running.items():
                try:
                    found = future.result()
                except Exception as error:  # noqa: BLE001 - the others are measured all the same
                    console.print(f"[red]{fault.name}, {name}: {type(error).__name__}: {error}")
                    continue
                for sample in found:
                    console.print(f"{fault.name}, {sample.system}: {sample.seconds:.1f} s")
                samples += found
    return samples


def _suffer_kafka(kafka: KafkaCluster, fault: Fault) -> list[Sample]:
    (seconds,) = suffer(kafka, fault, [])
    return [Sample(fault=fault.name, system=KAFKA, seconds=seconds)]


def suffer(trio: Trio, fault: Fault, more: list[Callable[[list[int]], Watched]]) -> list[float]:
    """Return the longest pause of each client: of the producer, and of others that get the struck nodes."""
    wait_in_sync(trio.bootstrap, TIMEOUT_S)
    topic = f"{fault.name.split('(')[0].replace(' ', '-').replace(',', '')}-{time.time_ns()}"
    new = NewTopic(
        topic,
        num_partitions=len(NODES),
        replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]],
        config={"min.insync.replicas": "2"},
    )
    admin = AdminClient({"bootstrap.servers": trio.bootstrap})
    admin.create_topics([new], operation_timeout=60)[topic].result(90)
    wait_in_sync(trio.bootstrap, TIMEOUT_S)
    struck = struck_by(fault, controller_of(trio.bootstrap))
    with ExitStack() as stack:
        clients: list[Watched] = [stack.enter_context(Ticker(trio.bootstrap, topic))]
        clients += [stack.enter_context(make(struck)) for make in more]
        time.sleep(BEFORE_S)
        began = time.perf_counter()
        try:
            fault.strike(trio, struck)
            time.sleep(max(0.0, fault.lasts_s - (time.perf_counter() - began)))
        finally:
            end = time.perf_counter()
            fault.mend(trio, struck)
    return [one.longest_pause(began, end) for one in clients]


def struck_by(fault: Fault, controller: int) -> list[int]:
    """Return the nodes of a fault."""
    others = [node for node in NODES if node != controller]
    return ([controller] if fault.controller else []) + others[: fault.others]


# --- clients ---


class Watched:
    """A client in its own thread that records when each of its rows gets an acknowledgement."""

    def __init__(self, rows: int) -> None:
        self.moments: list[list[float]] = [[] for _ in range(rows)]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(TIMEOUT_S)

    def longest_pause(self, began: float, end: float) -> float:
        """Return the longest time between two acknowledgements of a row, from the last one before the fault
        on.
        """
        longest = 0.0
        for row in self.moments:
            before = [moment for moment in row if moment < began][-1:]
            if not before:
                raise BenchmarkError("nothing was acknowledged before the fault")
            moments = [*before, *(one for one in row if began <= one <= end), end]
            longest = max(longest, *(later - sooner for sooner, later in pairwise(moments)))
        return longest

    def _run(self) -> None:
        raise NotImplementedError


class Ticker(Watched):
    """A producer that sends a record to each partition every few milliseconds."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(len(NODES))
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "log_level": 0,
            }
        )

    def _run(self) -> None:
        while not self._is_over.is_set():
            for partition in range(len(NODES)):
                with suppress(BufferError):
                    self._producer.produce(
                        self._topic, b"tick", partition=partition, on_delivery=self._acknowledged
                    )
            self._producer.poll(PACE_S)
        self._producer.purge()
        self._producer.flush(5)

    def _acknowledged(self, error: object, message: object) -> None:
        if error is None:
            self.moments[message.partition()].append(time.perf_counter())  # type: ignore[attr-defined]


class AmqpTicker(Watched):
    """A publisher with confirms, at one node, of one queue."""

    def __init__(self, address: tuple[str, int], queue: str) -> None:
        super().__init__(1)
        self._address = address
        self._queue = queue

    def _run(self) -> None:
        while not self._is_over.is_set():
            with suppress(pika.exceptions.AMQPError, OSError, AssertionError):
                self._publish()
            self._is_over.wait(0.1)

    def _publish(self) -> None:
        with connected(self._address) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not self._is_over.is_set():
                with suppress(pika.exceptions.NackError):
                    persistent = pika.BasicProperties(delivery_mode=2)
                    channel.basic_publish("", self._queue, b"tick", persistent, mandatory=True)
                    self.moments[0].append(time.perf_counter())
                self._is_over.wait(PACE_S)


def connected(address: tuple[str, int]) -> pika.BlockingConnection:
    host, port = address
    who = pika.PlainCredentials(USER, PASSWORD)
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            host, port, credentials=who, heartbeat=10, socket_timeout=3, stack_timeout=5
        )
    )


# --- clusters ---


class MillpondTrio:
    """Three nodes with AMQP listeners and one queue at each."""

    def __init__(self, directory: Path, net: NetSpaces) -> None:
        self.cluster = MillpondCluster(directory, net=net)
        self._addresses: dict[int, tuple[str, int]] = {}
        self._management = {node: free_port() for node in NODES}
        for node_id, node in self.cluster.nodes.items():
            self._addresses[node_id] = node.host, free_port()
            node.properties["listeners"] = (
                f"PLAINTEXT://{node.bootstrap},AMQP://{node.host}:{self._addresses[node_id][1]},"
                f"MANAGEMENT://127.0.0.1:{self._management[node_id]}"
            )

    def start(self) -> None:
        """Start the nodes, create a user that may log in from other machines, declare the queues."""
        self.cluster.start()
        assert self.cluster.net is not None
        for words in (["add", USER, "--new-password", PASSWORD], ["permit", USER]):
            command = [
                *self.cluster.net.prefix(1),
                sys.executable,
                "-m",
                "millpond",
                "user",
                *words,
            ]
            at = ["--management", f"127.0.0.1:{self._management[1]}"]
            subprocess.run([*command, *at], check=True, timeout=60, capture_output=True)
        for node, address in self._addresses.items():
            with connected(address) as connection:
                connection.channel().queue_declare(f"bench-{node}", durable=True)

    def stop(self) -> None:
        if self.cluster.net is not None:
            self.cluster.net.heal()
        self.cluster.stop()

    def suffer(self, fault: Fault) -> list[Sample]:
        """Return the producer's longest pause, and the longest of the publishers'."""
        more = [partial(self._publisher, queue=f"bench-{node}") for node in NODES]
        if fault.name == "a rolling restart":
            more = []  # every node is struck
        kafka, *amqp = suffer(self.cluster, fault, [*more])
        found = [Sample(fault=fault.name, system=MILLPOND, seconds=kafka)]
        if amqp:
            found.append(Sample(fault=fault.name, system=AMQP, seconds=max(amqp)))
        return found

    def _publisher(self, struck: list[int], *, queue: str) -> AmqpTicker:
        spared = next(node for node in NODES if node not in struck)
        return AmqpTicker(self._addresses[spared], queue)


def make_kafka(directory: Path, net: NetSpaces) -> KafkaCluster:
    factors = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return KafkaCluster(
        directory,
        properties={f"{name}.replication.factor": "3" for name in factors},
        heap_mb=1024,
        jvm_flags=KAFKA_JVM_FLAGS,
        start_timeout_s=TIMEOUT_S,
        net=net,
    )


def _launch(trio: Trio, node_id: int) -> None:
    if isinstance(trio, KafkaCluster):
        trio.launch(node_id)
    else:
        trio.nodes[node_id].launch()


def _wait_ready(trio: Trio, node_id: int) -> None:
    node: ClusterNode | KafkaNode = trio.nodes[node_id]
    if isinstance(trio, KafkaCluster):
        trio.wait_ready(node_id)
    else:
        assert isinstance(node, ClusterNode)
        node.wait_ready()


# --- the table ---


def is_complete(samples: list[Sample]) -> bool:
    """Return whether every fault was measured at both systems."""
    found = {(one.fault, one.system) for one in samples}
    return all((fault.name, system) in found for fault in FAULTS for system in (MILLPOND, KAFKA))


def markdown(samples: list[Sample], facts: dict[str, object], *, source: str) -> str:
    """Return the table of medians with their spread, and the ratio."""
    load = facts.get("load")
    shown = f" Load of the machine at the end: {load[0]:.1f}." if isinstance(load, list) else ""
    lines = [
        (
            f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}, {facts['java']}. Millpond at"
            f" {facts['commit']}. Three nodes of each on one machine, default time-outs, both under the same"
            " fault at the same time.\nThe longest time without an acknowledgement, in seconds: of a"
            f" librdkafka producer with a request time-out of {REQUEST_TIMEOUT_MS // 1000} s in any of three"
            " partitions led by the three nodes, and of AMQP\npublishers with confirms at a node that is not"
            f" struck. The ratio is Millpond's divided by Kafka's; bold is below 1.{shown}\nRaw samples:"
            f" `bench/results/{source}`."
        ),
        "",
        "| fault | Millpond | Apache Kafka | ratio | Millpond, AMQP |",
        "|---|--:|--:|--:|--:|",
    ]
    for fault in FAULTS:
        ours, theirs, amqp = (
            [one.seconds for one in samples if (one.fault, one.system) == (fault.name, system)]
            for system in (MILLPOND, KAFKA, AMQP)
        )
        if not ours and not theirs:
            continue
        ratio = ""
        if ours and theirs:
            value = median(ours) / median(theirs)
            ratio = f"**{value:.2f}**" if value < 1 else f"{value:.2f}"
        cells = [fault.name, _shown(ours), _shown(theirs), ratio, _shown(amqp)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _shown(values: list[float]) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def write_document(body: str, path: Path) -> None:
    """Replace the text between the marks; append it to the file the first time."""
    text = path.read_text()
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n## Faults\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{body}{END}{after}")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench faults", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="three faults, to see that it works")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--add", action="append", default=[], type=Path, metavar="FILE")
    parser.add_argument("--kafka", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "bench" / "results")
    parser.add_argument("--document", type=Path, default=REPOSITORY / "docs" / "benchmarks.md")
    parser.add_argument("--data", type=Path, help="parent of the temporary data directory")
    return parser.parse_args(arguments)
