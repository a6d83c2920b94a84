"""The protocols of a running node: opened, started and stopped in the order of the registry.

A protocol that other nodes use (``serves_nodes``) is opened first, for them only, because without the others
a node of a cluster does not learn what is agreed. On a node that is alone it is served last: a Kafka client
that gets an answer can rely on every other listener being open, too.
"""

import logging
from collections.abc import MutableMapping

from millpond.server.protocols import WireProtocol, protocols
from millpond.server.services import OpenProtocol, Services

log = logging.getLogger(__name__)


class Serving:
    """Opens protocols from ``services``, whose ``opened`` is the mapping that is given here."""

    def __init__(self, services: Services, opened: MutableMapping[str, OpenProtocol]) -> None:
        self._services = services
        self._opened = opened
        self._backlog: int = services.settings.values["socket.listen.backlog.size"]

    def open_for_nodes(self) -> None:
        """Open what this node must have before it joins its cluster, and accept nothing yet."""
        for protocol in protocols():
            is_host = protocol.hosts_for_nodes and not self._services.engine.is_alone
            if protocol.serves_nodes or is_host:
                self._open(protocol)

    async def serve_nodes(self) -> None:
        """Accept connections where other nodes connect."""
        for protocol in protocols():
            if protocol.serves_nodes:
                await self._start(protocol)

    def let_clients_in(self) -> None:
        """Serve clients at the listeners where other nodes are served already."""
        for opened in self._opened.values():
            opened.let_clients_in()

    async def serve_clients(self) -> None:
        """Start all other protocols that have a listener or were opened for what they host."""
        for protocol in protocols():
            is_wanted = protocol.name in self._opened or self._services.listeners_of(protocol)
            if is_wanted and not protocol.serves_nodes:
                await self._start(protocol)

    def stop(self) -> None:
        """Stop all, the last one first. Connections have ended."""
        for opened in reversed(tuple(self._opened.values())):
            opened.stop()

    def _open(self, protocol: WireProtocol) -> OpenProtocol:
        opened = self._opened.get(protocol.name)
        if opened is None:
            opened = self._opened[protocol.name] = protocol.open(self._services)
        return opened

    async def _start(self, protocol: WireProtocol) -> None:
        opened = self._open(protocol)
        await opened.start()
        for listener in self._services.listeners_of(protocol):
            tls = self._services.tls if listener.is_tls else None
            await listener.serve(opened.accept(listener), backlog=self._backlog, tls=tls)
