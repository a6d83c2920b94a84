"""Cells of single requests: round trips, start-up, idle memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench.brokers import Broker, first_produce, make_broker
from bench.machine import cpu_seconds_of, memory_of
from bench.model import Cell, Metric, Scale, Values, percentile
from bench.raw_client import RawClient, produce_frame, record_batch

IDLE_SECONDS = 2.0
START_TOPIC = "first"

LATENCIES = (
    Metric(key="p50_us", label="p50", unit="µs", higher_is_better=False, target=1.0, charted=True),
    Metric(key="p99_us", label="p99", unit="µs", higher_is_better=False, target=1.0, charted=True),
)


def start_cells(directory: Path) -> Iterator[Cell]:
    """Process start to the first acknowledged record; the cell starts its own brokers."""
    own: dict[str, Broker] = {}

    def prepare(broker: Broker) -> Values:
        # Formatting the storage is a separate step in Kafka, so the first start is not counted.
        mine = own[broker.name] = make_broker(broker.name, directory / f"start-{broker.name}")
        try:
            mine.launch()
            first_produce(mine, START_TOPIC)
        finally:
            mine.stop()
        return {}

    def run(broker: Broker) -> Values:
        mine = own[broker.name]
        try:
            started = time.perf_counter()
            mine.launch()
            first_produce(mine, START_TOPIC, create=False)
            return {"start_s": time.perf_counter() - started}
        finally:
            mine.stop()

    yield Cell(
        name="start",
        section="Start",
        title="process start to first acknowledged record",
        metrics=(
            Metric(
                key="start_s",
                label="time",
                unit="s",
                higher_is_better=False,
                target=0.1,
                charted=True,
            ),
        ),
        prepare=prepare,
        run=run,
        seconds=4.0,
    )


def cells(scale: Scale) -> Iterator[Cell]:
    yield Cell(
        name="memory/idle",
        section="Memory",
        title="idle after start, one topic",
        metrics=(
            Metric(
                key="rss_mb",
                label="resident",
                unit="MB",
                higher_is_better=False,
                target=0.25,
                charted=True,
            ),
            Metric(key="idle_cpu", label="CPU while idle", unit="%", higher_is_better=False),
        ),
        run=_idle,
        seconds=IDLE_SECONDS,
    )
    for size in scale.messages:
        yield _round_trip_cell(scale, size)


def _idle(broker: Broker) -> Values:
    before = cpu_seconds_of(broker.pid)
    time.sleep(IDLE_SECONDS)
    used = cpu_seconds_of(broker.pid) - before
    return {"rss_mb": memory_of(broker.pid).rss_mb, "idle_cpu": 100 * used / IDLE_SECONDS}


def _round_trip_cell(scale: Scale, size: int) -> Cell:
    topic = f"round-trip-{size}"

    def prepare(broker: Broker) -> Values:
        with RawClient("127.0.0.1", broker.port) as client:
            client.create_topics([topic])
            client.wait_until_writable(topic)
        return {}

    def run(broker: Broker) -> Values:
        with RawClient("127.0.0.1", broker.port) as client:
            return round_trips(
                [client], [topic], size, count=scale.round_trips, warmup=scale.round_trips_warmup
            )

    return Cell(
        name=f"round-trip/{size}",
        section="Round trip",
        title=f"one record of {size} B, one in flight, acks=1",
        metrics=LATENCIES,
        prepare=prepare,
        run=run,
        seconds=3.0,
    )


def round_trips(
    clients: list[RawClient], topics: list[str], size: int, *, count: int, warmup: int
) -> Values:
    """Produce one record at a time, in turn over the connections and topics given."""
    batch = record_batch([b"x" * size])
    frames = [produce_frame(topic, 0, batch) for topic in topics]
    times = []
    for turn in range(warmup + count):
        client, place = clients[turn % len(clients)], turn % len(topics)
        started = time.perf_counter()
        answer = client.call(frames[place])
        times.append(time.perf_counter() - started)
        del answer
    # The responses were not parsed inside the clock; one more shows that they were successes.
    for place in range(min(len(topics), 10)):
        clients[0].produce(frames[place], topics[place])
    times = sorted(times[warmup:])
    return {
        "p50_us": 1e6 * percentile(times, 0.50),
        "p99_us": 1e6 * percentile(times, 0.99),
        "p999_us": 1e6 * percentile(times, 0.999),
        "mean_us": 1e6 * sum(times) / len(times),
    }
