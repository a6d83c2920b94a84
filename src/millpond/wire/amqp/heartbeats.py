"""When to send a heartbeat, and when the peer is taken for dead. Time is an argument.

The intervals are RabbitMQ's: a peer that was silent for half the agreed time sends a frame; one of which
nothing came for two whole intervals is gone.
"""

from dataclasses import dataclass

NEVER_MS = 2**63 - 1


@dataclass(slots=True)
class Heartbeats:
    """One connection's. ``interval_s`` 0 means that nobody sends and nobody waits."""

    interval_s: int
    received_ms: int
    sent_ms: int

    def received(self, now_ms: int) -> None:
        """Something came; any byte counts."""
        self.received_ms = now_ms

    def sent(self, now_ms: int) -> None:
        """Something was sent; any byte counts."""
        self.sent_ms = now_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether to send a heartbeat now."""
        return self.interval_s > 0 and now_ms - self.sent_ms >= self.interval_s * 500

    def is_dead(self, now_ms: int) -> bool:
        """Whether nothing came for too long."""
        return self.interval_s > 0 and now_ms - self.received_ms >= self.interval_s * 2000

    @property
    def wake_ms(self) -> int:
        """When to look again."""
        if self.interval_s == 0:
            return NEVER_MS
        return min(self.sent_ms + self.interval_s * 500, self.received_ms + self.interval_s * 2000)
