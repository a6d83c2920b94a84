"""Writers that go on through any number of crashes and remember what was promised to them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, Message, Producer

# About this many messages at a time, then a short breath: enough to be in the middle of something at any
# moment, few enough to be read back again and again. When the allowance is used up, a writer slows down to
# one message at a time until it is given a new one.
CHUNK = 20
BREATH_S = 0.002
SLOW_BREATH_S = 0.02
ALLOWANCE = 1500


class Writer:
    """A producer in a thread of its own, numbering its messages from 0.

    `acknowledged` maps offset to value, as the broker promised. `given_up` holds the values that were refused
    or timed out, which may or may not be stored.
    """

    def __init__(
        self, name: str, bootstrap: str, topic: str, partition: int, **config: object
    ) -> None:
        self.name = name
        self.topic = topic
        self.partition = partition
        self.acknowledged: dict[int, bytes] = {}
        self.given_up: list[bytes] = []
        self.fatal: KafkaError | None = None
        self.disconnects = 0
        self.sent = 0
        self._allowance = ALLOWANCE
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 1,
                "queue.buffering.max.messages": 2000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 50,
                "socket.connection.setup.timeout.ms": 2000,
                "log_level": 0,
                "error_cb": self._on_error,
                "on_delivery": self._on_delivery,
                **config,
            }
        )
        self._thread = threading.Thread(target=self._write, name=name, daemon=True)

    def promised(self) -> dict[int, bytes]:
        """What has been acknowledged so far, by offset."""
        with self._lock:
            return dict(self.acknowledged)

    def allow(self) -> None:
        """Give the writer a new allowance."""
        self._allowance = self.sent + ALLOWANCE

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, timeout_s: float = 60) -> None:
        """Write no more, and wait until everything is either acknowledged or given up."""
        self._stop.set()
        self._thread.join(timeout_s)
        assert not self._thread.is_alive()
        left = self._producer.flush(timeout_s)
        assert left == 0, f"{self.name}: {left} messages were neither acknowledged nor given up"

    def _write(self) -> None:
        hurried = True
        while not self._stop.wait(BREATH_S if hurried else SLOW_BREATH_S):
            hurried = self.sent < self._allowance
            for _ in range(CHUNK if hurried else 1):
                value = b"%s %d" % (self.name.encode(), self.sent)
                try:
                    self._producer.produce(self.topic, value, partition=self.partition)
                except BufferError:
                    break
                self.sent += 1
            self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert isinstance(value, bytes)
        with self._lock:
            if error is not None:
                self.given_up.append(value)
            else:
                offset = message.offset()
                assert offset is not None
                assert offset not in self.acknowledged, f"offset {offset} was promised twice"
                self.acknowledged[offset] = value

    def _on_error(self, error: KafkaError) -> None:
        # Comes through the same queue as the deliveries: whoever has seen it has seen all of them.
        if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self.disconnects += 1
        if error.fatal():
            self.fatal = error


def idempotent(bootstrap: str, topic: str, partition: int) -> Writer:
    """A writer that never gives up and may never write anything twice."""
    return Writer(
        "idempotent",
        bootstrap,
        topic,
        partition,
        **{"enable.idempotence": True, "acks": "all", "delivery.timeout.ms": 120_000},
    )


def plain(bootstrap: str, topic: str, partition: int) -> Writer:
    """A writer with acks=1 that does not try again: what failed may or may not be there."""
    return Writer(
        "plain",
        bootstrap,
        topic,
        partition,
        **{"acks": "1", "retries": 0, "delivery.timeout.ms": 2000, "request.timeout.ms": 1000},
    )


@contextmanager
def writing(*writers: Writer) -> Iterator[Callable[[], None]]:
    """All of them write; the function that is given stops them."""
    for writer in writers:
        writer.start()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        for writer in writers:
            writer.stop()

    try:
        yield stop
    finally:
        if not stopped:
            for writer in writers:
                writer._stop.set()


def write_all(
    bootstrap: str, topic: str, keyed: Sequence[tuple[bytes, bytes]]
) -> dict[bytes, bytes]:
    """Write keyed messages to partition 0, all of which must be acknowledged: the last value of each key."""
    refused: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "log_level": 0,
            "on_delivery": lambda error, _: refused.append(error) if error else None,
        }
    )
    for key, value in keyed:
        producer.produce(topic, value, key=key, partition=0)
    assert producer.flush(60) == 0
    assert refused == []
    return dict(keyed)
