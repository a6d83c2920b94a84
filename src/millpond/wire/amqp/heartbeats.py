"""Decides when to send a heartbeat, and when the peer is considered dead. Time is an argument.

The intervals are RabbitMQ's: a peer that sent nothing for half the agreed interval sends a heartbeat; a peer
that was silent for two whole intervals is dead.
"""

from dataclasses import dataclass

NEVER_MS = 2**63 - 1


@dataclass(slots=True)
class Heartbeats:
    """The heartbeats of one connection. ``interval_s`` 0 disables them."""

    interval_s: int
    received_ms: int
    sent_ms: int

    def received(self, now_ms: int) -> None:
        """Note that bytes were received."""
        self.received_ms = now_ms

    def sent(self, now_ms: int) -> None:
        """Note that bytes were sent."""
        self.sent_ms = now_ms

    def is_due(self, now_ms: int) -> bool:
        """Return whether to send a heartbeat now."""
        return self.interval_s > 0 and now_ms - self.sent_ms >= self.interval_s * 500

    def is_dead(self, now_ms: int) -> bool:
        """Return whether the peer was silent for too long."""
        return self.interval_s > 0 and now_ms - self.received_ms >= self.interval_s * 2000

    @property
    def wake_ms(self) -> int:
        """Return when to check again."""
        if self.interval_s == 0:
            return NEVER_MS
        return min(self.sent_ms + self.interval_s * 500, self.received_ms + self.interval_s * 2000)
