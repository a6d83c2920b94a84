"""A disk has lost or changed records that no other replica has: real consumers hear of it, or go on.

The broker is alone, so nothing can be repaired. ``unreadable.records`` of the topic decides; a consumer never
stops without a word.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from millpond.record.batch import BatchHeader, iter_batches
from tests.interop.peers import GROUP_PROTOCOLS, Peer
from tests.interop.topics import create_topic
from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.java_host import JavaHost
from tests.support.processes.ports import wait_until

COUNT = 12
VALUES = [str(number) for number in range(COUNT)]
PATIENCE_S = 60
ASSIGNORS = {"classic": "range", "consumer": "uniform"}
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A topic with a range of records that cannot be read: from ``first`` up to but without ``behind``."""

    topic: str
    first: int
    behind: int

    @property
    def readable(self) -> list[str]:
        return VALUES[: self.first] + VALUES[self.behind :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A broker process and its damaged topics, by what was done to them and ``unreadable.records``."""

    process: MillpondProcess
    topics: dict[tuple[str, str], Damaged]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    process = MillpondProcess(tmp_path_factory.mktemp("lost"), properties=SETTINGS)
    with process:
        topics: dict[tuple[str, str], Damaged] = {}
        kinds = [(kind, policy) for kind in ("flipped", "missing") for policy in ("fail", "skip")]
        for kind, policy in kinds:
            config = {"segment.bytes": "200", "unreadable.records": policy}
            create_topic(Peer(process=process), f"{kind}-{policy}", config=config)
            write(process, f"{kind}-{policy}")
        assert process.stop() == 0
        for kind, policy in kinds:
            name = f"{kind}-{policy}"
            segments = sorted((process.data / f"{name}-0").glob("*.log"))
            assert len(segments) > 3
            first, behind = int(segments[2].stem), int(segments[3].stem)
            assert behind > first
            if kind == "missing":
                for file in (process.data / f"{name}-0").glob(f"{first:020}.*"):
                    file.unlink()
            else:
                behind = first + 1
            topics[kind, policy] = Damaged(topic=name, first=first, behind=behind)
        process.start()
        for (kind, _policy), damaged in topics.items():
            if kind == "flipped":  # under the running broker
                flip(process.data / f"{damaged.topic}-0", damaged.first)
        yield Scene(process=process, topics=topics)


def write(process: MillpondProcess, topic: str) -> None:
    """A batch for each value."""
    producer = Producer({"bootstrap.servers": process.bootstrap, "linger.ms": 0})
    for value in VALUES:
        producer.produce(topic, value, partition=0)
        assert producer.flush(PATIENCE_S) == 0


def batches(directory: Path) -> list[tuple[Path, int, BatchHeader]]:
    """Every batch of a partition: its file, its place there and its header."""
    return [
        (file, position, header)
        for file in sorted(directory.glob("*.log"))
        for position, header in iter_batches(file.read_bytes())
    ]


def flip(directory: Path, offset: int) -> None:
    """Change one bit in the last record of the batch that holds an offset."""
    for file, position, header in batches(directory):
        if header.base_offset <= offset < header.next_offset:
            with file.open("r+b") as stream:
                stream.seek(position + header.size - 2)
                (byte,) = stream.read(1)
                stream.seek(-1, 1)
                stream.write(bytes([byte ^ 0x10]))
            return
    raise AssertionError(f"{directory} has no offset {offset}")


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("kind", ["flipped", "missing"])
def test_librdkafka_is_told_or_goes_on(scene: Scene, kind: str, policy: str) -> None:
    damaged = scene.topics[kind, policy]
    consumer = Consumer(
        {
            "bootstrap.servers": scene.process.bootstrap,
            "group.id": f"{damaged.topic}-readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([damaged.topic])
    found: list[str] = []
    errors: list[int] = []

    def is_read() -> bool:
        message = consumer.poll(1.0)
        if message is None:
            return False
        if message.error() is None:
            found.append(message.value().decode())
            return found[-1] == VALUES[-1]
        errors.append(message.error().code())
        assert (message.topic(), message.partition()) == (damaged.topic, 0)
        if len(errors) == 2:
            consumer.seek(TopicPartition(damaged.topic, 0, damaged.behind))
        return False

    try:
        wait_until(is_read, timeout_s=PATIENCE_S, what="the last record", poll_s=0)
    finally:
        consumer.close()
    assert found == damaged.readable
    # librdkafka's name for CORRUPT_MESSAGE. It asks again until the application seeks.
    if policy == "fail":
        assert set(errors) == {KafkaError.INVALID_MSG}
        assert len(errors) >= 2
    else:
        assert errors == []
    said = f"offsets {damaged.first} to {damaged.behind - 1}"
    lines = [line for line in scene.process.output.splitlines() if said in line]
    assert any(f"{damaged.topic}-0" in line for line in lines)


@pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)
@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("kind", ["flipped", "missing"])
def test_javas_consumer_is_told_or_goes_on(
    scene: Scene, java_host: JavaHost, kind: str, policy: str, protocol: str
) -> None:
    damaged = scene.topics[kind, policy]
    said = java_host.run(
        "Consumers.lost",
        *(scene.process.bootstrap, damaged.topic, protocol, ASSIGNORS[protocol]),
        *(str(damaged.behind), VALUES[-1]),
    )
    error = (
        f"KafkaException: Encountered corrupt message when fetching offset {damaged.first} "
        f"for topic-partition {damaged.topic}-0"
    )
    # The position stays until the application seeks: the second poll raises again.
    errors = [error, f"position {damaged.first}"] * 2
    assert said == [
        *(errors if policy == "fail" else []),
        f"read {' '.join(damaged.readable)}",
        f"committed [{COUNT}]",
    ]


@pytest.mark.parametrize("protocol", GROUP_PROTOCOLS)
def test_groups_go_on_when_a_byte_of_their_offsets_has_changed(
    tmp_path: Path, java_host: JavaHost, protocol: str
) -> None:
    with MillpondProcess(tmp_path, properties=SETTINGS) as process:
        for topic in ("lost", "kept"):
            create_topic(Peer(process=process), topic)
            write(process, topic)
            assert java_host.run("Consumers.resume", *job(process, topic, protocol, COUNT)) == [
                f"read {' '.join(VALUES)}",
                f"committed [{COUNT}]",
            ]
        assert process.stop() == 0
        # The last value of the group that is not read again: its commit, and all that followed it.
        offsets = process.data / "__consumer_offsets-0"
        of_lost = [
            header
            for file, position, header in batches(offsets)
            if b"lost" in file.read_bytes()[position : position + header.size]
        ]
        for header in of_lost:
            flip(offsets, header.base_offset)
        process.start()

        # librdkafka hears the positions that are left, and commits new ones.
        assert position_of(process, "kept") == COUNT
        assert position_of(process, "lost") < 0
        for topic, expected in (("lost", VALUES), ("kept", ["more"])):
            more = Producer({"bootstrap.servers": process.bootstrap})
            more.produce(topic, "more", partition=0)
            assert more.flush(PATIENCE_S) == 0
            values = [*expected, "more"] if topic == "lost" else expected
            assert java_host.run(
                "Consumers.resume", *job(process, topic, protocol, len(values))
            ) == [f"read {' '.join(values)}", f"committed [{COUNT + 1}]"]
            assert position_of(process, topic) == COUNT + 1
        assert "are lost" in process.output


def job(process: MillpondProcess, topic: str, protocol: str, count: int) -> tuple[str, ...]:
    """The arguments of ``Consumers.resume``."""
    return process.bootstrap, topic, protocol, ASSIGNORS[protocol], str(count)


def position_of(process: MillpondProcess, topic: str) -> int:
    """What the group with the topic's name has committed, by librdkafka's admin client."""
    admin = AdminClient({"bootstrap.servers": process.bootstrap})
    asked = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0)])
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    return int(answer.result(PATIENCE_S).topic_partitions[0].offset)
