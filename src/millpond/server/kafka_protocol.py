"""Kafka on a node: its front-end serves clients and the other nodes of the cluster."""

import asyncio
from collections.abc import Callable

from millpond.engine.quorum.quorum_setup import parse_voters
from millpond.frontend.kafka.frontend import KafkaFrontend
from millpond.frontend.kafka.handlers import load_all
from millpond.peer.proof import address_text
from millpond.server.listeners import BoundListener
from millpond.server.protocols import KAFKA
from millpond.server.services import OpenProtocol, Services
from millpond.server.transport import KafkaConnection


class OpenKafka(OpenProtocol):
    """Opened from ``services``. A node of a cluster serves other nodes only until clients are let in."""

    def __init__(self, services: Services) -> None:
        self._connections = services.connections
        self._frontend = KafkaFrontend(
            services.engine,
            peers_only=not services.engine.metadata.is_alone,
            turns=services.turns,
            secret=services.secret,
            memory=services.memory,
            own_addresses=_own_addresses(services),
            shared_addresses=_shared_addresses(services),
        )
        services.engine.runtime.tasks.spawn(load_all(), name="handlers")

    def accept(self, listener: BoundListener) -> Callable[[], asyncio.BaseProtocol]:
        name = listener.name
        return lambda: KafkaConnection(self._frontend, self._connections, name)

    def let_clients_in(self) -> None:
        self._frontend.let_clients_in()


def _own_addresses(services: Services) -> frozenset[str]:
    """Return the addresses at which the settings let other nodes find this one."""
    settings = services.settings
    advertised = [
        address_text(one.advertised.host, one.advertised.port)
        for one in services.listeners_of(KAFKA)
    ]
    voter = parse_voters(settings.values["controller.quorum.voters"]).get(settings.node_id)
    endpoints = voter.endpoints if voter is not None else ()
    return frozenset([*advertised, *(address_text(one.host, one.port) for one in endpoints)])


def _shared_addresses(services: Services) -> frozenset[str]:
    """Return the addresses behind which any node may be, for nodes that look for the quorum."""
    texts: tuple[str, ...] = services.settings.values["controller.quorum.bootstrap.servers"]
    parts = (text.strip().rpartition(":") for text in texts)
    return frozenset(
        address_text(host.strip("[]"), int(port)) for host, _, port in parts if port.isdecimal()
    )
