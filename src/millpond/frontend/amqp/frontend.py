"""What all AMQP connections of a node share."""

import logging
from typing import TYPE_CHECKING

from millpond import __version__
from millpond.engine.api import Engine
from millpond.engine.queues import Queues
from millpond.frontend.amqp.envelope import AmqpEnvelope
from millpond.frontend.amqp.patience import Patience
from millpond.frontend.amqp.replies import Replies
from millpond.frontend.amqp.session import AmqpSession
from millpond.wire.amqp.server import Offer

if TYPE_CHECKING:
    from millpond.frontend.amqp.outbox import Writer

log = logging.getLogger(__name__)

# What clients ask for before they use it.
_CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


class AmqpFrontend:
    """One for each node; makes the sessions."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.queues = Queues(engine, AmqpEnvelope())
        self.replies = Replies(self)
        self._patience = Patience(self)
        # Those that came by a socket and are not gone.
        self.sessions: set[AmqpSession] = set()
        self.offer = Offer(
            server_properties={
                "product": "Millpond",
                "version": __version__,
                "platform": "Python",
                "cluster_name": engine.node.cluster_id,
                "capabilities": dict.fromkeys(_CAPABILITIES, True),
            }
        )

    async def start(self, *, serves_clients: bool = True) -> None:
        """Load what is there. A node whose clients are not served here hosts queues for others'."""
        await self.queues.start(serves_clients=serves_clients)
        self._patience.start()

    def stop(self) -> None:
        self._patience.stop()
        self.queues.stop()

    def session(self, writer: "Writer", *, peer: str = "?") -> AmqpSession:
        """A session for a connection that was just made."""
        session = AmqpSession(self, writer, peer=peer)
        self.sessions.add(session)
        return session
