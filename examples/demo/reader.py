"""The other side: a consumer of the deduplicated clicks, which reads only what Spark has committed."""

import json
import threading
import time
from collections import Counter

from confluent_kafka import Consumer

from examples.demo.feed import SENT_AT


class Reader(threading.Thread):
    """Reads a topic as it is written: counts each id, and measures the latency from end to end."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="reader", daemon=True)
        self.ids: Counter[str] = Counter()
        self.latencies: list[tuple[float, float]] = []  # (seconds since the start, seconds it took)
        self._finished = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "demo-reader",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([topic])

    def run(self) -> None:
        """Read until ``finish``."""
        started = time.monotonic()
        while not self._finished.is_set():
            for message in self._consumer.consume(1000, 0.2):
                if message.error() is not None:
                    continue
                now = time.time() * 1000
                headers = dict(message.headers() or [])
                value = message.value()
                assert value is not None
                self.ids[json.loads(value)["id"]] += 1
                sent = headers.get(SENT_AT)
                if isinstance(sent, bytes):
                    took = (now - float(sent)) / 1000
                    self.latencies.append((time.monotonic() - started, took))
        self._consumer.close()

    def finish(self, expected: int, timeout_s: float) -> None:
        """Wait until ``expected`` distinct ids have come, or ``timeout_s`` is over; then stop."""
        until = time.monotonic() + timeout_s
        while len(self.ids) < expected and time.monotonic() < until and self.is_alive():
            time.sleep(0.1)
        self._finished.set()
        self.join(10)
