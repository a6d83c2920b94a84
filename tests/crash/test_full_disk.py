"""A broker whose files may not grow any more, which is what a full disk looks like to it.

A limit on the size of a file (RLIMIT_FSIZE) does this without a file system of its own: past it every write
fails with EFBIG, in the middle of a batch if that is where the limit lies.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.reading import read_back
from tests.support.processes.broker_process import MillpondProcess

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

FILE_BYTES_MAX = 3 * 1024 * 1024
VALUE = b"v" * 10_000
TIMEOUT_S = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[MillpondProcess]:
    """A broker that may write files of 3 MiB."""
    process = MillpondProcess(tmp_path, file_bytes_max=FILE_BYTES_MAX)
    try:
        yield process.start()
    except BaseException:
        print(process.output[-4000:])
        raise
    finally:
        if process.is_running():
            process.kill()


def test_a_full_partition_is_refused_and_nothing_else_suffers(broker: MillpondProcess) -> None:
    create(broker, "full", "other")
    kept, refusals = write(broker, "full", 600)
    assert len(kept) > 100
    assert refusals
    assert {error.code() for error in refusals} == {KafkaError.KAFKA_STORAGE_ERROR}

    # The broker lives, the other partition takes messages, what was acknowledged can be read.
    assert broker.is_running()
    others, other_refusals = write(broker, "other", 20)
    assert len(others) == 20
    assert other_refusals == []
    assert_kept(broker, "full", kept)

    # When there is room again, the partition takes messages again, where it left off.
    broker.file_bytes_max = None
    assert broker.stop() == 0
    broker.start()
    assert_kept(broker, "full", kept)
    more, refusals = write(broker, "full", 20)
    assert refusals == []
    assert min(more) == max(kept) + 1
    assert_kept(broker, "full", kept | more)


def test_a_full_disk_and_then_a_crash(broker: MillpondProcess) -> None:
    create(broker, "full", "other")
    kept, _ = write(broker, "full", 600)
    broker.kill()
    broker.file_bytes_max = None
    broker.start()
    assert_kept(broker, "full", kept)
    more, refusals = write(broker, "full", 20)
    assert refusals == []
    assert min(more) == max(kept) + 1


def create(broker: MillpondProcess, *topics: str) -> None:
    """Create topics of one partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for answer in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        answer.result(TIMEOUT_S)


def write(
    broker: MillpondProcess, topic: str, count: int
) -> tuple[dict[int, bytes], list[KafkaError]]:
    """Write so many messages without trying again: what was acknowledged by offset, and the refusals."""
    kept: dict[int, bytes] = {}
    refusals: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is not None:
            refusals.append(error)
        else:
            assert offset is not None
            assert isinstance(value, bytes)
            kept[offset] = value

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "acks": "all",
            "retries": 0,
            "batch.size": 60_000,
            "linger.ms": 1,
            "log_level": 0,
            "on_delivery": on_delivery,
        }
    )
    for number in range(count):
        producer.produce(topic, b"%d " % number + VALUE, partition=0)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    return kept, refusals


def assert_kept(broker: MillpondProcess, topic: str, kept: dict[int, bytes]) -> None:
    """Everything acknowledged is there, and nothing beside it."""
    assert dict(read_back(broker.bootstrap, topic, 0)) == kept
