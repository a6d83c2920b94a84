"""The services that a protocol's front-end is opened from, and what an opened one offers to the node."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from millpond.base.clock import Clock
from millpond.engine.api import Engine
from millpond.engine.limits.request_memory import RequestMemory
from millpond.engine.runtime.turns import Turns
from millpond.peer.proof import ClusterSecret
from millpond.server.config import Settings
from millpond.server.connections import Connections
from millpond.server.listeners import BoundListener
from millpond.server.machine import LocalMachine
from millpond.server.protocols import WireProtocol
from millpond.server.stream_transport import Origin, Session, StreamTransport

if TYPE_CHECKING:
    import ssl


class OpenProtocol:
    """A protocol on a node that runs. ``server/serving.py`` calls these methods in this order."""

    async def start(self) -> None:
        """Load what the first client needs. Called once, before connections are accepted."""

    def accept(self, listener: BoundListener) -> Callable[[], asyncio.BaseProtocol]:
        """Return what makes the transport of each connection to a listener."""
        raise NotImplementedError

    def let_clients_in(self) -> None:
        """The node has joined its cluster. Only for protocols that serve other nodes before that."""

    def stop(self) -> None:
        """All connections have ended, and the engine stops next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of a node that front-ends share."""

    engine: Engine
    settings: Settings
    clock: Clock
    connections: Connections
    turns: Turns
    memory: RequestMemory
    machine: LocalMachine
    listeners: Sequence[BoundListener]
    # By their names, those that were opened before.
    opened: Mapping[str, OpenProtocol]
    # What nodes prove to each other that they are nodes by.
    secret: ClusterSecret | None = None
    tls: "ssl.SSLContext | None" = None

    def listeners_of(self, protocol: WireProtocol) -> list[BoundListener]:
        """The listeners of one protocol, those for controllers included."""
        return [one for one in self.listeners if one.protocol is protocol]

    def connection_wait_ms(self, host: str) -> int:
        """Count a new connection. Return for how long to delay the end of one that exceeds its quota."""
        return self.engine.quotas.connect(host, self.clock.monotonic_ms())


class StreamProtocol(OpenProtocol):
    """A protocol whose sessions take bytes as they come. What is left to it is to make its sessions."""

    # Whether its sessions find out themselves that a client is gone, so that silent ones are not idle.
    has_heartbeats = False

    def __init__(self, services: Services) -> None:
        self._services = services

    def session(self, writer: StreamTransport, origin: Origin) -> Session:
        """Make the session of a connection that was admitted."""
        raise NotImplementedError

    def accept(self, listener: BoundListener) -> Callable[[], asyncio.BaseProtocol]:
        services = self._services
        name_of = None
        if listener.is_tls:
            from millpond.server.tls import certified_name

            name_of = partial(certified_name, kind=services.settings.values["ssl_cert_login_from"])
        return lambda: StreamTransport(
            self.session,
            services.connections,
            services.turns,
            quota_wait_ms=services.connection_wait_ms,
            name_of=name_of,
            has_heartbeats=self.has_heartbeats,
        )
