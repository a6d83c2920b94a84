"""``millpond consume --group`` as a person runs it: processes that share a group's work, and take over."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import confluent_kafka

from millpond.client import BlockingClient, Groups
from tests.interop.peers import Peer
from tests.interop.topics import create_topic
from tests.support.processes.ports import wait_until

SOURCE = Path(__file__).resolve().parents[2] / "src"


def consume(broker: Peer, topic: str, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*(sys.executable, "-m", "millpond", "consume", topic, "-b", broker.bootstrap), *options],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_readers_share_a_group_and_the_one_that_stays_goes_on(broker: Peer, topic: str) -> None:
    create_topic(broker, topic, partitions=2)
    group = f"{topic}-readers"
    options = ("--group", group, "--from-beginning", "--follow", "--print", "offsets")
    readers = [consume(broker, topic, *options) for _ in range(2)]
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})

    def send(first: int, end: int) -> None:
        for number in range(first, end):
            producer.produce(topic, str(number).encode(), partition=number % 2)
        assert producer.flush(60) == 0

    with BlockingClient(broker.bootstrap) as client:

        def owners() -> int:
            found = client.run(lambda cluster: Groups(cluster).describe(group))
            return sum(bool(member.partitions) for member in found.members)

        def committed() -> int:
            return sum(client.run(lambda cluster: Groups(cluster).offsets(group)).values())

        wait_until(lambda: owners() == 2, timeout_s=60, what="each has a partition")
        send(0, 20)
        wait_until(lambda: committed() == 20, timeout_s=60, what="what was printed is committed")
        readers[0].send_signal(signal.SIGINT)
        early, _ = readers[0].communicate(timeout=60)
        assert readers[0].returncode == 130
        send(20, 30)
        wait_until(lambda: committed() == 30, timeout_s=60, what="the other one goes on")
    readers[1].send_signal(signal.SIGINT)
    late, _ = readers[1].communicate(timeout=60)

    printed = [line.split("\t")[1] for line in (early + late).splitlines()]
    assert sorted(map(int, printed)) == list(range(30)), "nobody was in the way of anybody"
    assert len({line.split("@")[0] for line in early.splitlines()}) == 1
