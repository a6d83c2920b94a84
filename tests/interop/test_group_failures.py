"""Groups when things fail: the broker stops, is killed, a consumer is killed; and what is left in the log."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, TopicPartition

from millpond.group.offsets import partition_for
from tests.interop.peers import Peer
from tests.interop.test_groups import assigned, fill, joined, take, values, wait_assigned
from tests.interop.topics import create_topic
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.java_tools import run_tool
from tests.support.processes.ports import wait_until

TIMEOUT_S = 60


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Peer]:
    """A broker of the test's own, which it may stop and kill."""
    with MillpondProcess(
        tmp_path / "mortal", properties={"group.initial.rebalance.delay.ms": "0"}
    ) as process:
        yield Peer(process=process)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_members_go_on_after_the_broker_was(mortal: Peer, topic: str, how: str) -> None:
    fill(mortal, topic, 100)
    # Its session outlasts the time that a busy machine takes to start a broker.
    patient: dict[str, Any] = {"session.timeout.ms": 120_000}
    with joined(mortal, topic, **patient) as member:
        assert [one.value() for one in take(member, 50)] == values(50)
        member.commit(offsets=[TopicPartition(topic, 0, 40)], asynchronous=False)
        if how == "stopped":
            mortal.process.stop()
        else:
            mortal.process.kill()
        mortal.process.start()
        # The same member, the same generation: it finds the broker again and reads on.
        assert [one.value() for one in take(member, 50)] == values(100)[50:]
        member.commit(asynchronous=False)
    with joined(mortal, topic, group=f"{topic}-new") as other:
        assert len(take(other, 100)) == 100
    checker = Consumer({"bootstrap.servers": mortal.bootstrap, "group.id": topic})
    (stored,) = checker.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    assert stored.offset == 100
    checker.close()


def test_a_killed_broker_has_the_last_commit(mortal: Peer, topic: str) -> None:
    fill(mortal, topic, 30)
    with joined(mortal, topic) as member:
        take(member, 30)
        for offset in range(1, 31):
            member.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    mortal.process.kill()
    mortal.process.start()
    checker = Consumer({"bootstrap.servers": mortal.bootstrap, "group.id": topic})
    (stored,) = checker.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    assert stored.offset == 30
    checker.close()


CRASHER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
                     "session.timeout.ms": 9000, "heartbeat.interval.ms": 200})
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(0.1)
    print(len(consumer.assignment()), flush=True)
"""


def test_a_killed_consumer_is_missed_after_its_session(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=4)
    short: dict[str, Any] = {"session.timeout.ms": 6_000}
    with joined(broker, topic, **short) as survivor:
        wait_assigned(survivor, count=4)
        with subprocess.Popen(
            [sys.executable, "-c", CRASHER, broker.bootstrap, topic], stdout=subprocess.PIPE
        ) as doomed:
            try:
                wait_assigned(survivor, count=2)
            finally:
                doomed.send_signal(signal.SIGKILL)
        died = time.monotonic()  # noqa: TID251 - how long Kafka's promise takes in real time
        wait_assigned(survivor, count=4)
        waited_s = time.monotonic() - died  # noqa: TID251
        # K39, K40. Its last heartbeat was some 200 ms before it died, on a busy machine earlier.
        assert waited_s > 4


def test_three_members_of_three_clients(broker: Peer, topic: str) -> None:
    """librdkafka, kafka-python and another librdkafka in one group, with the assignor all of them know."""
    create_topic(broker, topic, partitions=6)
    strategy: dict[str, Any] = {"partition.assignment.strategy": "range"}
    python = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=topic,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=200,
        partition_assignment_strategy=[kafka_range()],
    )
    try:
        with joined(broker, topic, **strategy) as first, joined(broker, topic, **strategy) as other:

            def shares() -> list[int]:
                python.poll(timeout_ms=50)
                mine = sorted(one.partition for one in python.assignment())
                parts = [assigned(first), assigned(other), mine]
                return sorted(number for part in parts for number in part) + [
                    len(part) for part in parts
                ]

            wait_until(
                lambda: shares() == [0, 1, 2, 3, 4, 5, 2, 2, 2],
                timeout_s=TIMEOUT_S,
                what="each member has two partitions",
            )
    finally:
        python.close()


def kafka_range() -> Any:
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    return RangePartitionAssignor


def test_aiokafka_members_rebalance(broker: Peer, topic: str) -> None:
    import asyncio

    create_topic(broker, topic, partitions=3)

    def member() -> aiokafka.AIOKafkaConsumer:
        return aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=topic,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=200,
        )

    async def story() -> None:
        async with asyncio.timeout(TIMEOUT_S), member() as first:
            async with member() as second, member() as third:
                while sorted(len(one.assignment()) for one in (first, second, third)) != [1, 1, 1]:
                    await asyncio.sleep(0.05)
            while len(first.assignment()) != 3:
                await asyncio.sleep(0.05)

    asyncio.run(story())


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The JSON documents in a tool's output, which come without separators."""
    decoder, position = json.JSONDecoder(), 0
    while (position := text.find("{", position)) >= 0:
        document, position = decoder.raw_decode(text, position)
        yield document


@pytest.mark.usefixtures("java")
def test_kafka_s_own_tools_read_the_offsets_topic(broker: Peer, topic: str) -> None:
    fill(broker, topic, 10)
    static: dict[str, Any] = {"group.instance.id": "mill"}
    with joined(broker, topic, **static) as member:
        take(member, 10)
        member.commit(asynchronous=False)
    home = partition_for(topic, 50)
    server = ("--bootstrap-server", broker.bootstrap)
    place = ("--topic", "__consumer_offsets", "--partition", str(home), "--offset", "earliest")
    package = "org.apache.kafka.tools.consumer"
    checker = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{topic}-checker"})
    low, high = checker.get_watermark_offsets(TopicPartition("__consumer_offsets", home), TIMEOUT_S)
    checker.close()

    def shown(formatter: str) -> list[dict[str, Any]]:
        done = run_tool(
            "kafka-console-consumer",
            *(*server, *place, "--max-messages", str(high - low), "--timeout-ms", "60000"),
            *("--formatter", f"{package}.{formatter}"),
        )
        found = documents(done.out)
        return [one for one in found if one["key"]["data"]["group"] == topic]

    offset = shown("OffsetsMessageFormatter")[-1]
    assert offset["key"] == {
        "type": 1,
        "data": {"group": topic, "topic": topic, "partition": 0},
    }
    assert offset["value"]["version"] == 4
    assert offset["value"]["data"]["offset"] == 10
    groups = [one["value"]["data"] for one in shown("GroupMetadataMessageFormatter")]
    (member_shown,) = next(one["members"] for one in groups if one["members"])
    assert member_shown["groupInstanceId"] == "mill"
    assert member_shown["clientHost"] == "/127.0.0.1"

    segment = broker.data / f"__consumer_offsets-{home}" / "00000000000000000000.log"
    if broker.is_millpond:
        dumped = run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(segment)).check()
        assert re.search(rf'"group":"{topic}".*"offset":10', dumped.out)
