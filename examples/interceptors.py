"""Two interceptors: one puts the time before every value, one counts delivered and failed records.

python -m examples.interceptors localhost:9092 orders
"""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from millpond.client import BlockingProducer, ProducerInterceptor, ProducerRecord, RecordMetadata


class TimeInterceptor(ProducerInterceptor):
    """Puts the milliseconds since 1970 and a comma before the value."""

    def __init__(self, now_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        self._now_ms = now_ms

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Change the value; topic, partition, key, headers and timestamp could be changed as well."""
        record.value = f"{self._now_ms()},{record.value}"
        return record


class CounterInterceptor(ProducerInterceptor):
    """Counts delivered and failed records; prints the numbers at the end."""

    def __init__(self) -> None:
        self.client_id = ""
        self.arrived = 0
        self.failed = 0
        self.is_closed = False

    def configure(self, config: Mapping[str, Any]) -> None:
        """Called once, with the producer's settings."""
        self.client_id = config["client.id"]

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        """Called for every record, delivered or failed."""
        if error is None:
            self.arrived += 1
        else:
            self.failed += 1

    def close(self) -> None:
        """Called when the producer closes, after the last acknowledgement."""
        self.is_closed = True
        print(f"{self.client_id}: {self.arrived} arrived, {self.failed} failed")


def main(bootstrap: str, topic: str) -> None:
    """Write ten records through both, in this order."""
    settings = {
        "bootstrap.servers": bootstrap,
        "client.id": "interceptors",
        "interceptor.classes": [TimeInterceptor, CounterInterceptor],
        "key.serializer": "string",
        "value.serializer": "string",
    }
    with BlockingProducer(settings) as producer:
        for number in range(10):
            producer.send(topic, f"message {number}", key=str(number))


if __name__ == "__main__":
    main(*sys.argv[1:3])
