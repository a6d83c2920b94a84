"""`millpond kafka timer` against a broker in this process."""

import json

import pytest
from confluent_kafka import Message, Producer

from millpond import Broker
from tests.support.processes.ports import wait_until
from tests.unit.cli.conftest import Run


def send(broker: Broker, topic: str, *delays_ms: int) -> list[int]:
    """Delayed records of librdkafka; their offsets."""
    offsets: list[int] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        offsets.append(offset)

    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for delay_ms in delays_ms:
        headers = {"millpond.delay": str(delay_ms).encode()}
        producer.produce(
            topic, b"hello", b"key", partition=0, headers=headers, on_delivery=on_delivery
        )
    assert producer.flush(60) == 0
    return offsets


@pytest.mark.parametrize("prefix", [(), ("kafka",)])
def test_delayed_records_are_listed_and_cancelled(
    broker: Broker, run: Run, prefix: tuple[str, ...]
) -> None:
    topic = f"later{len(prefix)}"
    run("topic", "create", topic, "--config", "millpond.delay.enable=true")
    late, later = send(broker, topic, 3_600_000, 7_200_000)

    def listed() -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(
            run(*prefix, "timer", "list", "--topic", topic, "--json").stdout
        )
        return found

    wait_until(lambda: len(listed()) == 2, timeout_s=60, what="they are timers")
    first, second = listed()
    assert (first["offset"], second["offset"]) == (late, later)
    assert int(str(second["due_ms"])) - int(str(first["due_ms"])) >= 3_600_000
    assert (first["topic"], first["partition"], first["key"], first["bytes"]) == (
        topic,
        0,
        "key",
        5,
    )

    table = run(*prefix, "timer", "list", "--topic", topic, "--limit", "1")
    columns, row = table.stdout.splitlines()
    assert columns.split("\t") == ["topic", "partition", "offset", "due", "key", "size"]
    assert row.split("\t")[:3] == [topic, "0", str(late)]
    assert "1 more" in table.stderr

    cancelled = run(*prefix, "timer", "cancel", topic, "0", str(late))
    assert cancelled.exit_code == 0
    assert f"{topic}-0 {late}: cancelled" in cancelled.stdout
    wait_until(lambda: len(listed()) == 1, timeout_s=60, what="one is cancelled")
    assert listed()[0]["offset"] == later


def test_a_topic_without_delays_is_not_written_to(run: Run) -> None:
    run("topic", "create", "plain")
    refused = run("timer", "cancel", "plain", "0", "0")
    assert refused.exit_code == 1
    assert "millpond.delay.enable" in refused.stderr
    assert json.loads(run("timer", "list", "--topic", "plain", "--json").stdout) == []
