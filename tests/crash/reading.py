"""Reading a partition back after a crash, with a client that is not ours, and judging what is there."""

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.crash.writers import Writer

TIMEOUT_S = 60


def read_back(
    bootstrap: str, topic: str, partition: int, *, start: int = 0
) -> list[tuple[int, bytes]]:
    """Everything in the partition from `start` to its end, as (offset, value)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reading-back",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    try:
        place = TopicPartition(topic, partition, start)
        _, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        if start >= end:
            return []
        consumer.assign([TopicPartition(topic, partition, start or OFFSET_BEGINNING)])
        found: list[tuple[int, bytes]] = []
        while len(found) < end - start:
            # Waits until it has as many as it is asked for: never ask for more than there are.
            batch = consumer.consume(min(10_000, end - start - len(found)), timeout=TIMEOUT_S)
            assert batch, f"{topic}-{partition}: nothing after offset {found[-1:]} of {end}"
            for message in batch:
                assert message.error() is None, message.error()
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert isinstance(value, bytes)
                found.append((offset, value))
        return found
    finally:
        consumer.close()


def read_keyed(bootstrap: str, topic: str) -> dict[bytes, bytes]:
    """The last value of every key in partition 0, which may have holes."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reading-keyed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    found: dict[bytes, bytes] = {}
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "neither a message nor the end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            found[key] = value
    finally:
        consumer.close()


def judge(
    promised: dict[int, bytes], writer: Writer, stored: list[tuple[int, bytes]], *, start: int = 0
) -> None:
    """Every acknowledged record lies where it was acknowledged, in order, and offsets have no holes."""
    where = f"{writer.name} {writer.topic}-{writer.partition}"
    assert [offset for offset, _ in stored] == list(range(start, start + len(stored))), (
        f"{where}: offsets have holes"
    )
    at = dict(stored)
    lost = {
        offset: value
        for offset, value in promised.items()
        if offset >= start and at.get(offset) != value
    }
    assert not lost, (
        f"{where}: {len(lost)} acknowledged records are not where they were: {first(lost)}"
    )
    strangers = [value for _, value in stored if not value.startswith(writer.name.encode() + b" ")]
    assert not strangers, f"{where}: {strangers[:3]} were never written here"


def judge_once_and_in_order(writer: Writer, stored: list[tuple[int, bytes]]) -> None:
    """An idempotent writer's records are all there, once each, in the order of writing."""
    numbers = [int(value.split()[1]) for _, value in stored]
    assert numbers == list(range(len(numbers))), f"{writer.name}: {oddities(numbers)}"


def oddities(numbers: list[int]) -> str:
    """The first places where a row of numbers does not go on by one."""
    odd = [
        f"{before} is followed by {after}"
        for before, after in zip([-1, *numbers], numbers, strict=False)
        if after != before + 1
    ]
    return "; ".join(odd[:5])


def first(table: dict[int, bytes]) -> dict[int, bytes]:
    """A few entries, for a message."""
    return dict(sorted(table.items())[:5])
