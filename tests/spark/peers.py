"""Brokers that Spark tests run against: Millpond, and Apache Kafka to compare with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millpond.client import BlockingClient
from tests.support.processes import java_tools
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.kafka_server import ApacheKafka

QUICK_GROUPS = {"group.initial.rebalance.delay.ms": "0", "log.retention.hours": "-1"}


@contextmanager
def running(kind: str, directory: Path) -> Iterator[str]:
    """The bootstrap address of a fresh broker of the kind ``millpond`` or ``kafka``."""
    if kind == "millpond":
        with MillpondProcess(directory, properties=QUICK_GROUPS) as broker:
            yield broker.bootstrap
        return
    reason = java_tools.missing_reason()
    if reason:
        pytest.skip(reason)
    with ApacheKafka(directory) as kafka:
        yield kafka.bootstrap


def create_topic(bootstrap: str, name: str, *, partitions: int = 3, **configs: str) -> str:
    """Make a topic; its name."""
    with BlockingClient(bootstrap) as client:
        client.create_topic(
            name,
            partitions=partitions,
            replication_factor=1,
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
    return name


MakeTopic = Callable[..., str]
