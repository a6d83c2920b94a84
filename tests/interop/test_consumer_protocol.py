"""librdkafka with ``group.protocol=consumer`` (KIP-848): the broker assigns, and goes on when a client dies.

Each consumer is a process of its own, so that it can be killed without a word to the broker.
"""

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.group.offsets import partition_for
from millpond.wire.kafka.api import ApiKey
from millpond.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from millpond.wire.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from millpond.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from tests.support.kafka.wire_client import WireClient
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.java_tools import run_tool
from tests.support.processes.ports import wait_until

PARTITIONS = 6

# The shortest that still lets a slow machine breathe; Kafka's own defaults take a minute.
QUICK = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
}

CHILD = """
import json, sys
from confluent_kafka import Consumer

options = json.loads(sys.argv[1])
consumer = Consumer(options["config"])
consumer.subscribe(options["topics"])
told = None
while True:
    message = consumer.poll(0.1)
    if message is not None and message.error() is None:
        print(json.dumps({"read": [message.topic(), message.partition(), message.offset()]}), flush=True)
    owned = sorted([one.topic, one.partition] for one in consumer.assignment())
    if owned != told:
        told = owned
        print(json.dumps({"owned": owned}), flush=True)
"""


class Child:
    """One consumer process: what it owns now and what it has read."""

    def __init__(self, directory: Path, bootstrap: str, group: str, topics: list[str]) -> None:
        self._said = directory / f"{uuid.uuid4().hex}.jsonl"
        options = {
            "topics": topics,
            "config": {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            },
        }
        with self._said.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", CHILD, json.dumps(options)],
                stdout=out,
                stderr=subprocess.DEVNULL,
            )

    def _lines(self) -> Iterator[dict[str, Any]]:
        for line in self._said.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                return  # the last line is not whole yet

    @property
    def owned(self) -> list[tuple[str, int]]:
        told = [line["owned"] for line in self._lines() if "owned" in line]
        return [(topic, partition) for topic, partition in told[-1]] if told else []

    @property
    def read(self) -> list[tuple[str, int, int]]:
        return [tuple(line["read"]) for line in self._lines() if "read" in line]


@contextmanager
def children() -> Iterator[list[Child]]:
    running: list[Child] = []
    try:
        yield running
    finally:
        for child in running:
            child.process.kill()
            child.process.wait(timeout=10)


def shared(members: list[Child], topic: str, partitions: int = PARTITIONS) -> bool:
    """Whether these members have all partitions between them, each once, evenly."""
    owned = [place for member in members for place in member.owned]
    counts = [len(member.owned) for member in members]
    everything = [(topic, number) for number in range(partitions)]
    return sorted(owned) == everything and max(counts) - min(counts) <= 1


def produce(bootstrap: str, topic: str, count: int, partitions: int = PARTITIONS) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(60) == 0


def test_three_share_a_topic_and_go_on_when_one_is_killed(tmp_path: Path) -> None:
    with MillpondProcess(tmp_path / "data", properties=QUICK) as broker, children() as running:
        create_topic(broker, "orders", PARTITIONS)
        produce(broker.bootstrap, "orders", 60)
        for _ in range(3):
            running.append(Child(tmp_path, broker.bootstrap, "readers", ["orders"]))
        wait_until(lambda: shared(running, "orders"), timeout_s=60, what="three share six")

        killed, *left = running
        killed.process.kill()
        wait_until(lambda: shared(left, "orders"), timeout_s=60, what="two share six")

        produce(broker.bootstrap, "orders", 60)
        # The dead one had committed what librdkafka commits every five seconds: the rest is read again.
        everything = {("orders", number, offset) for number in range(6) for offset in range(20)}
        wait_until(
            lambda: {one for child in running for one in child.read} == everything,
            timeout_s=60,
            what="all is read",
        )
        late = [one for child in left for one in child.read if one[2] >= 10]
        assert len(late) == len(set(late)) == 60


def test_a_pattern_follows_topics_as_they_are_made(tmp_path: Path) -> None:
    with MillpondProcess(tmp_path / "data", properties=QUICK) as broker, children() as running:
        create_topic(broker, "orders-north", 2)
        running.append(Child(tmp_path, broker.bootstrap, "pattern", ["^orders-.*"]))
        (child,) = running
        wait_until(lambda: len(child.owned) == 2, timeout_s=60, what="the first topic")

        create_topic(broker, "orders-south", 3)
        create_topic(broker, "letters", 1)
        # Patterns are looked up at most every ten seconds, here as in Kafka.
        wait_until(lambda: len(child.owned) == 5, timeout_s=60, what="the second topic")
        assert {topic for topic, _ in child.owned} == {"orders-north", "orders-south"}


def test_a_group_survives_the_broker(tmp_path: Path) -> None:
    with MillpondProcess(tmp_path / "data", properties=QUICK) as broker, children() as running:
        create_topic(broker, "orders", PARTITIONS)
        for _ in range(2):
            running.append(Child(tmp_path, broker.bootstrap, "readers", ["orders"]))
        wait_until(lambda: shared(running, "orders"), timeout_s=60, what="two share six")
        before = [child.owned for child in running]

        broker.kill()
        broker.start()

        produce(broker.bootstrap, "orders", 60)
        wait_until(
            lambda: sum(len(child.read) for child in running) == 60,
            timeout_s=60,
            what="all is read",
        )
        assert [child.owned for child in running] == before


def create_topic(broker: MillpondProcess, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions)])[name].result(60)


def test_kafka_reads_what_a_group_leaves_in_the_log(tmp_path: Path) -> None:
    with (
        MillpondProcess(tmp_path / "data", properties=QUICK) as broker,
        WireClient(broker.port) as link,
    ):
        create_topic(broker, "orders", 2)
        create_topic(broker, "letters-in", 1)
        find = FindCoordinatorRequest(key="readers")
        wait_until(
            lambda: link.ask(ApiKey.FIND_COORDINATOR, 3, find).error_code == 0,
            timeout_s=60,
            what="there is a coordinator",
        )
        joining = ConsumerGroupHeartbeatRequest(
            group_id="readers",
            member_id="one",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"],
            subscribed_topic_regex="letters-.*",
            topic_partitions=[],
        )
        assert link.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, joining).error_code == 0
        leaving = ConsumerGroupHeartbeatRequest(
            group_id="readers", member_id="one", member_epoch=-1
        )
        describe = ConsumerGroupDescribeRequest(["readers"])
        wait_until(
            # The pattern is looked up after the answer, and means a topic that nobody has named.
            lambda: (
                link.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, describe).groups[0].group_epoch == 3
            ),
            timeout_s=60,
            what="the pattern is looked up",
        )
        assert link.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, leaving).error_code == 0
        home = broker.data / f"__consumer_offsets-{partition_for('readers', 50)}"
        segment = home / "00000000000000000000.log"
        dumped = run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(segment))
        found = dumped.check().out
    for said in (
        r'"type":"3".*"epoch":2',
        r'"type":"5".*"subscribedTopicNames":\["orders"\].*"subscribedTopicRegex":"letters-.\*"',
        r'"type":"6".*"assignmentEpoch":2.*"assignmentTimestamp":\d{13}',
        r'"type":"7".*"partitions":\[0,1\]',
        r'"type":"8".*"memberEpoch":2.*"state":0.*"partitions":\[0,1\],"assignmentEpochs":\[2,2\]',
        r'"type":"16".*"regularExpression":"letters-.\*".*"topics":\["letters-in"\]',
        r'"type":"5".*"memberId":"one".* payload: <DELETE>',
    ):
        assert re.search(said, found), f"{said} in:\n{found}"
