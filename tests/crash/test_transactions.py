"""A broker is killed in the middle of transactions, again and again; the histories are judged.

Writers commit and abort transactions over three partitions, a copier reads one topic and writes another
exactly once, and a reader of committed data looks on. Then, after Jepsen's Kafka workload: no aborted read,
no lost write, no duplicate, no inversion, no half transaction, and nothing that the reader saw has changed.
"""

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import MillpondProcess
from tests.support.processes.ports import wait_until

pytestmark = pytest.mark.crash

KILLS = max(3, int(os.environ.get("MILLPOND_CRASH_KILLS", "50")) // 8)
PARTITIONS = 3
TIMEOUT_S = 30


@dataclass
class History:
    """What one writer knows of its transactions, by number."""

    name: str
    outcomes: dict[int, str] = field(default_factory=dict)
    values: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        return sum(outcome != "unknown" for outcome in self.outcomes.values())


@dataclass
class Crew:
    """Everyone who works while the broker dies."""

    bootstrap: str
    stopping: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)

    def writer(self, name: str) -> Producer:
        """A new incarnation, whatever the broker is doing just now."""
        while True:
            one = Producer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "transactional.id": name,
                    "linger.ms": 2,
                    # librdkafka's send_offsets_to_transaction knows no time-out (its issue 5456): it looks
                    # again only when one of its connections changes, so one must.
                    "connections.max.idle.ms": 5_000,
                    "log_level": 0,
                }
            )
            with contextlib.suppress(KafkaException):
                one.init_transactions(TIMEOUT_S)
                return one
            assert not self.stopping.is_set(), f"{name} was never let in"

    def write(self, history: History, chance: random.Random) -> None:
        writer = self.writer(history.name)
        number = 0
        while not self.stopping.is_set():
            number += 1
            history.outcomes[number] = "unknown"
            history.values[number] = values = [
                (partition, f"{history.name} {number} {place}".encode())
                for place, partition in enumerate(chance.choices(range(PARTITIONS), k=4))
            ]

            def work(writer: Producer, values: list[tuple[int, bytes]] = values) -> None:
                for partition, value in values:
                    writer.produce("story", value, partition=partition)

            writer, outcome = self.transact(
                writer, history.name, work, commit=chance.random() < 0.7
            )
            history.outcomes[number] = outcome

    def transact(
        self, writer: Producer, name: str, work: Callable[[Producer], None], *, commit: bool
    ) -> tuple[Producer, str]:
        """One transaction; its outcome as far as it is known, and the producer to go on with."""
        try:
            writer.begin_transaction()
            work(writer)
            if not commit:
                writer.flush(TIMEOUT_S)
                abort(writer)
                return writer, "aborted"
            while True:
                try:
                    writer.commit_transaction(TIMEOUT_S)
                    return writer, "committed"
                except KafkaException as error:
                    if not error.args[0].retriable():
                        raise
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                with contextlib.suppress(KafkaException):
                    abort(writer)
                    return writer, "aborted"
            return self.writer(name), "unknown"

    def copy(self) -> None:
        reader = consumer(self.bootstrap, "copiers")
        reader.subscribe(["source"])
        writer = self.writer("copier")
        while not self.stopping.is_set():
            messages = [one for one in reader.consume(20, timeout=0.5) if not one.error()]
            if not messages:
                continue

            work = partial(copy_batch, reader, messages)
            writer, outcome = self.transact(writer, "copier", work, commit=True)
            if outcome != "committed":
                # What was read must be read again, from where the group stands.
                reader.close()
                reader = consumer(self.bootstrap, "copiers")
                reader.subscribe(["source"])
        reader.close()

    def look_on(self, seen: dict[tuple[int, int], bytes]) -> None:
        reader = consumer(self.bootstrap, "onlooker")
        reader.assign([TopicPartition("story", partition, 0) for partition in range(PARTITIONS)])
        last = dict.fromkeys(range(PARTITIONS), -1)
        while not self.stopping.is_set():
            message = reader.poll(0.2)
            if message is None or message.error():
                continue
            partition, offset = message.partition(), message.offset()
            assert offset > last[partition], "the reader was sent back"
            last[partition] = offset
            seen[partition, offset] = message.value()
        reader.close()

    @contextlib.contextmanager
    def at_work(self, *jobs: Callable[[], None]) -> Iterator[None]:
        def guarded(job: Callable[[], None]) -> None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - judged by the test
                self.failures.append(error)

        # Daemons: one that hangs in its client must not keep a run from ending that has failed already.
        threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            for thread in threads:
                thread.join(TIMEOUT_S * 2)
            for failure in self.failures:
                print(f"one of the crew failed: {failure!r}")
        assert self.failures == []
        assert not any(thread.is_alive() for thread in threads)


def copy_batch(reader: Consumer, messages: Sequence[Message], writer: Producer) -> None:
    for message in messages:
        writer.produce("target", message.value(), partition=0)
    writer.send_offsets_to_transaction(
        reader.position(reader.assignment()), reader.consumer_group_metadata(), TIMEOUT_S
    )


def all_ended_more(histories: Sequence[History], before: Sequence[int]) -> bool:
    return all(one.ended > count for one, count in zip(histories, before, strict=True))


def abort(writer: Producer) -> None:
    while True:
        try:
            writer.abort_transaction(TIMEOUT_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "session.timeout.ms": 6000,
            "log_level": 0,
        }
    )


def read_back(bootstrap: str, topic: str, partition: int) -> dict[int, bytes]:
    """All that is committed, by offset."""
    reader = consumer(bootstrap, "judge")
    reader.assign([TopicPartition(topic, partition, 0)])
    found: dict[int, bytes] = {}
    try:
        while True:
            message = reader.poll(TIMEOUT_S)
            assert message is not None, f"{topic}-{partition}: a reader hangs after {len(found)}"
            error = message.error()
            if error is None:
                found[message.offset()] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        reader.close()


@pytest.mark.timeout(600)
def test_transactions_are_whole_whenever_the_broker_dies(tmp_path: Path) -> None:
    seed = int(os.environ.get("MILLPOND_CRASH_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"MILLPOND_CRASH_SEED={seed}")
    chance = random.Random(seed)
    broker = MillpondProcess(tmp_path, properties={"group.initial.rebalance.delay.ms": "0"})
    broker.start()
    try:
        source = prepare(broker)
        crew = Crew(broker.bootstrap)
        histories = [History("red"), History("blue")]
        seen: dict[tuple[int, int], bytes] = {}
        dice = [random.Random(chance.random()) for _ in histories]
        with crew.at_work(
            lambda: crew.write(histories[0], dice[0]),
            lambda: crew.write(histories[1], dice[1]),
            crew.copy,
            lambda: crew.look_on(seen),
        ):
            for _ in range(KILLS):
                ended = [history.ended for history in histories]
                wait_until(
                    partial(all_ended_more, histories, ended),
                    timeout_s=TIMEOUT_S * 2,
                    what="transactions end",
                )
                threading.Event().wait(chance.uniform(0.0, 0.3))
                broker.kill()
                broker.start()
            wait_until(
                # A copier that could not say goodbye is waited for by its group: 45 s, perhaps twice.
                lambda: len(read_back(broker.bootstrap, "target", 0)) == len(source),
                timeout_s=TIMEOUT_S * 5,
                what="everything is copied",
            )
        judge_copy(source, read_back(broker.bootstrap, "target", 0))
        # The last incarnations end what is still open, so that all can be read.
        for history in histories:
            crew.stopping.clear()
            crew.writer(history.name)
        logs = {one: read_back(broker.bootstrap, "story", one) for one in range(PARTITIONS)}
        for history in histories:
            judge(history, logs)
        for (partition, offset), value in seen.items():
            assert logs[partition].get(offset) == value, "what was read has changed"
        committed = [list(one.outcomes.values()).count("committed") for one in histories]
        print(f"{committed} transactions committed over {KILLS} kills")
    finally:
        if broker.is_running():
            broker.kill()


def prepare(broker: MillpondProcess) -> list[bytes]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    made = admin.create_topics(
        [NewTopic("story", PARTITIONS, 1), NewTopic("source", 1, 1), NewTopic("target", 1, 1)]
    )
    for future in made.values():
        future.result(TIMEOUT_S)
    source = [b"%d" % number for number in range(2_000)]
    writer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in source:
        writer.produce("source", value, partition=0)
    assert writer.flush(TIMEOUT_S) == 0
    return source


def judge(history: History, logs: dict[int, dict[int, bytes]]) -> None:
    """Aborted read, lost write, half transaction, duplicate, inversion."""
    read = [(partition, value) for partition, log in logs.items() for value in log.values()]
    present = set(read)
    assert len(present) == len(read), "a value was read twice"
    for number, values in history.values.items():
        found = [one in present for one in values]
        outcome = history.outcomes[number]
        if outcome == "committed":
            assert all(found), f"{history.name} {number}: a committed write is lost"
        elif outcome == "aborted":
            assert not any(found), f"{history.name} {number}: an aborted write is read"
        else:
            assert all(found) or not any(found), f"{history.name} {number}: half a transaction"
    for partition, log in logs.items():
        ours = [value.split() for value in log.values() if value.startswith(history.name.encode())]
        order = [(int(number), int(place)) for _, number, place in ours]
        assert order == sorted(order), f"{history.name} in {partition}: out of order"


def judge_copy(source: list[bytes], target: dict[int, bytes]) -> None:
    assert list(target.values()) == source, "the copy is not exactly once and in order"
