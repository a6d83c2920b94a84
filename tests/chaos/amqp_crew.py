"""Publishers and consumers of AMQP at three nodes that go on whatever happens to these, and their book.

A publisher never says the same twice, so each body is one message. What a node says again to the next host of
a queue may be there twice, and must be called redelivered then.
"""

import contextlib
import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pika
import pika.exceptions

# Lost connections are what this is about; pika tells of each at length.
logging.getLogger("pika").setLevel(logging.CRITICAL)

PERSISTENT = pika.BasicProperties(delivery_mode=2)
PREFETCH = 30
# A message in so many goes back once before it is acknowledged.
SENT_BACK_EACH = 40
_RETRY_S = 0.1
# A connection that ends while pika waits may look like any of these.
_ENDS = (pika.exceptions.AMQPError, OSError, AssertionError)

# Host and port of AMQP, by node.
Addresses = Mapping[int, tuple[str, int]]


@dataclass(slots=True)
class Book:
    """What was tried, promised and delivered, by all of the crew."""

    attempted: set[bytes] = field(default_factory=set)
    confirmed: set[bytes] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)
    # How often each body came, and how often that was called new.
    delivered: Counter[bytes] = field(default_factory=Counter)
    called_new: Counter[bytes] = field(default_factory=Counter)
    connections: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def on_delivery(self, body: bytes, *, redelivered: bool) -> int:
        """How often this one has come."""
        with self.lock:
            self.delivered[body] += 1
            self.called_new[body] += not redelivered
            return self.delivered[body]

    def lost(self) -> set[bytes]:
        with self.lock:
            return self.confirmed - self.delivered.keys()

    def strange(self) -> set[bytes]:
        """What came and nobody sent."""
        return self.delivered.keys() - self.attempted

    def falsely_new(self) -> list[bytes]:
        """What was called new more than once: somebody had it, and the next one was not told."""
        return [body for body, count in self.called_new.items() if count > 1]

    def report(self) -> str:
        doubled = sum(count - 1 for count in self.delivered.values())
        return (
            f"{len(self.attempted)} attempted, {len(self.confirmed)} confirmed, "
            f"{len(self.refused)} refused, {len(self.delivered)} delivered, "
            f"lost={len(self.lost())}, strange={len(self.strange())}, {doubled} came again, "
            f"falsely called new={len(self.falsely_new())}, {self.connections} connections"
        )


class Member(threading.Thread):
    """Somebody with a connection to some node, and to the next one when that is gone."""

    def __init__(self, book: Book, addresses: Addresses, queue: str, *, at: int) -> None:
        super().__init__(name=f"{type(self).__name__} of {queue} at {at}", daemon=True)
        self._book = book
        self._addresses = addresses
        self._order = [at, *(node for node in addresses if node != at)]
        self._queue = queue
        self._is_over = threading.Event()

    def stop(self) -> None:
        self._is_over.set()

    def run(self) -> None:
        for node in itertools.cycle(self._order):
            if self._is_over.is_set():
                return
            with contextlib.suppress(*_ENDS), self._connected(node) as channel:
                self._work(channel)
            self._is_over.wait(_RETRY_S)

    @contextlib.contextmanager
    def _connected(self, node: int) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
        host, port = self._addresses[node]
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(
                host,
                port,
                credentials=pika.PlainCredentials("crew", "secret"),
                heartbeat=4,
                socket_timeout=3,
                stack_timeout=5,
                blocked_connection_timeout=10,
            )
        )
        self._book.connections += 1
        try:
            yield connection.channel()
        finally:
            with contextlib.suppress(*_ENDS):
                connection.close()

    def _work(self, channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
        raise NotImplementedError


class Publisher(Member):
    """Persistent messages with confirms, one after the other."""

    def __init__(self, book: Book, addresses: Addresses, queue: str, *, at: int) -> None:
        super().__init__(book, addresses, queue, at=at)
        self._numbers = itertools.count()
        self._name = f"{queue}/{at}"
        self.confirmed_at = 0.0
        # The longest time between two confirms.
        self.longest_s = 0.0

    def _work(self, channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
        channel.confirm_delivery()
        while not self._is_over.is_set():
            body = f"{self._name}/{next(self._numbers)}".encode()
            self._book.attempted.add(body)
            try:
                channel.basic_publish("", self._queue, body, PERSISTENT, mandatory=True)
            except pika.exceptions.NackError:
                self._book.refused.add(body)
            else:
                self._book.confirmed.add(body)
                now = time.perf_counter()
                if self.confirmed_at:
                    self.longest_s = max(self.longest_s, now - self.confirmed_at)
                self.confirmed_at = now


class Reader(Member):
    """Acknowledges what it gets; now and then something goes back first."""

    def __init__(self, book: Book, addresses: Addresses, queue: str, *, at: int) -> None:
        super().__init__(book, addresses, queue, at=at)
        self.delivered_at = 0.0

    def _work(self, channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=PREFETCH)
        for number, (method, _properties, body) in enumerate(
            channel.consume(self._queue, inactivity_timeout=0.2)
        ):
            if self._is_over.is_set():
                return
            if method is None:
                continue
            times = self._book.on_delivery(body, redelivered=method.redelivered)
            self.delivered_at = time.perf_counter()
            if times == 1 and number % SENT_BACK_EACH == 0:
                channel.basic_nack(method.delivery_tag, requeue=True)
            else:
                channel.basic_ack(method.delivery_tag)
