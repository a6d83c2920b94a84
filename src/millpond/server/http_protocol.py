"""RabbitMQ's management API on a node. It administers what the AMQP front-end serves."""

from millpond.frontend.rabbitmq_http.context import ListenerInfo
from millpond.frontend.rabbitmq_http.frontend import Management
from millpond.server.amqp_protocol import OpenAmqp
from millpond.server.listeners import BoundListener
from millpond.server.protocols import AMQP, HTTP
from millpond.server.services import Services, StreamProtocol
from millpond.server.stream_transport import Origin, Session, StreamTransport


class OpenHttp(StreamProtocol):
    """Opened from ``services``, after AMQP."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        amqp = services.opened[AMQP.name]
        assert isinstance(amqp, OpenAmqp)
        shown = (*services.listeners_of(AMQP), *services.listeners_of(HTTP))
        doors = [
            ListenerInfo(protocol=_name_of(one), host=one.advertised.host, port=one.port)
            for one in shown
        ]
        self._management = Management(amqp.frontend, lambda: doors)

    def session(self, writer: StreamTransport, origin: Origin) -> Session:
        services = self._services
        return self._management.session(
            writer, peer=origin.peer, turns=services.turns, memory=services.memory
        )


def _name_of(listener: BoundListener) -> str:
    """Name a listener's protocol as RabbitMQ's overview does."""
    return f"{listener.protocol.name}/ssl" if listener.is_tls else listener.protocol.name
