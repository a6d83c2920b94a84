"""AMQP 0-9-1 on a node: its front-end, its plug-ins, tokens, and the watch over memory and disk."""

import logging
from typing import TYPE_CHECKING

from millpond.engine.limits.pressure import PressureWatch
from millpond.engine.queues.queues import Queues
from millpond.frontend.amqp.codec import AmqpCodec
from millpond.frontend.amqp.frontend import AmqpFrontend
from millpond.server.exchange_plugins import load_exchange_types
from millpond.server.protocols import AMQP, message_codecs
from millpond.server.services import Services, StreamProtocol
from millpond.server.stream_transport import Origin, Session, StreamTransport

if TYPE_CHECKING:
    from millpond.frontend.amqp.logins import Verifier

log = logging.getLogger(__name__)


class OpenAmqp(StreamProtocol):
    """Opened from ``services``, on every node of a cluster: each may come to host queues."""

    has_heartbeats = True

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        load_exchange_types(services.settings.values["amqp.exchange.types"])
        queues = Queues(services.engine, AmqpCodec(), message_codecs())
        self.frontend = AmqpFrontend(services.engine, queues, _verifier(services), services.memory)

    async def start(self) -> None:
        """Load the queues. What clients declare may depend on this node's registration, which comes first."""
        serves_clients = bool(self._services.listeners_of(AMQP))
        engine = self._services.engine
        if serves_clients:
            await engine.membership.joined()
        # A node without clients of its own hosts queues for those of other nodes.
        await self.frontend.queues.start(serves_clients=serves_clients)
        self.frontend.start()
        self._warn_of_unknown_types()
        watch = PressureWatch(
            self._services.machine, engine.settings.get, self.frontend.on_pressure
        )
        self.frontend.watch = watch
        engine.runtime.tasks.spawn(watch.watch_forever(), name="memory and disk")

    def session(self, writer: StreamTransport, origin: Origin) -> Session:
        return self.frontend.session(
            writer,
            peer=origin.peer,
            local=origin.local,
            certified_name=origin.certified_name,
            is_encrypted=origin.is_encrypted,
        )

    def stop(self) -> None:
        self.frontend.stop()
        self.frontend.queues.stop()

    def _warn_of_unknown_types(self) -> None:
        broker = self.frontend.queues.broker
        for rooms in broker.vhosts.values():
            for exchange in rooms.exchanges.values():
                if exchange.type not in broker.types:
                    log.warning(
                        "%s routes nothing: its type %s is not here; name its plug-in in "
                        "amqp.exchange.types",
                        exchange.resource,
                        exchange.type,
                    )


def _verifier(services: Services) -> "Verifier | None":
    """Return what verifies tokens, if clients may log in by them. Raises ``StartFailed``."""
    values = services.settings.values
    if values["auth_backends"] == ("internal",):
        return None
    from millpond.server.oauth import load_verifier

    threads = services.engine.runtime.threads
    return load_verifier(values, clock=services.clock, thread=lambda: threads.one("oauth keys"))
