"""The events that a connection returns to its owner."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from millpond.base.fields import Table
from millpond.wire.amqp.methods import BasicPublish, Method
from millpond.wire.amqp.violations import Violation


class Content(NamedTuple):
    """A method and the message that came with it; the properties are still encoded."""

    method: Method
    properties: bytes
    body: bytes


class Publish(NamedTuple):
    """A message for an exchange. Publishes with the same arguments share their ``method``."""

    method: BasicPublish
    properties: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Publishes:
    """Messages that one read brought for one channel, in order, with no other method between them."""

    channel: int
    messages: list[Publish]


@dataclass(frozen=True, slots=True)
class Acks:
    """Acknowledgements that one read brought for one channel, in order: (tag, multiple)."""

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
    """A client sent its credentials. Answer with ``accept_login``, ``challenge`` or ``refuse_login``."""

    mechanism: str
    response: bytes
    client_properties: Table


@dataclass(frozen=True, slots=True)
class OpenRequested:
    """A logged-in client asks for a virtual host. Answer with ``accept_open`` or ``fail``."""

    virtual_host: str


@dataclass(frozen=True, slots=True)
class ChannelOpened:
    """The peer opened a channel. A server answers with ``ChannelOpenOk``."""

    channel: int


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The peer closed a channel (``asked``), or confirms our close. If ``asked``, answer with ``CloseOk``."""

    channel: int
    asked: bool
    code: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The peer closed the connection (``asked``), or confirms our close."""

    asked: bool
    code: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Violated:
    """The peer broke the protocol. The close method for it is already queued.

    ``is_silent``: nothing is sent; RabbitMQ sends no error to a peer that is not logged in yet.
    """

    error: Violation
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class HeaderRefused:
    """The first bytes are not the header of AMQP 0-9-1; the peer was sent the right header."""

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
