"""Compares Python's Kafka clients against one broker.

    python -m bench.clients [--count 200000] [--size 100] [--rounds 3] [--kafka]

Every client writes the same records one call at a time with its usual settings (acks=all, idempotent where
supported, linger 5 ms) and reads them back from the beginning. Each client runs in its own process, in turns;
the figures are medians. Records have no key, so that the partitioner's hash is not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.kafka_server import ApacheKafka

TOPIC = "bench-clients"
PARTITIONS = 4
LINGER_MS = 5


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(started: tuple[float, float]) -> tuple[float, float]:
    """Return the seconds that passed, and this process's CPU seconds."""
    return time.perf_counter() - started[0], time.process_time() - started[1]


def _figures(what: str, count: int, spent: tuple[float, float]) -> dict[str, float]:
    return {what: count / spent[0], f"{what} cpu": spent[1] / count * 1e6}


async def _millpond(bootstrap: str, count: int, value: bytes) -> dict[str, float]:
    from millpond.client import Consumer, Producer, TopicPartition

    async with Producer(bootstrap) as producer:
        await producer.partitions_for(TOPIC)
        started = _now()
        for _ in range(count):
            await producer.send(TOPIC, value)
        await producer.flush()
        wrote = _since(started)
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    read: dict[str, float] = {}
    for kind in ("read", "read batches"):
        async with Consumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign(places)
            await consumer.seek_to_beginning()
            seen = 0
            started = _now()
            if kind == "read":
                async for _record in consumer:
                    seen += 1
                    if seen >= count:
                        break
            else:
                async for batch in consumer.batches():
                    seen += len(batch.records())
                    if seen >= count:
                        break
            read |= _figures(kind, count, _since(started))
    return _figures("write", count, wrote) | read


def _millpond_blocking(bootstrap: str, count: int, value: bytes) -> dict[str, float]:
    from millpond.client import BlockingConsumer, BlockingProducer, TopicPartition

    with BlockingProducer(bootstrap) as producer:
        producer.partitions_for(TOPIC)
        started = _now()
        for _ in range(count):
            producer.send(TOPIC, value)
        producer.flush()
        wrote = _since(started)
    with BlockingConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        consumer.seek_to_beginning()
        started = _now()
        for seen, _record in enumerate(consumer, 1):
            if seen >= count:
                break
        read = _since(started)
    return _figures("write", count, wrote) | _figures("read", count, read)


async def _aiokafka(bootstrap: str, count: int, value: bytes) -> dict[str, float]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=LINGER_MS
    )
    await producer.start()
    await producer.partitions_for(TOPIC)
    started = _now()
    for _ in range(count):
        await producer.send(TOPIC, value)
    await producer.flush()
    wrote = _since(started)
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
    await consumer.seek_to_beginning()
    started = _now()
    seen = 0
    async for _record in consumer:
        seen += 1
        if seen >= count:
            break
    read = _since(started)
    await consumer.stop()
    return _figures("write", count, wrote) | _figures("read", count, read)


def _confluent(bootstrap: str, count: int, value: bytes) -> dict[str, float]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(TOPIC)
    started = _now()
    for number in range(count):
        producer.produce(TOPIC, value)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()
    wrote = _since(started)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    started = _now()
    seen = 0
    while seen < count:
        seen += len(consumer.consume(500, 1.0))
    read = _since(started)
    consumer.close()
    return _figures("write", count, wrote) | _figures("read", count, read)


def _kafka_python(bootstrap: str, count: int, value: bytes) -> dict[str, float]:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=LINGER_MS
    )
    producer.partitions_for(TOPIC)
    started = _now()
    for _ in range(count):
        producer.send(TOPIC, value)
    producer.flush()
    wrote = _since(started)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
    consumer.seek_to_beginning()
    started = _now()
    for seen, _record in enumerate(consumer, 1):
        if seen >= count:
            break
    read = _since(started)
    consumer.close()
    return _figures("write", count, wrote) | _figures("read", count, read)


CLIENTS: dict[str, Callable[[str, int, bytes], Any]] = {
    "millpond": _millpond,
    "millpond, blocking": _millpond_blocking,
    "aiokafka": _aiokafka,
    "confluent-kafka": _confluent,
    "kafka-python": _kafka_python,
}


def run_client(name: str, bootstrap: str, count: int, size: int) -> None:
    """Run a client in its own process and print its figures."""
    value = bytes(index * 37 % 251 for index in range(size))
    work = CLIENTS[name]
    figures = work(bootstrap, count, value)
    if asyncio.iscoroutine(figures):
        figures = asyncio.run(figures)
    print(json.dumps(figures))


def measure(kind: str, count: int, size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return medians of each client's figures, in records a second."""
    from millpond.client import BlockingAdmin

    found: dict[str, list[dict[str, float]]] = {name: [] for name in CLIENTS}
    with tempfile.TemporaryDirectory() as directory:
        make = ApacheKafka if kind == "kafka" else MillpondProcess
        with make(Path(directory)) as broker:
            for _ in range(rounds):
                for name in CLIENTS:
                    with BlockingAdmin(broker.bootstrap) as admin:
                        admin.create_topic(TOPIC, partitions=PARTITIONS)
                    command = [sys.executable, "-m", "bench.clients", "--client", name]
                    command += ["--bootstrap", broker.bootstrap]
                    command += ["--count", str(count), "--size", str(size)]
                    done = subprocess.run(
                        command, capture_output=True, text=True, timeout=120, check=False
                    )
                    if done.returncode == 0:
                        found[name].append(json.loads(done.stdout))
                    else:
                        print(f"{name} failed: {done.stderr[-300:]}", file=sys.stderr)
                    with BlockingAdmin(broker.bootstrap) as admin:
                        admin.delete_topics([TOPIC])
    return {
        name: {
            figure: statistics.median(sample[figure] for sample in samples) for figure in samples[0]
        }
        for name, samples in found.items()
        if samples
    }


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kafka", action="store_true", help="against Apache Kafka")
    parser.add_argument("--client", choices=list(CLIENTS), help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        run_client(options.client, options.bootstrap, options.count, options.size)
        return
    kind = "kafka" if options.kafka else "millpond"
    figures = measure(kind, options.count, options.size, options.rounds)
    print(f"records of {options.size} bytes a second (CPU us of the client for each), {kind}")
    print("| client | write | read | read, batch by batch |\n|---|--:|--:|--:|")
    for name, row in figures.items():
        cells = [
            f"{row[key]:,.0f} ({row[key + ' cpu']:.1f})" if key in row else ""
            for key in ("write", "read", "read batches")
        ]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
