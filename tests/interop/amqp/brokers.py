"""The two brokers that the stories of this folder are told to: Millpond, and a real RabbitMQ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pika

from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.ports import free_port


@dataclass(frozen=True, slots=True, kw_only=True)
class AmqpPeer:
    """A running broker, as an AMQP client sees it."""

    port: int
    is_millpond: bool

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def connect(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1",
                self.port,
                socket_timeout=60,
                stack_timeout=60,
                blocked_connection_timeout=60,
            )
        )


# What a client saw, line by line, in words that do not depend on time or chance.
Story = Callable[[AmqpPeer], list[str]]


class Broker:
    """A Millpond process and the port where it speaks AMQP."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        self.amqp_port = free_port()
        self.process = MillpondProcess(directory, properties=properties)
        kafka = f"PLAINTEXT://127.0.0.1:{self.process.port}"
        self.process.properties["listeners"] = f"{kafka},AMQP://127.0.0.1:{self.amqp_port}"

    @property
    def peer(self) -> AmqpPeer:
        return AmqpPeer(port=self.amqp_port, is_millpond=True)

    def connect(self) -> pika.BlockingConnection:
        return self.peer.connect()
