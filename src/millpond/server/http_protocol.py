"""RabbitMQ's management API on a node. It administers what the AMQP front-end serves."""

import asyncio
from collections.abc import Callable

from millpond.frontend.rabbitmq_http.context import ListenerInfo
from millpond.frontend.rabbitmq_http.frontend import Management
from millpond.server.amqp_protocol import OpenAmqp
from millpond.server.http_transport import HttpConnection
from millpond.server.listeners import BoundListener
from millpond.server.protocols import AMQP, HTTP
from millpond.server.services import OpenProtocol, Services


class OpenHttp(OpenProtocol):
    """Opened from ``services``, after AMQP."""

    def __init__(self, services: Services) -> None:
        amqp = services.opened[AMQP.name]
        assert isinstance(amqp, OpenAmqp)
        shown = (*services.listeners_of(AMQP), *services.listeners_of(HTTP))
        doors = [
            ListenerInfo(protocol=_name_of(one), host=one.advertised.host, port=one.port)
            for one in shown
        ]
        self._services = services
        self._management = Management(amqp.frontend, lambda: doors)

    def accept(self, listener: BoundListener) -> Callable[[], asyncio.BaseProtocol]:
        services = self._services
        return lambda: HttpConnection(
            self._management, services.connections, turns=services.turns, memory=services.memory
        )


def _name_of(listener: BoundListener) -> str:
    """Name a listener's protocol as RabbitMQ's overview does."""
    return f"{listener.protocol.name}/ssl" if listener.is_tls else listener.protocol.name
