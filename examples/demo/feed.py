"""The shop's side: librdkafka, unmodified, sends the traffic evenly and counts acknowledgements."""

import threading
import time
from collections import Counter
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer

from examples.demo.traffic import Sent

SENT_AT = "sent-at-ms"


class Feed(threading.Thread):
    """Sends records over ``seconds``; ``acknowledged`` counts by topic."""

    def __init__(self, bootstrap: str, records: Sequence[Sent], seconds: float) -> None:
        super().__init__(name="feed", daemon=True)
        self.acknowledged: Counter[str] = Counter()
        self.failed = 0
        self._records = records
        self._seconds = seconds
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
                "partitioner": "murmur2_random",
            }
        )

    def run(self) -> None:
        """Send all records, the last ones when everything else has arrived."""
        started = time.monotonic()
        paced = [record for record in self._records if record.key not in {b"nobody", b"bell"}]
        for number, record in enumerate(paced):
            due = started + self._seconds * number / len(paced)
            while (wait := due - time.monotonic()) > 0:
                self._producer.poll(min(wait, 0.1))
            self._send(record)
        self._producer.flush(30)
        for record in self._records[len(paced) :]:
            self._send(record)
        self._producer.flush(30)

    def _send(self, record: Sent) -> None:
        self._producer.produce(
            record.topic,
            key=record.key,
            value=record.value,
            timestamp=record.arrives_ms,
            headers=[(SENT_AT, b"%d" % (time.time() * 1000))],
            on_delivery=self._delivered,
        )
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
        else:
            topic = message.topic()
            assert topic is not None
            self.acknowledged[topic] += 1
