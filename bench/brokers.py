"""The two systems that are measured: a real `millpond up` process and a real Apache Kafka.

Both listen on loopback ports with their data in sibling directories of one temporary directory. Both keep
their default settings; Kafka gets the JVM options of its own start script.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.java_tools import missing_reason
from tests.support.processes.kafka_server import ApacheKafka

from bench.raw_client import BenchmarkError, RawClient

MILLPOND, KAFKA, RABBITMQ = "millpond", "kafka", "rabbitmq"

# What kafka-server-start.sh and kafka-run-class.sh pass when nothing is set (the heap is given separately).
KAFKA_JVM_FLAGS = (
    "-Xms1024m",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 120.0


class Broker(Protocol):
    """The interface of a system under measurement."""

    name: str

    @property
    def port(self) -> int: ...

    @property
    def pid(self) -> int: ...

    def alive(self) -> bool:
        """Whether the process still runs, or is still being started."""

    def launch(self) -> None:
        """Start the process; returns at once, before it answers."""

    def stop(self) -> None:
        """Stop it cleanly and wait for its end; the data stays."""


class MillpondBroker:
    """`python -m millpond up` as a user would start it."""

    name = MILLPOND

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        self._server = MillpondProcess(directory, properties=properties)
        self._running = False

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def pid(self) -> int:
        return self._server.pid

    def launch(self) -> None:
        self._server.launch()
        self._running = True

    def alive(self) -> bool:
        return self._server.is_running()

    def stop(self) -> None:
        if self._running:
            self._running = False
            self._server.stop(timeout_s=STOP_SECONDS_MAX)


class StartedBeside:
    """A peer whose ``start`` returns only when it is ready; to know sooner, try the socket."""

    def __init__(self) -> None:
        self._starter: threading.Thread | None = None
        self._failure: Exception | None = None

    def alive(self) -> bool:
        return self._failure is None

    def begin(self, start: Callable[[], object]) -> None:
        """Start it in a thread; a failure ends the thread."""
        self._failure = None
        self._starter = threading.Thread(target=self._start, args=(start,), daemon=True)
        self._starter.start()

    def await_begun(self) -> None:
        """Wait until it has started or failed."""
        if self._starter is not None:
            self._starter.join()
            self._starter = None

    def _start(self, start: Callable[[], object]) -> None:
        try:
            start()
        except (RuntimeError, TimeoutError, OSError) as error:
            self._failure = error


class KafkaBroker(StartedBeside):
    """Apache Kafka in KRaft mode, broker and controller in one process."""

    name = KAFKA

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        super().__init__()
        self._server = ApacheKafka(
            directory,
            properties=properties,
            heap_mb=1024,
            jvm_flags=KAFKA_JVM_FLAGS,
            start_timeout_s=START_SECONDS_MAX,
        )

    @staticmethod
    def missing_reason() -> str | None:
        return missing_reason()

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def pid(self) -> int:
        return self._server.pid

    def launch(self) -> None:
        self.begin(self._server.start)

    def stop(self) -> None:
        self.await_begun()
        self._server.stop(timeout_s=STOP_SECONDS_MAX)


def make_broker(
    system: str, directory: Path, properties: Mapping[str, str] | None = None
) -> Broker:
    kind = KafkaBroker if system == KAFKA else MillpondBroker
    return kind(directory, properties or {})


def first_produce(broker: Broker, topic: str, *, create: bool = True) -> None:
    """Return as soon as the broker has acknowledged one record, trying from before it listens."""
    deadline = time.perf_counter() + START_SECONDS_MAX
    while True:
        try:
            with RawClient("127.0.0.1", broker.port, timeout_s=10) as client:
                if create:
                    client.create_topics([topic])
                client.wait_until_writable(topic)
                return
        except (OSError, BenchmarkError) as error:
            # A starting broker refuses connections or answers "not ready".
            if time.perf_counter() > deadline or not broker.alive():
                raise BenchmarkError(f"{broker.name} did not start: {error}") from error
            time.sleep(0.002)
