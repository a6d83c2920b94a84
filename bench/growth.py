"""Cells that measure the cost of a message with many topics, a long log or many connections."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from itertools import pairwise

from bench.brokers import Broker, first_produce
from bench.latency import round_trips
from bench.machine import memory_of
from bench.model import Cell, Metric, Scale, Values, percentile
from bench.raw_client import RawClient, fetch_frame

TOPICS_PER_REQUEST = 100
READ_BYTES = 64 * 1024
LOG_TOPIC = "growing-log"

_P50 = Metric(key="p50_us", label="produce p50", unit="µs", higher_is_better=False)
_P99 = Metric(key="p99_us", label="produce p99", unit="µs", higher_is_better=False)
_RSS = Metric(key="rss_mb", label="resident", unit="MB", higher_is_better=False)


def _client(broker: Broker) -> RawClient:
    return RawClient("127.0.0.1", broker.port)


def topic_cells(scale: Scale) -> Iterator[Cell]:
    for had, wanted in pairwise((0, *scale.topics)):
        yield _topic_cell(scale, had, wanted)


def _topic_cell(scale: Scale, had: int, wanted: int) -> Cell:
    names = [f"growing-{number:05d}" for number in range(wanted)]

    def prepare(broker: Broker) -> Values:
        with _client(broker) as client:
            started = time.perf_counter()
            for at in range(had, wanted, TOPICS_PER_REQUEST):
                client.create_topics(names[at : min(at + TOPICS_PER_REQUEST, wanted)])
            # Kafka answers before it has created the files: the time counts until every topic accepts a
            # record.
            for name in names[had:]:
                client.wait_until_writable(name)
            took = time.perf_counter() - started
        return {"create_ms": 1e3 * took / (wanted - had)}

    def run(broker: Broker) -> Values:
        with _client(broker) as client:
            values = round_trips(
                [client],
                random.Random(wanted).sample(names, len(names)),
                100,
                count=scale.round_trips // 2,
                warmup=scale.round_trips_warmup // 2,
            )
        values["rss_mb"] = memory_of(broker.pid).rss_mb
        return values

    return Cell(
        name=f"growth/topics/{wanted}",
        section="Growth: topics",
        title="1 topic" if wanted == 1 else f"{wanted:,} topics",
        metrics=(
            Metric(
                key="create_ms", label="create one, first record", unit="ms", higher_is_better=False
            ),
            _P50,
            _P99,
            _RSS,
        ),
        prepare=prepare,
        run=run,
        seconds=2.0,
    )


def log_cells(scale: Scale) -> Iterator[Cell]:
    for had, wanted in pairwise((0, *scale.log_mb)):
        yield _log_cell(scale, had, wanted)
        if wanted == scale.log_mb[-1] or (had == 0 and scale.fresh_brokers):
            yield _restart_cell(wanted)


def _log_cell(scale: Scale, had_mb: int, wanted_mb: int) -> Cell:
    def prepare(broker: Broker) -> Values:
        with _client(broker) as client:
            if had_mb == 0:
                client.create_topics([LOG_TOPIC])
                client.wait_until_writable(LOG_TOPIC)
            started = time.perf_counter()
            client.fill(LOG_TOPIC, records=(wanted_mb - had_mb) * 1_000_000 // 1024, size=1024)
            return {"fill_mb_per_s": (wanted_mb - had_mb) / (time.perf_counter() - started)}

    def run(broker: Broker) -> Values:
        with _client(broker) as client:
            values = round_trips([client], [LOG_TOPIC], 100, count=scale.random_reads, warmup=200)
            reads = random_reads(client, LOG_TOPIC, scale.random_reads)
        return values | reads | {"rss_mb": memory_of(broker.pid).rss_mb}

    return Cell(
        name=f"growth/log/{wanted_mb}",
        section="Growth: log",
        title=_log_name(wanted_mb),
        metrics=(
            Metric(key="fill_mb_per_s", label="fill, 64 KB batches", unit="MB/s"),
            Metric(key="read_p50_us", label="random read p50", unit="µs", higher_is_better=False),
            Metric(key="read_p99_us", label="random read p99", unit="µs", higher_is_better=False),
            _P50,
            _RSS,
        ),
        prepare=prepare,
        run=run,
        seconds=2.0 + (wanted_mb - had_mb) / 500,
    )


def _log_name(megabytes: int) -> str:
    return f"log of {megabytes} MB" if megabytes < 1000 else f"log of {megabytes // 1000} GB"


def _restart_cell(wanted_mb: int) -> Cell:
    def run(broker: Broker) -> Values:
        os.sync()  # the disk's speed should not decide how fast a broker stops
        stopping = time.perf_counter()
        broker.stop()
        started = time.perf_counter()
        broker.launch()
        first_produce(broker, LOG_TOPIC, create=False)
        return {"stop_s": started - stopping, "restart_s": time.perf_counter() - started}

    return Cell(
        name=f"growth/restart/{wanted_mb}",
        section="Growth: log",
        title=f"clean restart, {_log_name(wanted_mb)}",
        metrics=(
            Metric(
                key="restart_s", label="start to first record", unit="s", higher_is_better=False
            ),
            Metric(key="stop_s", label="stop", unit="s", higher_is_better=False),
        ),
        run=run,
        seconds=6.0,
    )


def random_reads(client: RawClient, topic: str, count: int) -> Values:
    end = client.end_offset(topic, 0)
    chance = random.Random(11)
    times = []
    for _ in range(count + 20):
        request = fetch_frame(topic, 0, chance.randrange(end), bytes_max=READ_BYTES)
        started = time.perf_counter()
        client.fetch(request, topic)
        times.append(time.perf_counter() - started)
    times = sorted(times[20:])
    return {
        "read_p50_us": 1e6 * percentile(times, 0.50),
        "read_p99_us": 1e6 * percentile(times, 0.99),
    }


def connection_cells(scale: Scale) -> Iterator[Cell]:
    for wanted in scale.connections:
        yield _connection_cell(scale, wanted)


def _connection_cell(scale: Scale, wanted: int) -> Cell:
    topic = "connections"

    def prepare(broker: Broker) -> Values:
        if wanted == scale.connections[0]:
            with _client(broker) as client:
                client.create_topics([topic])
                client.wait_until_writable(topic)
                round_trips([client], [topic], 100, count=1000, warmup=0)
        return {}

    def run(broker: Broker) -> Values:
        before = memory_of(broker.pid).rss_mb
        clients: list[RawClient] = []
        try:
            for _ in range(wanted):
                clients.append(_client(broker))
                clients[-1].api_versions()
            each_kb = 1024 * (memory_of(broker.pid).rss_mb - before) / wanted
            values = round_trips(
                clients, [topic], 100, count=scale.round_trips // 2, warmup=max(wanted, 200)
            )
            return values | {"rss_kb_each": each_kb, "rss_mb": memory_of(broker.pid).rss_mb}
        finally:
            for client in clients:
                client.close()

    return Cell(
        name=f"growth/connections/{wanted}",
        section="Growth: connections",
        title="1 connection" if wanted == 1 else f"{wanted:,} connections, used in turn",
        metrics=(
            _P50,
            _P99,
            _RSS,
            *(
                ()
                if wanted == 1
                else (
                    Metric(
                        key="rss_kb_each", label="memory each", unit="KB", higher_is_better=False
                    ),
                )
            ),
        ),
        prepare=prepare,
        run=run,
        seconds=2.0,
    )
