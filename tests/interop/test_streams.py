"""Kafka Streams' word count with exactly_once_v2, killed in the middle: the counts are exact.

Streams is the client that asks for most: internal topics with settings of their own, a consumer group with
tasks and standbys in its metadata, transactions with offsets, changelogs that are read back, records that are
deleted once they are used. Once with the classic protocol, where the application's leader deals out the tasks
and makes the internal topics, and once with streams groups (KIP-1071), where the broker does both.
"""

import collections
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.interop.peers import Peer
from tests.interop.topics import create_topic
from tests.support.kafka.wire_client import WireClient
from tests.support.processes.java_host import driver_command
from tests.support.processes.ports import wait_until

WORDS = ("mill", "pond", "wheel", "water", "stone", "flour", "weir")
TIMEOUT_S = 100
GROUP_RESOURCE = 32


@pytest.mark.usefixtures("java")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_a_word_count_is_exact_though_it_was_killed(
    broker: Peer, topic: str, tmp_path: Path, protocol: str
) -> None:
    source = create_topic(broker, f"{topic}-lines", partitions=2)
    target = create_topic(broker, f"{topic}-counts", partitions=2)
    expected = write_lines(broker, source, first=0, count=100)
    command = driver_command("WordCount", broker.bootstrap, source, target, str(tmp_path), protocol)
    if protocol == "streams":
        shorten_sessions(broker, f"{source}-app")
    log = (tmp_path / "streams.log").open("wb")
    with log, counts(broker, target) as counted:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as app:
            try:
                wait_until(lambda: counted() == expected, timeout_s=TIMEOUT_S, what="it counts")
                before = expected.total()
                expected += write_lines(broker, source, first=100, count=5_000)
                wait_until(
                    lambda: counted().total() > before, timeout_s=TIMEOUT_S, what="it goes on"
                )
            finally:
                app.kill()
        expected += write_lines(broker, source, first=5_100, count=300)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as app:
            try:
                wait_until(
                    lambda: counted() == expected, timeout_s=TIMEOUT_S, what="all is counted"
                )
                app.communicate(b"\n", timeout=TIMEOUT_S)
            finally:
                app.kill()
        assert app.returncode == 0, (tmp_path / "streams.log").read_text()[-4000:]
        assert counted.is_without_repetition()
        assert counted() == expected


def shorten_sessions(broker: Peer, group: str) -> None:
    """What the killed application ran is free after a few seconds."""
    config = AlterableConfig("streams.session.timeout.ms", 0, "3000")
    request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(GROUP_RESOURCE, group, [config])], validate_only=False
    )
    with WireClient(broker.port) as link:
        (answer,) = link.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert answer.error_code == 0, answer


def write_lines(broker: Peer, topic: str, *, first: int, count: int) -> collections.Counter[str]:
    """Write lines of three words; how often each word was written."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    written: collections.Counter[str] = collections.Counter()
    for number in range(first, first + count):
        words = [WORDS[(number * step) % len(WORDS)] for step in (1, 2, 4)]
        written.update(words)
        producer.produce(topic, " ".join(words).encode(), partition=number % 2)
    assert producer.flush(TIMEOUT_S) == 0
    return written


class counts:  # noqa: N801 - reads as a verb: with counts(...) as counted
    """What a reader of committed data makes of the target topic; call it to read on."""

    def __init__(self, broker: Peer, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": f"{topic}-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
        self._seen: dict[str, list[int]] = collections.defaultdict(list)

    def __call__(self) -> collections.Counter[str]:
        """The present count of each word."""
        for message in self._consumer.consume(1000, timeout=0.3):
            assert message.error() is None, message.error()
            count = int.from_bytes(message.value(), "big")
            self._seen[message.key().decode()].append(count)
        return collections.Counter({word: seen[-1] for word, seen in self._seen.items()})

    def is_without_repetition(self) -> bool:
        """Whether the counts of each word only ever went up."""
        return all(seen == sorted(set(seen)) for seen in self._seen.values())

    def __enter__(self) -> "counts":
        return self

    def __exit__(self, *exc: object) -> None:
        self._consumer.close()
