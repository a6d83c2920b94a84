"""Clients of a node that is cut off from the majority of its cluster are told, so that they go elsewhere.

Such a node hosts no queue, cannot reach the nodes that do, and nothing can be declared there. What is
published is refused as soon as its lease is over (``engine/queues.py``). A controller that dies makes every
node pause, too, until another one is elected: only when that would have happened long ago are connections
closed, as those of a RabbitMQ that pauses in a minority are (``pause_minority``), and new ones refused.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.frontend import AmqpFrontend

log = logging.getLogger(__name__)


class MinorityWatch:
    """One for each node."""

    def __init__(self, frontend: "AmqpFrontend") -> None:
        self._frontend = frontend
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._frontend.engine.membership.on_lease_end(self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def reason(self) -> str | None:
        """Why clients are not served here; None if they are."""
        if self._left_ms > 0:
            return None
        engine = self._frontend.engine
        number, disk = engine.node.node_id, engine.disk.reason
        why = "is cut off from the majority of its cluster"
        if disk is not None:
            why = f"takes no part in its cluster because its disk fails ({disk})"
        return f"node {number} {why}; connect to another node"

    def check(self) -> None:
        """Raises ``Violation`` if clients are not served here."""
        reason = self.reason
        if reason is not None:
            raise Violation(ReplyCode.CONNECTION_FORCED, reason)

    @property
    def _left_ms(self) -> int:
        """Until clients are sent away, if the controller does not answer before."""
        engine = self._frontend.engine
        session_ms: int = engine.broker_setting("broker.session.timeout.ms")
        lease_ms: int = min(session_ms, engine.broker_setting("broker.silence.timeout.ms"))
        return max(1, session_ms - lease_ms, lease_ms) - engine.membership.cut_off_ms

    def _look(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0, self._left_ms) / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        reason = self.reason
        if reason is not None:
            self._send_away(reason)
        elif self._frontend.engine.membership.is_cut_off:
            # It was heard of meanwhile, and is cut off anew.
            self._look()

    def _send_away(self, reason: str) -> None:
        sessions = [session for session in self._frontend.sessions if session.is_open]
        if sessions:
            log.warning("%d AMQP connections are closed: %s", len(sessions), reason)
        for session in sessions:
            session.force_close(reason)
