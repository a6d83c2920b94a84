"""Cells of AMQP: each varies one parameter of one ordinary workload."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench import amqp_perf_test
from bench.amqp_brokers import (
    EXCHANGE,
    MillpondAmqp,
    declare,
    delete,
    first_publish,
    make_broker,
    purge,
    waiting,
)
from bench.amqp_pika import routing_key
from bench.brokers import Broker
from bench.machine import cpu_seconds_of, memory_of
from bench.model import Cell, Metric, Values
from bench.raw_client import BenchmarkError
from bench.run import REPOSITORY

IDLE_SECONDS = 2.0
# The largest times of a start, in a program and as a process.
START_SECONDS = 0.5
BACKLOG_QUEUE = "backlog"
ROUTED_QUEUE = "routed"
UNLIMITED = 0
# How often a backlog is filled up, and how long to wait for a count that does not grow.
FILLS_MAX = 3
STILL_SECONDS = 5.0

_numbers = itertools.count(1)

# Rates of the ordinary load on an empty queue, by broker and size.
Empty = dict[tuple[str, int], list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpScale:
    """How much of everything."""

    name: str
    seconds: float  # of a run of perf-test
    backlog: int
    bindings: int
    round_trips: int
    pika_messages: int
    connections: int
    minutes_max: float


FULL = AmqpScale(
    name="amqp",
    seconds=3.0,
    backlog=1_000_000,
    bindings=100_000,
    round_trips=500,
    pika_messages=20_000,
    connections=100,
    minutes_max=18.0,
)
QUICK = AmqpScale(
    name="amqp-quick",
    seconds=3.0,
    backlog=50_000,
    bindings=5_000,
    round_trips=100,
    pika_messages=4_000,
    connections=20,
    minutes_max=8.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One workload of perf-test. A prefetch of None is without acknowledgements."""

    size: int = 1024
    persistent: bool = True
    confirms: int | None = 100  # how many may be open; None: no confirms
    prefetch: int | None = 100
    ack_every: int = 1
    queues: int = 1
    producers: int = 1
    consumers: int = 1
    rate: int | None = None
    backlog: bool = False
    title: str = field(default="")

    @property
    def name(self) -> str:
        kind = "persistent" if self.persistent else "transient"
        parts = [str(self.size), kind, f"c{self.confirms}" if self.confirms else "unconfirmed"]
        if self.consumers:
            parts.append("auto-ack" if self.prefetch is None else f"prefetch-{self.prefetch}")
        if self.ack_every > 1:
            parts.append(f"acks-of-{self.ack_every}")
        if self.queues > 1:
            parts.append(f"queues-{self.queues}")
        if self.producers + self.consumers > 2 and self.queues == 1:
            parts.append(f"connections-{self.producers + self.consumers}")
        return "/".join(parts)

    def arguments(self, queues: list[str]) -> list[str]:
        words = ["--predeclared", "-e", EXCHANGE]
        if len(queues) == 1:
            words += ["-k", queues[0], "-u", queues[0]]
        else:
            words += ["--queue-pattern", f"{queues[0][:-2]}-%d"]
            words += ["--queue-pattern-from", "1", "--queue-pattern-to", str(len(queues))]
        words += ["-x", str(self.producers), "-y", str(self.consumers), "-s", str(self.size)]
        if self.persistent:
            words += ["-f", "persistent"]
        if self.confirms:
            words += ["-c", str(self.confirms)]
        if self.prefetch is None:
            words.append("-a")
        else:
            words += ["-q", str(self.prefetch), "-A", str(self.ack_every)]
        if self.rate:
            words += ["-r", str(self.rate)]
        return words


def _rates(key: str, target: float | None) -> tuple[Metric, ...]:
    return (
        Metric(key=key, label="messages", unit="msgs/s", target=target, charted=True),
        Metric(key="cpu_us", label="broker CPU", unit="µs a message", higher_is_better=False),
    )


def flow_cells(scale: AmqpScale, empty: Empty) -> Iterator[Cell]:
    """Publish and consume at once. The ordinary load's rate is kept for the backlog cells."""
    ordinary = "confirmed persistent, manual ack, prefetch 100"
    for size in (12, 1024, 65536):
        load = Load(size=size, title=f"{_size(size)}, {ordinary}")
        yield _flow(scale, load, target=1.0, empty=empty)
    yield _flow(scale, Load(prefetch=1, title="1 KB, the same, prefetch 1"), target=1.0)
    yield _flow(scale, Load(prefetch=UNLIMITED, title="1 KB, prefetch unlimited"), target=1.0)
    yield _flow(
        scale, Load(prefetch=None, title="1 KB, confirmed persistent, auto ack"), target=1.0
    )
    ten = Load(queues=10, producers=10, consumers=10, title="1 KB, the same, 10 queues")
    yield _flow(scale, ten, target=1.0)
    half = scale.connections // 2
    many = Load(producers=half, consumers=half, title=f"1 KB, {2 * half} connections, 1 queue")
    yield _flow(scale, many, target=1.0)
    for size in (12, 1024, 65536):
        load = Load(size=size, persistent=False, confirms=None, prefetch=None)
        yield _flow(scale, load, title=f"{_size(size)}, transient, auto ack")
    load = Load(
        persistent=False, confirms=None, prefetch=None, queues=10, producers=10, consumers=10
    )
    yield _flow(scale, load, title="1 KB, transient, auto ack, 10 queues")
    load = Load(persistent=False, confirms=None, prefetch=None, producers=half, consumers=half)
    yield _flow(scale, load, title=f"1 KB, transient, auto ack, {2 * half} connections, 1 queue")
    load = Load(persistent=False, confirms=None, ack_every=10)
    yield _flow(scale, load, title="1 KB, transient, manual ack of 10, prefetch 100")
    load = Load(persistent=False, confirms=None, prefetch=1)
    yield _flow(scale, load, title="1 KB, transient, manual ack, prefetch 1")
    load = Load(persistent=False, confirms=None, prefetch=UNLIMITED)
    yield _flow(scale, load, title="1 KB, transient, manual ack, prefetch unlimited")


def publish_cells(scale: AmqpScale) -> Iterator[Cell]:
    """Publish only; the queues grow."""
    for size in (12, 1024, 65536):
        load = Load(size=size, persistent=False, confirms=None, consumers=0)
        yield _flow(scale, load, title=f"{_size(size)}, transient, unconfirmed")
    for size in (12, 1024, 65536):
        load = Load(size=size, consumers=0)
        yield _flow(scale, load, title=f"{_size(size)}, persistent, confirmed", target=1.0)


def backlog_cells(scale: AmqpScale, empty: Empty) -> Iterator[Cell]:
    """The ordinary workload behind a backlog, and its ratio to the same on an empty queue."""
    for size in (12, 1024):
        yield _backlog(scale, size, empty)


def _backlog(scale: AmqpScale, size: int, empty: Empty) -> Cell:
    load = Load(size=size)

    def prepare(broker: Broker) -> Values:
        declare(broker, BACKLOG_QUEUE, durable=True)
        missing = scale.backlog
        for _fill in range(FILLS_MAX):
            amqp_perf_test.fill(broker, BACKLOG_QUEUE, count=missing, size=size, exchange=EXCHANGE)
            # The load generator may exit before its last messages are sent.
            missing = scale.backlog - _settled_count(broker, BACKLOG_QUEUE, scale.backlog)
            if missing <= 0:
                return {}
        raise BenchmarkError(f"{missing} of {scale.backlog} messages are not in the queue")

    def run(broker: Broker) -> Values:
        # In the same minute and not only among the flows before: the machine's speed changes.
        alone = _with_queues(broker, scale, load)["received_per_s"]
        empty.setdefault((broker.name, size), []).append(alone)
        values = _measured(
            broker,
            lambda: amqp_perf_test.run(
                broker, *load.arguments([BACKLOG_QUEUE]), seconds=scale.seconds
            ),
        )
        values["of_empty"] = values["received_per_s"] / median(empty[broker.name, size])
        return values

    return Cell(
        name=f"backlog/{size}/{scale.backlog}",
        section="AMQP: backlog",
        title=f"{_size(size)}, confirmed persistent, manual ack, behind {scale.backlog:,} messages",
        metrics=(
            *_rates("received_per_s", 1.0),
            Metric(
                key="of_empty",
                label="of its own rate when empty",
                unit="times",
                target=0.9,
                of_itself=True,
            ),
        ),
        prepare=prepare,
        run=run,
        seconds=2 * (scale.seconds + 1),
    )


def routing_cells(scale: AmqpScale) -> Iterator[Cell]:
    """Publish one message after the other to an exchange with one binding, and to one with very many."""
    few: dict[tuple[str, str], list[float]] = {}
    for kind in ("direct", "topic"):
        for bindings in (1, scale.bindings):
            yield _routing(scale, kind, bindings, few)


def _routing(
    scale: AmqpScale, kind: str, bindings: int, few: dict[tuple[str, str], list[float]]
) -> Cell:
    exchange = f"{kind}-{bindings}"

    def prepare(broker: Broker) -> Values:
        if isinstance(broker, MillpondAmqp) and not broker.is_loaded:
            broker.load_definitions()
        purge(broker, ROUTED_QUEUE)
        return {}

    def run(broker: Broker) -> Values:
        try:
            values = _measured(
                broker,
                lambda: _pika(
                    *("route", broker, ROUTED_QUEUE, scale.pika_messages),
                    *("--exchange", exchange, "--keys", str(bindings)),
                ),
            )
        finally:
            purge(broker, ROUTED_QUEUE)
        cpu = few.setdefault((broker.name, kind), [])
        if bindings == 1:
            cpu.append(values["cpu_us"])
        elif cpu:
            values["of_one"] = values["cpu_us"] / median(cpu)
        return values

    return Cell(
        name=f"routing/{kind}/{bindings}",
        section="AMQP: routing",
        title=f"pika, 12 B, transient, {kind} exchange, {_bindings(bindings)}",
        metrics=(
            Metric(key="sent_per_s", label="routed", unit="msgs/s"),
            Metric(key="cpu_us", label="broker CPU", unit="µs a message", higher_is_better=False),
            Metric(
                key="of_one",
                label="broker CPU, of its own with one binding",
                unit="times",
                higher_is_better=False,
                of_itself=True,
            ),
        ),
        prepare=prepare,
        run=run,
        seconds=4.0,
    )


def routing_definitions(scale: AmqpScale) -> dict[str, object]:
    """Return the definitions of both brokers: a queue that is bound by as many keys as the exchange has
    bindings.

    Transient: RabbitMQ takes four times as long to create durable bindings, and routes by both alike.
    """
    exchanges: list[dict[str, object]] = []
    bindings: list[dict[str, object]] = []
    for kind in ("direct", "topic"):
        for count in (1, scale.bindings):
            exchanges.append(
                {
                    "name": f"{kind}-{count}",
                    "vhost": "/",
                    "type": kind,
                    "durable": False,
                    "auto_delete": False,
                    "internal": False,
                    "arguments": {},
                }
            )
            bindings += [
                {
                    "source": f"{kind}-{count}",
                    "vhost": "/",
                    "destination": ROUTED_QUEUE,
                    "destination_type": "queue",
                    "arguments": {},
                    "routing_key": _binding_key(kind, number),
                }
                for number in range(count)
            ]
    queue = {"name": ROUTED_QUEUE, "vhost": "/", "durable": False, "auto_delete": False}
    password = base64.b64encode(b"salt" + hashlib.sha256(b"saltguest").digest()).decode()
    return {
        "users": [
            {
                "name": "guest",
                "password_hash": password,
                "tags": "administrator",
                "hashing_algorithm": "rabbit_password_hashing_sha256",
            }
        ],
        "vhosts": [{"name": "/"}],
        "permissions": [
            {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
        ],
        "queues": [{**queue, "arguments": {}}],
        "exchanges": exchanges,
        "bindings": bindings,
    }


def _binding_key(kind: str, number: int) -> str:
    key = routing_key(number)
    return key if kind == "direct" else f"{key.rpartition('.')[0]}.*"


def _bindings(count: int) -> str:
    return "1 binding" if count == 1 else f"{count:,} bindings"


def latency_cells(scale: AmqpScale) -> Iterator[Cell]:
    load = Load(rate=200)

    def paced(broker: Broker) -> Values:
        return _with_queues(broker, scale, load)

    yield Cell(
        name="latency/perf-test",
        section="AMQP: latency",
        title="perf-test, 1 KB, confirmed persistent, 200 msgs/s",
        metrics=(
            _latency("consumer_p50_us", "published to consumed, p50"),
            _latency("consumer_p99_us", "published to consumed, p99"),
            _latency("confirm_p50_us", "confirm, p50"),
            _latency("confirm_p99_us", "confirm, p99"),
        ),
        run=paced,
        seconds=scale.seconds + 2,
    )
    yield _pika_cell(
        "round-trip",
        scale.round_trips,
        title="pika, 1 KB, confirmed persistent, one in flight",
        metrics=(_latency("p50_us", "confirm, p50"), _latency("p99_us", "confirm, p99")),
    )
    yield _pika_cell(
        "flow",
        scale.pika_messages,
        title="pika, 1 KB, transient, published and then consumed",
        metrics=(
            Metric(key="sent_per_s", label="published", unit="msgs/s"),
            Metric(key="received_per_s", label="consumed, acks of 100", unit="msgs/s"),
            Metric(key="cpu_us", label="broker CPU", unit="µs a message", higher_is_better=False),
        ),
    )


def start_cells(directory: Path) -> Iterator[Cell]:
    """Process start to the first confirmed message; the cell starts its own brokers."""
    own: dict[str, Broker] = {}

    def prepare(broker: Broker) -> Values:
        own[broker.name] = make_broker(broker.name, directory / f"start-{broker.name}")
        run(broker)
        return {}

    def run(broker: Broker) -> Values:
        mine = own[broker.name]
        try:
            started = time.perf_counter()
            mine.launch()
            first_publish(mine)
            taken = time.perf_counter() - started
            return {"start_s": taken, "own_s": taken}
        finally:
            mine.stop()

    yield Cell(
        name="start",
        section="AMQP: start",
        title="process start to first confirmed message",
        metrics=(_small("start_s", "time", "s", 0.1), _at_most("own_s", START_SECONDS)),
        prepare=prepare,
        run=run,
        seconds=6.0,
    )

    def run_embedded(broker: Broker) -> Values:
        if not isinstance(broker, MillpondAmqp):
            return {}  # not available for RabbitMQ
        return _child("bench.amqp_embedded")

    yield Cell(
        name="start/embedded",
        section="AMQP: start",
        title="`millpond.Broker` in a program to first confirmed message",
        metrics=(
            _at_most("start_s", START_SECONDS),
            Metric(
                key="import_s", label="and `import millpond` before it", unit="s", of_itself=True
            ),
        ),
        run=run_embedded,
        seconds=2.0,
    )


def idle_cells() -> Iterator[Cell]:
    def idle(broker: Broker) -> Values:
        before = cpu_seconds_of(broker.pid)
        time.sleep(IDLE_SECONDS)
        used = cpu_seconds_of(broker.pid) - before
        return {"rss_mb": memory_of(broker.pid).rss_mb, "idle_cpu": 100 * used / IDLE_SECONDS}

    yield Cell(
        name="memory/idle",
        section="AMQP: memory",
        title="idle after start, one queue",
        metrics=(
            _small("rss_mb", "resident", "MB", 0.25),
            Metric(key="idle_cpu", label="CPU while idle", unit="%", higher_is_better=False),
        ),
        run=idle,
        seconds=IDLE_SECONDS,
    )


def loaded_cells() -> Iterator[Cell]:
    def loaded(broker: Broker) -> Values:
        memory = memory_of(broker.pid)
        return {"rss_mb": memory.rss_mb, "peak_mb": memory.peak_mb}

    yield Cell(
        name="memory/under-load",
        section="AMQP: memory",
        title="after all of the runs before",
        metrics=(
            _small("rss_mb", "resident", "MB", 0.25),
            _small("peak_mb", "peak", "MB", 0.25),
        ),
        run=loaded,
        seconds=0.1,
    )


# --- helpers ---------------------------------------------------------------------------------------------


def _flow(
    scale: AmqpScale,
    load: Load,
    *,
    title: str | None = None,
    target: float | None = None,
    empty: Empty | None = None,
) -> Cell:
    publishes_only = load.consumers == 0
    if not publishes_only:
        key, section, prefix = "received_per_s", "AMQP: publish and consume", "flow"
    else:
        key = "confirmed_per_s" if load.confirms else "sent_per_s"
        section, prefix = "AMQP: publish", "publish"

    def run(broker: Broker) -> Values:
        values = _with_queues(broker, scale, load)
        if empty is not None:
            empty.setdefault((broker.name, load.size), []).append(values["received_per_s"])
        return values

    return Cell(
        name=f"{prefix}/{load.name}",
        section=section,
        title=title or load.title,
        metrics=_rates(key, target),
        run=run,
        seconds=scale.seconds + 1,
    )


def _settled_count(broker: Broker, queue: str, wanted: int) -> int:
    """Return how many messages are ready once they are as many as wanted, or no more come."""
    found, since = waiting(broker, queue), time.perf_counter()
    while found < wanted and time.perf_counter() - since < STILL_SECONDS:
        time.sleep(0.2)
        now = waiting(broker, queue)
        if now > found:
            found, since = now, time.perf_counter()
    return found


def _with_queues(broker: Broker, scale: AmqpScale, load: Load) -> Values:
    """Run a load on new queues."""
    stem = f"bench{next(_numbers)}"
    queues = [f"{stem}-{number}" for number in range(1, load.queues + 1)]
    declare(broker, *queues, durable=load.persistent)
    try:
        return _measured(
            broker,
            lambda: amqp_perf_test.run(broker, *load.arguments(queues), seconds=scale.seconds),
        )
    finally:
        delete(broker, *queues)


def _measured(broker: Broker, work: Callable[[], Values]) -> Values:
    # Dirty pages of the run before must not be written back inside this one.
    os.sync()
    before = cpu_seconds_of(broker.pid)
    values = work()
    if values.get("messages"):
        values["cpu_us"] = 1e6 * (cpu_seconds_of(broker.pid) - before) / values["messages"]
    memory = memory_of(broker.pid)
    values["rss_mb"], values["peak_mb"] = memory.rss_mb, memory.peak_mb
    return values


def _pika_cell(what: str, count: int, *, title: str, metrics: tuple[Metric, ...]) -> Cell:
    def run(broker: Broker) -> Values:
        queue = f"pika{next(_numbers)}"
        declare(broker, queue, durable=True)
        try:
            return _measured(broker, lambda: _pika(what, broker, queue, count))
        finally:
            delete(broker, queue)

    return Cell(
        name=f"latency/pika/{what}",
        section="AMQP: latency" if what == "round-trip" else "AMQP: publish and consume",
        title=title,
        metrics=metrics,
        run=run,
        seconds=5.0,
    )


def _pika(what: str, broker: Broker, queue: str, count: int, *more: str) -> Values:
    return _child(*("bench.amqp_pika", what, str(broker.port), queue, "--count", str(count), *more))


def _child(module: str, *arguments: str) -> Values:
    """Run one of our modules as a process and return the figures that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"{module}: {done.stderr.strip()[-300:]}")
    values: Values = json.loads(done.stdout)
    return values


def _at_most(key: str, seconds: float) -> Metric:
    """Return a metric of a time with an absolute target."""
    return Metric(
        key=key, label="time", unit="s", higher_is_better=False, target=seconds, of_itself=True
    )


def _latency(key: str, label: str) -> Metric:
    return Metric(key=key, label=label, unit="µs", higher_is_better=False, target=1.0, charted=True)


def _small(key: str, label: str, unit: str, target: float) -> Metric:
    return Metric(
        key=key, label=label, unit=unit, higher_is_better=False, target=target, charted=True
    )


def _size(size: int) -> str:
    return f"{size // 1024} KB" if size >= 1024 else f"{size} B"
