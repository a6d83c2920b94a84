"""The addresses at which a broker listens, and those that it advertises to clients.

Rules, all Kafka's: a listener is ``NAME://host:port``; names differ; no host means every interface; an
advertised address belongs to the listener of its name. Ours: a bare ``host:port``, ``:port`` or ``port`` is a
plaintext listener, port 0 is any free one, and a name may be that of another protocol
(``server/protocols.py``). Opens no socket.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from millpond.base.errors import InvalidConfig
from millpond.server.protocols import (
    KAFKA,
    Scheme,
    WireProtocol,
    protocol_named,
    protocol_of,
    protocols,
)

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WILDCARDS = frozenset({"", "0.0.0.0", "::"})
LOOPBACK = "127.0.0.1"
PORT_MAX = 65535

_ENDPOINT = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_.-]+)://)?(?:\[(?P<v6>[0-9A-Fa-f:.%]*)\]|(?P<host>[^\[\]:/]*)):(?P<port>-?\d+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A named address. The host is empty for every interface; port 0 is any free one."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{host_port(self.host, self.port)}"

    @property
    def is_wildcard(self) -> bool:
        """Return whether the address stands for every interface of the machine."""
        return self.host in WILDCARDS

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach the address."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A place to listen, and the address to advertise for it (``None``: whatever was bound)."""

    bind: Endpoint
    advertised: Endpoint | None
    # Kafka's clients are told of Kafka's listeners only.
    protocol: WireProtocol = KAFKA
    scheme: Scheme = KAFKA.schemes[0]
    # For the quorum only: clients are not told of it.
    for_controllers: bool = False

    @property
    def name(self) -> str:
        """The listener's name."""
        return self.bind.name

    @property
    def is_tls(self) -> bool:
        """Return whether connections use TLS."""
        return self.scheme.is_tls


def endpoint_beside(protocol: WireProtocol, endpoint: Endpoint) -> Endpoint | None:
    """Return where a protocol is served that is opened with another one, which has this endpoint.

    None if there is no such port.
    """
    port = endpoint.port + protocol.port_distance if endpoint.port else 0
    if port > PORT_MAX:
        return None
    return Endpoint(name=protocol.listener, host=endpoint.host, port=port)


def other_voters(voters: Iterable[str], node_id: int) -> list[str]:
    """Those of ``controller.quorum.voters`` (``id@host:port``) that are not this node."""
    return [voter for voter in voters if voter.partition("@")[0].strip() != str(node_id)]


def host_port(host: str, port: int) -> str:
    """An address as clients write it: IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_endpoint(text: str, *, setting: str) -> Endpoint:
    """Read ``NAME://host:port``; the name may be left out. Raises ``InvalidConfig``."""
    bare_port = text.isdecimal()
    match = _ENDPOINT.fullmatch(f"{LOOPBACK}:{text}" if bare_port else text)
    if match is None:
        form, example = "PLAINTEXT://host:port", "PLAINTEXT://127.0.0.1:9092"
        for protocol in protocols():
            if setting == protocol.option:
                form, example = "host:port", protocol.default_address
        raise InvalidConfig(
            f"{setting}: {text!r} is not an address; write {form}, for example {example}"
        )
    port = int(match["port"])
    if not 0 <= port <= PORT_MAX:
        raise InvalidConfig(
            f"{setting}: port {port} of {text!r} must be 0 to {PORT_MAX} (0 is any free port)"
        )
    host = match["v6"] if match["v6"] is not None else match["host"]
    return Endpoint(name=(match["name"] or "").upper(), host=host, port=port)


def build_listeners(
    *,
    listeners: Iterable[str],
    advertised: Iterable[str] | None,
    security_map: Iterable[str],
    controller_names: Iterable[str],
    is_alone: bool = True,
) -> tuple[list[Listener], list[Endpoint]]:
    """Return the listeners to open, and those left out: a node that is alone in its quorum needs none for it.

    Kafka's listeners for clients come first, those of other protocols follow in the order of the registry.
    """
    controllers = {name.upper() for name in controller_names}
    security = _security_protocols(security_map)
    binds = _named([parse_endpoint(text, setting="listeners") for text in listeners])
    published = _advertised(advertised or (), binds)
    for_controllers = [bind for bind in binds if bind.name in controllers]
    for_clients: dict[WireProtocol, list[Listener]] = {protocol: [] for protocol in protocols()}
    for bind in binds:
        if bind not in for_controllers:
            protocol, scheme = protocol_of(bind.name)
            if protocol is KAFKA:
                _check_plaintext(bind, security)
            address = published.get(bind.name)
            for_clients[protocol].append(
                Listener(bind=bind, advertised=address, protocol=protocol, scheme=scheme)
            )
    if not for_clients[KAFKA]:
        raise InvalidConfig(
            "listeners: there is no listener for clients; add PLAINTEXT://127.0.0.1:9092"
        )
    for listeners_of in for_clients.values():
        for listener in listeners_of:
            _check_requirement(listener, for_clients)
    opened = [listener for listeners_of in for_clients.values() for listener in listeners_of]
    if is_alone:
        return opened, for_controllers
    for bind in for_controllers:
        _check_plaintext(bind, security)
        address = published.get(bind.name)
        opened.append(Listener(bind=bind, advertised=address, for_controllers=True))
    return opened, []


def _named(binds: list[Endpoint]) -> list[Endpoint]:
    """Give nameless addresses a name; refuse a name or an address that comes twice."""
    named: list[Endpoint] = []
    taken = {bind.name for bind in binds}
    addresses: set[tuple[str, int]] = set()
    seen: set[str] = set()
    for bind in binds:
        name = bind.name or next(
            free
            for number in range(1, len(binds) + 2)
            if (free := "PLAINTEXT" if number == 1 else f"PLAINTEXT_{number}") not in taken
        )
        taken.add(name)
        if name in seen:
            raise InvalidConfig(
                f"listeners: {name} comes twice; each listener needs a name of its own"
            )
        if bind.port and (bind.host, bind.port) in addresses:
            raise InvalidConfig(f"listeners: {host_port(bind.host, bind.port)} comes twice")
        seen.add(name)
        addresses.add((bind.host, bind.port))
        named.append(Endpoint(name=name, host=bind.host, port=bind.port))
    return named


def _advertised(texts: Iterable[str], binds: list[Endpoint]) -> dict[str, Endpoint]:
    known = {bind.name for bind in binds}
    published: dict[str, Endpoint] = {}
    for text in texts:
        endpoint = parse_endpoint(text, setting="advertised.listeners")
        name = endpoint.name or binds[0].name
        if name not in known:
            raise InvalidConfig(
                f"advertised.listeners: {name} is not one of the listeners ({', '.join(sorted(known))})"
            )
        if endpoint.is_wildcard:
            raise InvalidConfig(
                f"advertised.listeners: clients cannot connect to {text!r}; "
                "name a host that they can reach"
            )
        published[name] = Endpoint(name=name, host=endpoint.host, port=endpoint.port)
    return published


def _check_requirement(
    listener: Listener, opened: Mapping[WireProtocol, Sequence[Listener]]
) -> None:
    """Refuse a listener whose protocol is of no use without another one that has none."""
    if not listener.protocol.requires:
        return
    required = protocol_named(listener.protocol.requires)
    if not opened[required]:
        raise InvalidConfig(
            f"listeners: {listener.bind} is {required.title}'s {listener.protocol.title}, and "
            f"{required.title} is not served; add {required.listener}://{required.default_address}, or leave "
            "this listener out"
        )


def _security_protocols(entries: Iterable[str]) -> dict[str, str]:
    security: dict[str, str] = {}
    for entry in entries:
        name, colon, protocol = entry.partition(":")
        if not colon or protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise InvalidConfig(
                f"listener.security.protocol.map: {entry!r} must be NAME:PROTOCOL with a protocol of "
                f"{', '.join(SECURITY_PROTOCOLS)}"
            )
        security[name.strip().upper()] = protocol.strip().upper()
    return security


def _check_plaintext(bind: Endpoint, security: Mapping[str, str]) -> None:
    protocol = security.get(bind.name)
    if protocol is None and re.fullmatch(r"PLAINTEXT(_\d+)?", bind.name):
        return
    if protocol is None:
        names = [scheme.listener for one in protocols() for scheme in one.schemes]
        near = get_close_matches(bind.name, names, n=1)
        raise InvalidConfig(
            f"listeners: nothing says which security protocol {bind.name} uses; "
            + (f"did you mean {near[0]}? Otherwise " if near else "")
            + f"add {bind.name}:PLAINTEXT to listener.security.protocol.map"
        )
    if protocol != "PLAINTEXT":
        raise InvalidConfig(
            f"listeners: {bind} wants {protocol}, and only PLAINTEXT is served so far; "
            "nothing was opened, because an open door is not what this file asks for"
        )
