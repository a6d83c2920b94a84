"""A broker with delayed records is killed again and again; each is delivered once, and not before it is due.

``MILLPOND_CRASH_SEED`` repeats a run's dice, ``MILLPOND_CRASH_KILLS`` makes it longer.
"""

import os
import random
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.ports import wait_until

pytestmark = pytest.mark.crash

KILLS = max(3, int(os.environ.get("MILLPOND_CRASH_KILLS", "50")) // 5)
TIMEOUT_S = 60
BATCH = 200


@pytest.mark.timeout(600)
def test_each_delayed_record_is_delivered_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("MILLPOND_CRASH_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"MILLPOND_CRASH_SEED={seed}")
    chance = random.Random(seed)
    broker = MillpondProcess(tmp_path).start()
    try:
        create(broker, "later")
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        failed: list[str] = []
        cancelled: set[bytes] = set()
        doomed: dict[bytes, int] = {}
        sent = 0
        for kill in range(1, KILLS + 1):
            for _ in range(BATCH):
                send(producer, sent, chance, failed, doomed)
                sent += 1
            wait_until(
                lambda: producer.flush(0.01) < BATCH // 2, timeout_s=TIMEOUT_S, what="writes"
            )
            producer.flush(chance.choice((0, TIMEOUT_S)))
            cancelled |= cancel(producer, doomed)
            time.sleep(chance.uniform(0, 0.5))
            broker.kill()
            print(f"kill {kill}: {len(producer)} in flight")
            broker.start()
        assert producer.flush(TIMEOUT_S) == 0
        cancelled |= cancel(producer, doomed)
        assert producer.flush(TIMEOUT_S) == 0
        assert failed == []
        found = read(broker, sent, cancelled)
    except BaseException:
        broker.kill()
        raise
    assert broker.stop() == 0
    names = [one.value() for one in found]
    assert len(names) == len(set(names)), "delivered twice"
    assert cancelled
    assert not cancelled & set(names), "delivered and cancelled"
    assert set(names) | cancelled == {b"%d" % n for n in range(sent)}
    for one in found:
        headers = dict(one.headers() or ())
        if "millpond.due-at" in headers:
            assert one.timestamp()[1] >= int(headers["millpond.due-at"])


def create(broker: MillpondProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    made = admin.create_topics([NewTopic(topic, 1, config={"millpond.delay.enable": "true"})])
    made[topic].result(TIMEOUT_S)


def send(
    producer: Producer,
    number: int,
    chance: random.Random,
    failed: list[str],
    doomed: dict[bytes, int],
) -> None:
    """One record: without a delay, with a short one, or one so long that it can be cancelled."""
    kind = chance.randrange(4)
    delay_ms = 3_600_000 if kind == 3 and not number % 8 else chance.randrange(2_000)

    def on_delivery(error: object, message: Message) -> None:
        if error is not None:
            failed.append(str(error))
        elif delay_ms > 10_000:
            offset, name = message.offset(), message.value()
            assert offset is not None
            assert name is not None
            doomed[name] = offset

    producer.produce(
        "later",
        b"%d" % number,
        partition=0,
        headers={"millpond.delay": b"%d" % delay_ms} if kind else None,
        on_delivery=on_delivery,
    )
    producer.poll(0)


def cancel(producer: Producer, doomed: dict[bytes, int]) -> set[bytes]:
    """Take back the records whose offsets are known by now; answers which."""
    names = set(doomed)
    for offset in doomed.values():
        headers = {"millpond.cancel": b"%d" % offset}
        producer.produce("later", b"", partition=0, headers=headers)
    doomed.clear()
    return names


def read(broker: MillpondProcess, sent: int, cancelled: set[bytes]) -> list[Message]:
    """Read until nothing more comes for three seconds after all was seen that must come."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "crash",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("later", 0, 0)])
    found: list[Message] = []
    names: set[bytes | None] = set()
    deadline = time.perf_counter() + TIMEOUT_S
    try:
        while time.perf_counter() < deadline:
            message = consumer.poll(3.0)
            if message is None:
                if len(names | cancelled) == sent:
                    break
                continue
            assert message.error() is None, message.error()
            found.append(message)
            names.add(message.value())
    finally:
        consumer.close()
    return found
