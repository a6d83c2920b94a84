"""The protocols that a node can serve: one value for each, and everything that differs between them.

Settings, listeners, options of ``millpond up``, arguments of ``millpond.Broker``, the banner, and the order
in which protocols are opened and stopped go by these values, so that a protocol is added by one value here
and one package in ``frontend/``. A front-end is imported when it is opened: reading settings loads none.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from millpond.message.codecs import Codecs, MessageCodec
    from millpond.metadata.families import Families, RecordFamily
    from millpond.server.services import OpenProtocol, Services


class Scheme(NamedTuple):
    """A name that ``listeners`` has for a protocol, and whether connections to such a listener use TLS."""

    # As in AMQPS://host:port.
    listener: str
    # As in a client's URL; empty if clients are given a bare host:port.
    url: str = ""
    is_tls: bool = False


class Example(NamedTuple):
    """A command for the banner, and the option that names an address other than the default one."""

    command: str
    option: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WireProtocol:
    """One protocol: how it is named, where it listens, and how its front-end is opened."""

    # As Broker.addresses() and the arguments of Broker name it.
    name: str
    # As log lines and errors name it.
    title: str
    schemes: tuple[Scheme, ...]
    # Whether there may be several listeners, with names such as AMQP_INSIDE.
    has_suffixes: bool = True
    # Return the address for an option without a value.
    port: int
    # The option of `millpond up` that adds a listener, and its help.
    option: str
    option_help: str = ""
    # An address for an error message that proposes another one.
    other_address: str
    # What else may be listening at its port.
    rival: str = ""
    # Beginnings of the names of settings that have an effect only where a listener has this protocol.
    settings: tuple[str, ...] = ()
    # The protocol without which this one is not served.
    requires: str = ""
    # If not 0: where the protocol above is opened by its option, this one is, too, at that port plus this.
    port_distance: int = 0
    # Whether other nodes of the cluster connect here: they are served before this node has joined, clients
    # after that.
    serves_nodes: bool = False
    # Whether every node of a cluster opens it, with a listener or without, for what it hosts for the others.
    hosts_for_nodes: bool = False
    # Whether users log in.
    has_logins: bool = False
    # Who may log in from this machine at a new broker, as a URL has it.
    local_login: str = ""
    # What the banner says beside an address.
    remark: str = ""
    example: Example | None = None
    # How its messages are records, if it stores messages in a form of its own.
    codec: Callable[[], "MessageCodec"] | None = None
    open: Callable[["Services"], "OpenProtocol"]
    # The families of the records that it keeps in the metadata. Every node reads them, whatever it serves.
    families: Callable[[], tuple["RecordFamily[Any, Any]", ...]] = lambda: ()

    @property
    def listener(self) -> str:
        """The name of its listeners, without TLS if it can do without."""
        return self.schemes[0].listener

    def scheme_of(self, name: str) -> Scheme | None:
        """The scheme of a listener's name; None if that is not one of this protocol's."""
        suffix = r"(_\w+)?" if self.has_suffixes else ""
        for scheme in self.schemes:
            if re.fullmatch(re.escape(scheme.listener) + suffix, name):
                return scheme
        return None

    @property
    def default_address(self) -> str:
        """Return the address for an option without a value."""
        return f"127.0.0.1:{self.port}"


def _open_kafka(services: "Services") -> "OpenProtocol":
    from millpond.server.kafka_protocol import OpenKafka

    return OpenKafka(services)


def _open_amqp(services: "Services") -> "OpenProtocol":
    from millpond.server.amqp_protocol import OpenAmqp

    return OpenAmqp(services)


def _amqp_families() -> tuple["RecordFamily[Any, Any]", ...]:
    from millpond.rabbit.family import DECLARATIONS

    return (DECLARATIONS,)


def _amqp_codec() -> "MessageCodec":
    from millpond.frontend.amqp.codec import AmqpCodec

    return AmqpCodec()


def _open_http(services: "Services") -> "OpenProtocol":
    from millpond.server.http_protocol import OpenHttp

    return OpenHttp(services)


# A listener with a name that no other protocol has is Kafka's; listener.security.protocol.map says how secure
# it is.
KAFKA = WireProtocol(
    name="kafka",
    title="Kafka",
    schemes=(Scheme("PLAINTEXT"),),
    port=9092,
    option="--listen",
    other_address="127.0.0.1:9192",
    serves_nodes=True,
    example=Example("millpond kafka topic list", "-b"),
    open=_open_kafka,
)
AMQP = WireProtocol(
    name="amqp",
    title="AMQP",
    schemes=(Scheme("AMQP", "amqp"), Scheme("AMQPS", "amqps", is_tls=True)),
    port=5672,
    option="--amqp",
    option_help="Serve AMQP 0-9-1, at 127.0.0.1:5672 or at ADDRESS.",
    other_address="127.0.0.1:5772",
    rival="a RabbitMQ",
    settings=("auth_backends", "auth_oauth2.", "amqp.oauth2."),
    hosts_for_nodes=True,
    has_logins=True,
    local_login="guest:guest",
    codec=_amqp_codec,
    open=_open_amqp,
    families=_amqp_families,
)
HTTP = WireProtocol(
    name="http",
    title="management API",
    schemes=(Scheme("MANAGEMENT", "http"),),
    has_suffixes=False,
    port=15672,
    option="--http",
    option_help="RabbitMQ's management API. Default: --amqp + 10000.",
    other_address="127.0.0.1:15772",
    rival="a RabbitMQ",
    requires="amqp",
    port_distance=10_000,
    has_logins=True,
    remark="RabbitMQ's management API",
    example=Example("millpond amqp queue list", "--management"),
    open=_open_http,
)

# By name, in the order in which they are opened; they are stopped in the reverse order.
_REGISTERED: dict[str, WireProtocol] = {}


def register(protocol: WireProtocol) -> None:
    """Serve one more protocol. Raises ``ValueError`` if one of its names is taken."""
    for other in _REGISTERED.values():
        names = {scheme.listener for scheme in other.schemes}
        if (
            protocol.name == other.name
            or protocol.option == other.option
            or names & {scheme.listener for scheme in protocol.schemes}
        ):
            raise ValueError(f"protocol {protocol.name} and {other.name} share a name")
    if protocol.requires and protocol.requires not in _REGISTERED:
        raise ValueError(f"protocol {protocol.name} requires {protocol.requires}, which is unknown")
    _REGISTERED[protocol.name] = protocol


def unregister(name: str) -> None:
    """Take a protocol out again."""
    del _REGISTERED[name]


def protocols() -> tuple[WireProtocol, ...]:
    """All protocols, in the order in which they are opened."""
    return tuple(_REGISTERED.values())


def message_codecs() -> "Codecs":
    """Return the codecs of all protocols: each reads what clients of the others have written."""
    from millpond.message.codecs import Codecs

    return Codecs(one.codec() for one in _REGISTERED.values() if one.codec is not None)


def protocol_named(name: str) -> WireProtocol:
    """Raises ``KeyError``."""
    return _REGISTERED[name]


def record_families() -> "Families":
    """The families of all protocols: a node knows the records of those that only other nodes serve, too."""
    from millpond.metadata.families import Families

    return Families(family for protocol in _REGISTERED.values() for family in protocol.families())


def protocol_of(listener: str) -> tuple[WireProtocol, Scheme]:
    """The protocol of a listener by its name, which is Kafka's unless another protocol claims it."""
    for protocol in _REGISTERED.values():
        scheme = protocol.scheme_of(listener)
        if scheme is not None and protocol is not KAFKA:
            return protocol, scheme
    return KAFKA, KAFKA.schemes[0]


for _protocol in (KAFKA, AMQP, HTTP):
    register(_protocol)
