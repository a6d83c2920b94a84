"""Closes the connections of a node that is cut off from the majority, so that clients go to another node.

Such a node hosts no queue, cannot reach the nodes that do, and nothing can be declared there. What is
published to queues that it hosted is refused as soon as its lease is over (``engine/queues/queues.py``).
Connections are closed, and new ones refused, when it is clear that it is this node that is cut off: too
few voters answer it. If enough do, another controller is about to be elected, and clients are sent away
only when that would have happened long ago. RabbitMQ closes connections, too, when it pauses in a
minority (``pause_minority``).
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from millpond.base.errors import MillpondError, PeerUnreachable, ShuttingDown
from millpond.base.ids import NodeId
from millpond.wire.amqp.violations import ReplyCode, Violation

if TYPE_CHECKING:
    from millpond.frontend.amqp.frontend import AmqpFrontend

log = logging.getLogger(__name__)

# How long another voter has to answer, and how often they are asked. The node has had no answer of the
# controller for ``broker.silence.timeout.ms`` then.
_ANSWER_MS = 1_000
_AGAIN_S = 1.0


class MinorityWatch:
    """The watch of one node."""

    def __init__(self, frontend: "AmqpFrontend") -> None:
        self._frontend = frontend
        self._task: asyncio.Task[None] | None = None
        # Whether too few voters answer.
        self._is_alone = False

    def start(self) -> None:
        self._frontend.engine.membership.on_lease_end(self._on_lease_end)

    @property
    def reason(self) -> str | None:
        """Return why clients are not served here; None if they are."""
        engine = self._frontend.engine
        if not engine.membership.is_cut_off or not (self._is_alone or self._is_late):
            return None
        why = "is cut off from the majority of its cluster"
        if engine.disk.is_offline:
            reasons = "; ".join(engine.disk.offline.values())
            why = f"takes no part in its cluster because its disk fails ({reasons})"
        return f"node {engine.info.node_id} {why}; connect to another node"

    def check(self) -> None:
        """Raises ``Violation`` if clients are not served here."""
        reason = self.reason
        if reason is not None:
            raise Violation(ReplyCode.CONNECTION_FORCED, reason)

    @property
    def _is_late(self) -> bool:
        """Whether a controller would have answered by now if there was one."""
        engine = self._frontend.engine
        session_ms: int = engine.settings.get("broker.session.timeout.ms")
        lease_ms: int = min(session_ms, engine.settings.get("broker.silence.timeout.ms"))
        # The controller answers one whose disk fails. What it decided about it cannot be read there.
        tolerated_ms = lease_ms if engine.disk.is_offline else max(session_ms - lease_ms, lease_ms)
        return engine.membership.cut_off_ms >= tolerated_ms

    def _on_lease_end(self) -> None:
        if self._task is None or self._task.done():
            try:
                self._task = self._frontend.engine.runtime.tasks.spawn(
                    self._watch(), name="minority"
                )
            except ShuttingDown:
                return

    async def _watch(self) -> None:
        """Watch until the controller has answered again."""
        membership = self._frontend.engine.membership
        while membership.is_cut_off:
            self._is_alone = not await self._reaches_majority()
            reason = self.reason
            if reason is not None:
                self._send_away(reason)
            await asyncio.sleep(_AGAIN_S)
        self._is_alone = False

    async def _reaches_majority(self) -> bool:
        engine = self._frontend.engine
        voters = engine.metadata.quorum.voters
        own = engine.info.node_id
        others = [node for node in voters.ids if node != own]
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._answers(node)) for node in others]
        answered = sum(one.result() for one in asked)
        return answered + (own in voters.ids) >= voters.majority

    async def _answers(self, node: NodeId) -> bool:
        """Whether a node answers at all, if only with a refusal."""
        peers = self._frontend.engine.peers
        if peers is None:
            return False
        try:
            await peers.call(node, self._frontend.cluster_pressure.news(), timeout_ms=_ANSWER_MS)
        except PeerUnreachable:
            return False
        except MillpondError:
            return True
        return True

    def _send_away(self, reason: str) -> None:
        sessions = [session for session in self._frontend.sessions if session.is_open]
        if sessions:
            log.warning("%d AMQP connections are closed: %s", len(sessions), reason)
        for session in sessions:
            session.force_close(reason)
