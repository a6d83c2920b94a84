"""The listening sockets: bound first, so that a taken port is known before any data is touched, and opened to
clients last, when the engine is ready to answer them.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from millpond.server.endpoints import LOOPBACK, Endpoint, Listener, host_port
from millpond.server.failures import bind_failed, unknown_host

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

# A client that has not completed the TLS handshake by then is disconnected.
_TLS_HANDSHAKE_S = 10.0


class BoundListener:
    """One listener with its sockets and the address that clients are told."""

    def __init__(self, listener: Listener, sockets: Sequence[socket.socket]) -> None:
        self.name = listener.name
        self.for_controllers = listener.for_controllers
        self.protocol = listener.protocol
        self.is_tls = listener.is_tls
        self._url_scheme = listener.scheme.url
        self.sockets = tuple(sockets)
        self.port: int = sockets[0].getsockname()[1]
        self.advertised = _advertised(listener, self.port)
        self._servers: list[asyncio.Server] = []

    @property
    def address(self) -> str:
        """The advertised address as clients write it."""
        return host_port(self.advertised.host, self.advertised.port)

    @property
    def url(self) -> str:
        """The address as this protocol's clients write it, with a login that works from this machine only."""
        if not self._url_scheme:
            return self.address
        login = self.protocol.local_login if self.advertised.is_loopback else ""
        return f"{self._url_scheme}://{login}{'@' if login else ''}{self.address}/"

    async def serve(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        *,
        backlog: int,
        tls: "ssl.SSLContext | None" = None,
    ) -> None:
        """Accept connections; ``factory`` makes the transport of each."""
        loop = asyncio.get_running_loop()
        for each in self.sockets:
            server = await loop.create_server(
                factory,
                sock=each,
                backlog=backlog,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else _TLS_HANDSHAKE_S,
            )
            self._servers.append(server)

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections stay."""
        for server in self._servers:
            server.close()
        for each in self.sockets:
            each.close()


def bind(listener: Listener, *, send_buffer: int = -1, receive_buffer: int = -1) -> BoundListener:
    """Bind one listener on every address that its host name has. Raises ``StartFailed``."""
    bound: list[socket.socket] = []
    port = listener.bind.port
    last_error: OSError | None = None
    try:
        for family, address in _addresses(listener.bind):
            try:
                one = _bind_one(family, address, port, send_buffer, receive_buffer)
            except OSError as error:
                # A name like localhost may have an address of a family that this machine has switched off.
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise
                last_error = error
                continue
            bound.append(one)
            port = one.getsockname()[1]
            if not listener.bind.host:
                break  # one socket of both families, or of the only family there is
        if not bound and last_error is not None:
            raise last_error
    except OSError as error:
        for one in bound:
            one.close()
        raise bind_failed(listener.bind.host, port, error, name=listener.name) from error
    assert bound
    return BoundListener(listener, bound)


def _addresses(endpoint: Endpoint) -> list[tuple[socket.AddressFamily, str]]:
    if not endpoint.host:
        both = [(socket.AF_INET6, "::")] if socket.has_dualstack_ipv6() else []
        return [*both, (socket.AF_INET, "0.0.0.0")]
    try:
        found = socket.getaddrinfo(endpoint.host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise unknown_host(endpoint.host, error) from error
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _bind_one(
    family: socket.AddressFamily, address: str, port: int, send_buffer: int, receive_buffer: int
) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address == "::" else 1)
        # Accepted connections inherit both.
        if send_buffer > 0:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        if receive_buffer > 0:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        one.bind((address, port))
        one.setblocking(False)
    except OSError:
        one.close()
        raise
    return one


def _advertised(listener: Listener, port: int) -> Endpoint:
    chosen = listener.advertised
    if chosen is not None:
        return Endpoint(name=chosen.name, host=chosen.host, port=chosen.port or port)
    host = _host_name() if listener.bind.is_wildcard else listener.bind.host
    return Endpoint(name=listener.name, host=host, port=port)


def _host_name() -> str:
    """Return this machine's name for other machines; only needed when the node listens on every interface."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        log.warning(
            "the machine's name %s has no address: advertising %s, so only local clients can connect; "
            "set advertised.listeners",
            name,
            LOOPBACK,
        )
        return LOOPBACK
    return name
