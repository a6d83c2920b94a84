"""Cells of batched produce and consume, with Kafka's own tools and with librdkafka."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench import java_perf
from bench.brokers import Broker
from bench.machine import cpu_seconds_of, memory_of
from bench.model import Cell, Metric, Scale, Values
from bench.raw_client import BenchmarkError, RawClient

CLIENTS = {"librdkafka": "librdkafka", "java": "Java perf tool"}
REPOSITORY = Path(__file__).resolve().parents[1]

RATES = (
    Metric(key="mb_per_s", label="throughput", unit="MB/s", target=1.0, charted=True),
    Metric(key="msgs_per_s", label="messages", unit="msgs/s", target=1.0),
    Metric(key="cpu_s_per_gb", label="broker CPU", unit="s/GB", higher_is_better=False),
)


def cells(scale: Scale) -> Iterator[Cell]:
    for client in CLIENTS:
        for size in _messages(scale, client):
            for partitions in scale.partitions:
                for acks in scale.acks:
                    yield _produce_cell(scale, client, size, partitions, acks)
                yield _consume_cell(scale, client, size, partitions)
    yield Cell(
        name="memory/under-load",
        section="Memory",
        title="after all of the throughput runs",
        metrics=(
            Metric(key="rss_mb", label="resident", unit="MB", higher_is_better=False, target=0.25),
            Metric(key="peak_mb", label="peak", unit="MB", higher_is_better=False, target=0.25),
        ),
        run=_memory,
        seconds=0.1,
    )


def _memory(broker: Broker) -> Values:
    memory = memory_of(broker.pid)
    return {"rss_mb": memory.rss_mb, "peak_mb": memory.peak_mb}


def _messages(scale: Scale, client: str) -> Mapping[int, int]:
    return scale.java_messages if client == "java" else scale.messages


def _size_name(size: int) -> str:
    return "1 KB" if size == 1024 else f"{size} B"


def _produce_cell(scale: Scale, client: str, size: int, partitions: int, acks: str) -> Cell:
    count, topic = _messages(scale, client)[size], f"{client}-{size}-{partitions}-{acks}"

    def prepare(broker: Broker) -> Values:
        _ensure_topic(broker, topic, partitions)
        return {}

    def run(broker: Broker) -> Values:
        return _measured(
            broker,
            count * size,
            lambda: _produce(broker, client, topic, partitions, count, size, acks),
        )

    return Cell(
        name=f"produce/{client}/{size}/p{partitions}/acks-{acks}",
        section="Produce",
        title=f"{CLIENTS[client]}, {_size_name(size)}, {_partitions(partitions)}, acks={acks}",
        metrics=RATES,
        prepare=prepare,
        run=run,
        seconds=6.0 if client == "java" else 3.0,
    )


def _consume_cell(scale: Scale, client: str, size: int, partitions: int) -> Cell:
    # Both clients read the same log, and both brokers have the same batches in it.
    count, topic = _messages(scale, client)[size], f"filled-{size}-{partitions}"
    wanted = max(scale.messages[size], count)

    def prepare(broker: Broker) -> Values:
        _ensure_topic(broker, topic, partitions)
        with _client(broker) as raw:
            if (have := raw.end_offsets(topic, partitions)) < wanted:
                raw.fill(topic, records=wanted - have, size=size, partitions=partitions)
            if raw.end_offsets(topic, partitions) < wanted:
                raise BenchmarkError(f"{topic} could not be filled")
        return {}

    def run(broker: Broker) -> Values:
        return _measured(
            broker, count * size, lambda: _consume(broker, client, topic, partitions, count, size)
        )

    return Cell(
        name=f"consume/{client}/{size}/p{partitions}",
        section="Consume",
        title=f"{CLIENTS[client]}, {_size_name(size)}, {_partitions(partitions)}",
        metrics=RATES,
        prepare=prepare,
        run=run,
        seconds=5.0 if client == "java" else 2.5,
    )


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _client(broker: Broker) -> RawClient:
    return RawClient("127.0.0.1", broker.port)


def _ensure_topic(broker: Broker, topic: str, partitions: int) -> None:
    with _client(broker) as raw:
        try:
            raw.create_topics([topic], partitions=partitions)
        except BenchmarkError:
            return  # a cell before this one created it
        for partition in range(partitions):
            raw.wait_until_writable(topic, partition)


def _measured(broker: Broker, payload_bytes: int, work: Callable[[], Values]) -> Values:
    # Dirty pages of the run before must not be written back inside this one.
    os.sync()
    cpu_before = cpu_seconds_of(broker.pid)
    values = work()
    values["broker_cpu_s"] = cpu_seconds_of(broker.pid) - cpu_before
    values["cpu_s_per_gb"] = values["broker_cpu_s"] / (values.pop("moved", payload_bytes) / 1e9)
    memory = memory_of(broker.pid)
    values["rss_mb"], values["peak_mb"] = memory.rss_mb, memory.peak_mb
    return values


def _produce(
    broker: Broker, client: str, topic: str, partitions: int, count: int, size: int, acks: str
) -> Values:
    bootstrap = f"127.0.0.1:{broker.port}"
    warmup = count // 5
    with _client(broker) as raw:
        before = raw.end_offsets(topic, partitions)
        if client == "java":
            values = java_perf.produce(
                bootstrap, topic, count=count, warmup=warmup, size=size, acks=acks
            )
        else:
            values = rdkafka(
                *("produce", bootstrap, topic, "--count", str(count), "--size", str(size)),
                *("--acks", acks, "--warmup", str(warmup)),
            )
        stored = raw.end_offsets(topic, partitions) - before
    if stored < count + warmup:
        raise BenchmarkError(f"only {stored} of {count + warmup} records are in the log")
    values["moved"] = (count + warmup) * size
    return values


def _consume(
    broker: Broker, client: str, topic: str, partitions: int, count: int, size: int
) -> Values:
    bootstrap = f"127.0.0.1:{broker.port}"
    if client == "java":
        return java_perf.consume(bootstrap, topic, count=count, size=size)
    return rdkafka(
        *("consume", bootstrap, topic, "--count", str(count), "--size", str(size)),
        *("--partitions", str(partitions)),
    )


def rdkafka(*arguments: str) -> Values:
    """Run bench/rdkafka.py as its own process and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.rdkafka", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"librdkafka: {done.stderr.strip()[-300:]}")
    values: Values = json.loads(done.stdout)
    return values
