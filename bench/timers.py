"""`python -m bench timers`: what pending timers cost, and how fast they fire. `make bench-timers` calls it.

    python -m bench timers             one million pending, 200,000 that fire; about 4 minutes
    python -m bench timers --quick     a tenth of it

A broker process on loopback, a producer and a consumer of librdkafka. There is no peer beside it: Apache
Kafka has no delayed records. The rate is that of the broker: the times of delivery that the records carry,
from the first due time to the last delivery.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table
from tests.support.processes.broker_process import MillpondProcess

from bench.machine import cpu_seconds_of, memory_of

PENDING = 1_000_000
FIRING = 200_000
PARTITIONS = 4
VALUE = bytes(100)
# Before the first one is due all must be kept.
LEAD_S = 25.0
# Due times of those that fire: faster than they can.
DUE_PER_MS = 100
TIMEOUT_S = 240.0


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench timers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    options = parser.parse_args(arguments)
    part = 10 if options.quick else 1
    table = Table("what", "figure", title="Durable timers (no peer has them)", title_justify="left")
    with tempfile.TemporaryDirectory(prefix="millpond-bench-") as directory:
        for row in _figures(Path(directory), PENDING // part, FIRING // part):
            table.add_row(*row)
    Console().print(table)


def _figures(directory: Path, pending: int, firing: int) -> Iterator[tuple[str, str]]:
    for name, scattered in (("in order", False), ("scattered", True)):
        with MillpondProcess(directory / name.replace(" ", "-")) as broker:
            rate, by_cpu, kept = _fire(broker, firing, scattered=scattered)
            yield f"{firing:,} records taken in and kept as timers, due {name}", f"{kept:,.0f}/s"
            yield f"{firing:,} records fired, due {name}", f"{rate:,.0f}/s"
            yield "the same by the broker's processor time", f"{by_cpu:,.0f}/s"
    with MillpondProcess(directory / "pending") as broker:
        _create(broker)
        before = memory_of(broker.pid).rss_mb
        _keep(broker, pending, _within_an_hour)
        after = memory_of(broker.pid).rss_mb
        yield f"memory of {pending:,} pending timers", f"{after - before:,.0f} MB"
        broker.stop()
        started = time.perf_counter()
        broker.start()
        yield "start with all of them", f"{time.perf_counter() - started:,.1f} s"
        yield "memory after the start", f"{memory_of(broker.pid).rss_mb - before:,.0f} MB"


def _fire(broker: MillpondProcess, count: int, *, scattered: bool) -> tuple[float, float, float]:
    """Records a second that are delivered, by clock and by processor time, and that are taken in before."""
    _create(broker)
    first_ms = int(1000 * (time.time() + LEAD_S * max(1.0, count / 100_000)))
    due = [first_ms + number // DUE_PER_MS for number in range(count)]
    if scattered:
        random.Random(7).shuffle(due)
    kept = _keep(broker, count, due.__getitem__)
    assert time.time() * 1000 < first_ms, "the records were due before all were kept"
    busy_s = cpu_seconds_of(broker.pid)
    last_ms = _read(broker, count, wanted=VALUE)
    busy_s = cpu_seconds_of(broker.pid) - busy_s
    return 1000 * count / (last_ms - first_ms), count / busy_s, kept


def _within_an_hour(number: int) -> int:
    return int(1000 * time.time()) + 1_800_000 + number * 7_919 % 3_600_000


def _create(broker: MillpondProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = NewTopic("later", PARTITIONS, config={"millpond.delay.enable": "true"})
    admin.create_topics([topic])["later"].result(30)


def _keep(broker: MillpondProcess, count: int, due_ms: Callable[[int], int]) -> float:
    """Produce records and wait until the last of each partition is a timer; answers records a second."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.num.messages": 1_000,
            "queue.buffering.max.messages": 200_000,
        }
    )
    started = time.perf_counter()
    for number in range(count):
        headers = [("millpond.deliver-at", b"%d" % due_ms(number))]
        while True:
            try:
                producer.produce("later", VALUE, partition=number % PARTITIONS, headers=headers)
            except BufferError:
                producer.poll(0.1)
                continue
            break
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    # What comes behind all others in its partition and is due at once arrives when they are kept.
    for partition in range(PARTITIONS):
        producer.produce("later", b"kept", partition=partition, headers=[("millpond.delay", b"0")])
    assert producer.flush(TIMEOUT_S) == 0
    _read(broker, PARTITIONS, wanted=b"kept")
    return count / (time.perf_counter() - started)


def _read(broker: MillpondProcess, count: int, *, wanted: bytes) -> int:
    """Read so many records with this value; answers the time of the last."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench"})
    consumer.assign([TopicPartition("later", partition, 0) for partition in range(PARTITIONS)])
    last_ms = found = 0
    deadline = time.perf_counter() + TIMEOUT_S
    try:
        while found < count:
            assert time.perf_counter() < deadline, f"{found} of {count} came"
            for message in consumer.consume(10_000, 0.5):
                assert message.error() is None, message.error()
                if message.value() == wanted:
                    found += 1
                    last_ms = max(last_ms, message.timestamp()[1])
    finally:
        consumer.close()
    return last_ms
