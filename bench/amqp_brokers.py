"""Millpond and RabbitMQ as AMQP's clients see them. Both keep their default settings."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pika
from pika.exceptions import AMQPError
from tests.support.processes.ports import free_port
from tests.support.processes.rabbitmq_server import RabbitMq, missing_reason

from bench.brokers import RABBITMQ, START_SECONDS_MAX, Broker, MillpondBroker, StartedBeside
from bench.raw_client import BenchmarkError

PERSISTENT = pika.BasicProperties(delivery_mode=2)
EXCHANGE = "amq.direct"
LAUNCHES_MAX = 3
# A property of a group of cells: the file of definitions that its brokers begin with.
DEFINITIONS = "bench.definitions"
BINDINGS_AT_ONCE = 20_000
# RabbitMQ reads them before it listens: two hundred thousand bindings take a minute or more.
LOAD_SECONDS_MAX = 300.0


class MillpondAmqp(MillpondBroker):
    """`python -m millpond up` with a listener for AMQP; ``port`` is that listener's."""

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        own = {name: value for name, value in properties.items() if name != DEFINITIONS}
        super().__init__(directory, own)
        self._definitions = properties.get(DEFINITIONS)
        self._amqp_port = self._management_port = 0
        self.is_loaded = False

    @property
    def port(self) -> int:
        return self._amqp_port

    @property
    def last_words(self) -> str:
        """Return the end of the broker's output."""
        return self._server.output[-300:]

    def launch(self) -> None:
        # Chosen as late as possible: between two starts another process may take the port.
        self._amqp_port, self._server.port = free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{self._server.port},AMQP://127.0.0.1:{self.port}"
        if self._definitions is not None:
            self._management_port = free_port()
            listeners += f",MANAGEMENT://127.0.0.1:{self._management_port}"
        self._server.properties["listeners"] = listeners
        super().launch()

    def load_definitions(self) -> None:
        """Import the definitions by the management API, bindings in parts; RabbitMQ reads them at its
        start.
        """
        assert self._definitions is not None
        everything = json.loads(Path(self._definitions).read_bytes())
        bindings = everything.pop("bindings")
        self._bring(everything)
        for first in range(0, len(bindings), BINDINGS_AT_ONCE):
            self._bring({"bindings": bindings[first : first + BINDINGS_AT_ONCE]})
        self.is_loaded = True

    def _bring(self, definitions: dict[str, object]) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._management_port}/api/definitions",
            data=json.dumps(definitions).encode(),
            headers={"authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}"},
        )
        with urllib.request.urlopen(request, timeout=START_SECONDS_MAX) as answer:
            answer.read()


class RabbitMqBroker(StartedBeside):
    """Debian's RabbitMQ, one node."""

    name = RABBITMQ

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        super().__init__()
        self._directory = directory
        self._settings: dict[str, str] = {}
        self.start_seconds_max = START_SECONDS_MAX
        if DEFINITIONS in properties:
            self.start_seconds_max = LOAD_SECONDS_MAX
            self._settings["load_definitions"] = properties[DEFINITIONS]
        self._server = self._made()
        self._pid: int | None = None

    def _made(self) -> RabbitMq:
        return RabbitMq(
            self._directory, start_timeout_s=self.start_seconds_max, settings=self._settings
        )

    @staticmethod
    def missing_reason() -> str | None:
        return missing_reason()

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def pid(self) -> int:
        """The process of the Erlang emulator."""
        if self._pid is None:
            self._pid = _emulator(self._directory)
        return self._pid

    @property
    def last_words(self) -> str:
        """Return why the broker did not start."""
        return str(self._failure)[-300:]

    def launch(self) -> None:
        if self._failure is not None:
            # Another process may have its ports now.
            self._server = self._made()
        self._pid = None
        self.begin(self._server.start)

    def stop(self) -> None:
        self.await_begun()
        self._pid = None
        self._server.stop()


def make_broker(
    system: str, directory: Path, properties: Mapping[str, str] | None = None
) -> Broker:
    kind = RabbitMqBroker if system == RABBITMQ else MillpondAmqp
    return kind(directory, properties or {})


def connect(broker: Broker) -> pika.BlockingConnection:
    # The client's own time-outs are long enough for a machine that is busy with both brokers.
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.port, heartbeat=0, socket_timeout=30, stack_timeout=60
    )
    return pika.BlockingConnection(parameters)


def declare(broker: Broker, *queues: str, durable: bool) -> None:
    """Declare new, empty queues, bound by their own names."""
    with connect(broker) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_delete(queue)
            channel.queue_declare(queue, durable=durable)
            channel.queue_bind(queue, EXCHANGE, queue)


def delete(broker: Broker, *queues: str) -> None:
    with connect(broker) as connection:
        channel = connection.channel()
        for queue in queues:
            channel.queue_delete(queue)


def purge(broker: Broker, queue: str) -> None:
    with connect(broker) as connection:
        connection.channel().queue_purge(queue)


def waiting(broker: Broker, queue: str) -> int:
    """Return how many messages are ready."""
    with connect(broker) as connection:
        found = connection.channel().queue_declare(queue, passive=True)
        return int(found.method.message_count)


def first_publish(broker: Broker, queue: str = "bench-ready") -> None:
    """Return as soon as the broker has confirmed one persistent message, trying from before it listens."""
    deadline = time.perf_counter() + getattr(broker, "start_seconds_max", START_SECONDS_MAX)
    while True:
        try:
            with connect(broker) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare(queue, durable=True)
                channel.basic_publish("", queue, b"first", PERSISTENT)
                return
        except (OSError, AMQPError) as error:
            # A starting broker refuses connections.
            if time.perf_counter() > deadline or not broker.alive():
                words = getattr(broker, "last_words", "")
                raise BenchmarkError(f"{broker.name} did not start: {error!r}: {words}") from error
            time.sleep(0.005)


def wait_ready(broker: Broker) -> None:
    """Wait for a launched broker; one whose port was taken by another process is launched again."""
    for attempt in range(1, LAUNCHES_MAX + 1):
        try:
            first_publish(broker)
            return
        except BenchmarkError:
            if attempt == LAUNCHES_MAX:
                raise
            broker.stop()
            broker.launch()


def _emulator(directory: Path) -> int:
    """Return the process of the Erlang emulator that was started in a directory."""
    for process in Path("/proc").iterdir():
        try:
            if (
                process.name.isdecimal()
                and (process / "comm").read_text().strip() == "beam.smp"
                and (process / "cwd").readlink().is_relative_to(directory)
            ):
                return int(process.name)
        except OSError:
            continue  # it ended meanwhile
    raise BenchmarkError("RabbitMQ's process is not to be found")
