"""Heartbeats of a connection in both directions, and the time-out of its handshake."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from millpond.wire.amqp.heartbeats import Heartbeats

if TYPE_CHECKING:
    from millpond.frontend.amqp.session import AmqpSession

log = logging.getLogger(__name__)

# How long a peer may take to confirm the end of a connection, as in RabbitMQ.
_CLOSE_WAIT_S = 30.0


class Liveness:
    """The liveness of one session. ``hang_up`` closes a connection whose peer is taken for dead."""

    def __init__(self, session: "AmqpSession", hang_up: Callable[[], None]) -> None:
        self._session = session
        self._clock = session.frontend.engine.runtime.clock
        self._hang_up = hang_up
        self._beats: Heartbeats | None = None
        self._is_deaf = False
        timeout_s = session.frontend.handshake_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._be_quick)

    def begin(self, interval_s: int) -> None:
        """Begin heartbeats: the connection is open."""
        self._timer.cancel()
        now_ms = self._clock.monotonic_ms()
        self._beats = Heartbeats(interval_s, now_ms, now_ms)
        self._beat()

    def stop(self) -> None:
        self._timer.cancel()

    def leave(self) -> None:
        """Wait for the peer to confirm the end of the connection; after a while close it anyway."""
        self._timer = asyncio.get_running_loop().call_later(_CLOSE_WAIT_S, self._hang_up)

    def received(self) -> None:
        if self._beats is not None:
            self._beats.received(self._clock.monotonic_ms())

    def sent(self) -> None:
        if self._beats is not None:
            self._beats.sent(self._clock.monotonic_ms())

    def set_deaf(self, *, is_deaf: bool) -> None:
        """Ignore missing heartbeats while the broker does not read from the connection."""
        if self._is_deaf and not is_deaf:
            self.received()
        self._is_deaf = is_deaf

    def _be_quick(self) -> None:
        log.info(
            "peer=%s: not logged in within %d ms",
            self._session.peer,
            self._session.frontend.handshake_ms,
        )
        self._hang_up()

    def _beat(self) -> None:
        beats = self._beats
        if beats is None or beats.interval_s == 0:
            return
        now_ms = self._clock.monotonic_ms()
        if self._is_deaf:
            beats.received(now_ms)
        elif beats.is_dead(now_ms):
            log.warning("peer=%s: no heartbeat for too long", self._session.peer)
            self._hang_up()
            return
        if beats.is_due(now_ms):
            self._session.wire.send_heartbeat()
            self._session.outbox.flush()
        delay_s = max(0, beats.wake_ms - now_ms) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._beat)
