"""How many messages went through each queue, and how many a second: what RabbitMQ calls ``message_stats``.

Counted where clients of this node are served, by turns and not by messages. Rates are those of the last five
seconds, as RabbitMQ's are; while nothing happens no timer runs. Totals begin with the node and end with the
queue.
"""

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

from millpond.base.clock import Clock
from millpond.engine.api.queues import QueueHandle

SAMPLE_S: Final = 5.0

PUBLISH, DELIVER, DELIVER_NO_ACK, GET, GET_NO_ACK, REDELIVER, ACK = range(7)
NAMES: Final = (
    "publish",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "redeliver",
    "ack",
)
# Whatever left the queue, and however.
_LEFT: Final = (DELIVER, DELIVER_NO_ACK, GET, GET_NO_ACK)


class Totals:
    """The counts of one queue, or of all."""

    __slots__ = ("counts", "rates", "sampled")

    def __init__(self) -> None:
        self.counts = [0] * len(NAMES)
        self.sampled = [0] * len(NAMES)
        self.rates = [0.0] * len(NAMES)

    def sample(self, seconds: float) -> bool:
        """Begin the next interval. Return whether anything was counted in the last two."""
        was = any(self.rates)
        pairs = zip(self.counts, self.sampled, strict=True)
        self.rates = [(now - then) / seconds for now, then in pairs]
        self.sampled = list(self.counts)
        return was or any(self.rates)

    def row(self) -> dict[str, object]:
        """Return the counts as RabbitMQ shows them; empty if there are none."""
        if not any(self.counts):
            return {}
        left = sum(self.counts[kind] for kind in _LEFT)
        left_rate = sum(self.rates[kind] for kind in _LEFT)
        row: dict[str, object] = {"deliver_get": left, "deliver_get_details": _rate(left_rate)}
        for name, count, rate in zip(NAMES, self.counts, self.rates, strict=True):
            row[name], row[f"{name}_details"] = count, _rate(rate)
        return row


def _rate(rate: float) -> dict[str, float]:
    return {"rate": round(rate, 3)}


class MessageStats:
    """The counts of one node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.all = Totals()
        self._queues: WeakKeyDictionary[QueueHandle, Totals] = WeakKeyDictionary()
        self._timer: asyncio.TimerHandle | None = None
        self._sampled_ms = 0

    def of(self, queue: QueueHandle) -> Totals:
        """Return the counts of a queue."""
        return self._queues.get(queue) or Totals()

    def count(self, queue: QueueHandle, kind: int, count: int) -> None:
        """Count messages of a queue."""
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = Totals()
        found.counts[kind] += count
        self.all.counts[kind] += count
        if self._timer is None:
            self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        self._sampled_ms = self._clock.monotonic_ms()
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_S, self._sample)

    def _sample(self) -> None:
        seconds = max(1, self._clock.monotonic_ms() - self._sampled_ms) / 1000
        is_lively = self.all.sample(seconds)
        for totals in list(self._queues.values()):
            totals.sample(seconds)
        self._timer = None
        if is_lively:
            self._arm()
