"""What a connection tells its owner: bytes became these."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from millpond.base.fields import Table
from millpond.wire.amqp.methods import BasicPublish, Method
from millpond.wire.amqp.violations import Violation


class Content(NamedTuple):
    """A method and the message that came with it; the properties are still bytes."""

    method: Method
    properties: bytes
    body: bytes


class Publish(NamedTuple):
    """A message for an exchange. Publishes to the same place share their ``method``."""

    method: BasicPublish
    properties: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Publishes:
    """Messages that one read brought for one channel, in order, with nothing else between them."""

    channel: int
    messages: list[Publish]


@dataclass(frozen=True, slots=True)
class Acks:
    """Acknowledgements that one read brought for one channel, in order: tag, and whether of all up to it."""

    channel: int
    acks: list[tuple[int, bool]]


@dataclass(frozen=True, slots=True)
class MethodReceived:
    """A method without content, on an open channel or, for channel 0, of the connection."""

    channel: int
    method: Method


@dataclass(frozen=True, slots=True)
class ContentReceived:
    """A method with content, other than a publish."""

    channel: int
    content: Content


@dataclass(frozen=True, slots=True)
class LoginOffered:
    """A client says who it is. Answer with ``accept_login``, ``challenge`` or ``refuse_login``."""

    mechanism: str
    response: bytes
    client_properties: Table


@dataclass(frozen=True, slots=True)
class OpenRequested:
    """A client that is logged in wants a virtual host. Answer with ``accept_open`` or ``fail``."""

    virtual_host: str


@dataclass(frozen=True, slots=True)
class ChannelOpened:
    """The peer opened a channel. A server answers with ``ChannelOpenOk``."""

    channel: int


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The peer closed a channel (``asked``), or confirms that we did. Who is asked answers ``CloseOk``."""

    channel: int
    asked: bool
    code: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The peer closed the connection (``asked``), or confirms that we did."""

    asked: bool
    code: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Violated:
    """The peer broke the protocol. What it has to be told is already on its way out.

    ``is_silent``: it is told nothing; RabbitMQ does not trust a peer that is not logged in yet.
    """

    error: Violation
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class HeaderRefused:
    """What came does not begin like AMQP 0-9-1; the peer was told what would."""

    header: bytes


Event: TypeAlias = (
    Publishes
    | Acks
    | MethodReceived
    | ContentReceived
    | LoginOffered
    | OpenRequested
    | ChannelOpened
    | ChannelClosed
    | ConnectionClosed
    | Violated
    | HeaderRefused
)
