"""Clients that go on whatever happens to the nodes: librdkafka and Java writing, a group reading."""

import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.chaos.history import Poll, longest_gap_s
from tests.crash.writers import Writer
from tests.support.processes.java_host import JavaHost

# A run may take this long before a client gives a record up.
PATIENCE_MS = 300_000


class ChaosWriter(Writer):
    """An idempotent writer of librdkafka's that notes when each acknowledgement came."""

    def __init__(self, name: str, bootstrap: str, topic: str, partition: int) -> None:
        self.bootstrap = bootstrap
        self.moments: list[float] = []
        super().__init__(
            name,
            bootstrap,
            topic,
            partition,
            **{
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": PATIENCE_MS,
                "request.timeout.ms": 5000,
                "socket.timeout.ms": 6000,
                "topic.metadata.refresh.interval.ms": 1000,
            },
        )

    def texts(self) -> dict[int, str]:
        """What was promised, by offset."""
        return {offset: value.decode() for offset, value in self.promised().items()}

    def gap_s(self, since: float) -> float:
        """The longest time without an acknowledgement since then."""
        moments = [moment for moment in list(self.moments) if moment >= since]
        return longest_gap_s(moments, began=since, ended=time.perf_counter())

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        super()._on_delivery(error, message)
        if error is None:
            self.moments.append(time.perf_counter())


class JavaWriter:
    """Kafka's own producer in a JVM, for one partition."""

    def __init__(self, bootstrap: str, topic: str, partition: int, at: Path) -> None:
        at.mkdir(parents=True)
        self.topic = topic
        self.partition = partition
        self._client_log = at / "client.log"
        self._host = JavaHost(at / "java.log", client_log=self._client_log)
        self._bootstrap = bootstrap
        self._directory = at
        self._acknowledged = at / "acknowledged"
        self._said: list[str] = []
        self._failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._write, name="java writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """End the JVM, whatever it does."""
        self._host.close()

    @property
    def acknowledged_bytes(self) -> int:
        """Grows with every acknowledgement."""
        return self._acknowledged.stat().st_size if self._acknowledged.exists() else 0

    def state(self) -> str:
        """What the client has logged last and what its threads do, for whoever must find out why it hangs."""
        log = self._client_log.read_text().splitlines() if self._client_log.exists() else []
        return "\n".join([*log[-200:], self._host.stacks()])

    def stop(self, timeout_s: float = 90) -> dict[int, str]:
        """Write no more; what was acknowledged, by offset."""
        (self._directory / "stop").touch()
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"the Java writer does not end:\n{self.state()}"
        assert not self._failure, self._failure
        assert "refused 0" in self._said[0], self._said
        lines = self._acknowledged.read_text().splitlines()
        rows = [line.split("\t") for line in lines]
        promised = {int(offset): value for offset, value, _ in rows}
        assert len(promised) == len(rows), "an offset was promised twice"
        return promised

    def read(self) -> list[tuple[int, str]]:
        """Everything in the partition, as Kafka's own consumer sees it."""
        file = self._directory / "read"
        self._host.run("Chaos.read", self._bootstrap, self.topic, str(self.partition), str(file))
        rows = [line.split("\t") for line in file.read_text().splitlines()]
        return [(int(offset), value) for offset, value in rows]

    def _write(self) -> None:
        place = (self._bootstrap, self.topic, str(self.partition))
        file = str(self._acknowledged)
        try:
            self._said = self._host.run("Chaos.write", *place, file, timeout_s=900)
        except BaseException as error:  # noqa: BLE001 - carried to whoever stops the writer
            self._failure.append(error)


class GroupReader:
    """A member of a consumer group that reads on and commits; what was committed may never go back."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.committed: dict[int, int] = {}
        # What each poll gave, in order; commits that were acknowledged behind earlier ones.
        self.polls: list[Poll] = []
        self.went_back: list[str] = []
        self._topic = topic
        self._stop = threading.Event()
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "socket.timeout.ms": 6000,
            "log_level": 0,
        }
        self._thread = threading.Thread(target=self._read, name="group reader", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    @property
    def read(self) -> int:
        """How many records."""
        return sum(len(poll) for poll in self.polls)

    def regressions(self) -> list[str]:
        """Commits that went back on the way, and partitions that stand behind what was acknowledged to us."""
        consumer = Consumer(self._settings)
        try:
            places = [TopicPartition(self._topic, number) for number in self.committed]
            found = consumer.committed(places, timeout=60)
        finally:
            consumer.close()
        return self.went_back + [
            f"{place.topic}-{place.partition}: {place.offset} after {self.committed[place.partition]}"
            for place in found
            if place.offset < self.committed[place.partition]
        ]

    def _read(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        try:
            while not self._stop.is_set():
                records = [one for one in consumer.consume(500, timeout=0.2) if one.error() is None]
                if not records:
                    continue
                self.polls.append([_seen(record) for record in records])
                try:
                    done = consumer.commit(asynchronous=False) or []
                except KafkaException:
                    continue  # nobody promised anything
                for place in done:
                    if place.error is None and place.offset >= 0:
                        self._note_commit(place.partition, place.offset)
        finally:
            consumer.close()

    def _note_commit(self, partition: int, offset: int) -> None:
        before = self.committed.get(partition, -1)
        if offset < before:
            self.went_back.append(f"{self._topic}-{partition}: {offset} committed after {before}")
        self.committed[partition] = max(before, offset)


def _seen(record: Message) -> tuple[int, int, str]:
    partition, offset, value = record.partition(), record.offset(), record.value()
    assert partition is not None
    assert offset is not None
    return partition, offset, (value or b"").decode()
