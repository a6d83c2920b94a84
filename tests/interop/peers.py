"""The broker under test as the tests see it: an address, a data directory, and which one it is."""

from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.kafka_server import ApacheKafka

# The protocols of consumer groups: the classic one, and KIP-848.
GROUP_PROTOCOLS = ("classic", "consumer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A running broker process."""

    process: MillpondProcess | ApacheKafka

    @property
    def bootstrap(self) -> str:
        """host:port."""
        return self.process.bootstrap

    @property
    def port(self) -> int:
        """The loopback port."""
        return self.process.port

    @property
    def data(self) -> Path:
        """Where its partitions lie."""
        return self.process.data

    @property
    def is_millpond(self) -> bool:
        """False for Apache Kafka."""
        return isinstance(self.process, MillpondProcess)
