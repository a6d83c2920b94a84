"""Commands about exchanges, queues, bindings, policies and users.

Commands carry the connection and the user that ask; permissions are part of the decision. A refusal is a
class of ``base.errors``, raised.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from millpond.base.fields import Table
from millpond.rabbit.records import Fact, Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The client or node that gives a command.

    ``connection`` owns what is exclusive; a user of None is the broker itself, and may do all. ``scopes`` are
    what a token allows (``auth/scopes.py``); None is a user of the broker's own, who has permissions.
    """

    vhost: str = "/"
    connection: str = ""
    user: str | None = None
    scopes: tuple[str, ...] | None = None
    is_expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareExchange:
    asker: Principal
    name: str
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteExchange:
    asker: Principal
    name: str
    if_unused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareQueue:
    """``fresh_name`` is a name that is not taken, for a queue that the server is to name."""

    asker: Principal
    name: str
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)
    fresh_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQueue:
    """``messages`` and ``consumers`` are how many the queue has now.

    ``key`` says which one is meant of the queues that have the name one after the other; empty: whichever.
    """

    asker: Principal
    name: str
    if_unused: bool = False
    if_empty: bool = False
    messages: int = 0
    consumers: int = 0
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfBinding:
    asker: Principal
    source: str
    destination: str
    to_queue: bool = True
    routing_key: str = ""
    arguments: Table = field(default_factory=dict)


class Bind(_OfBinding):
    __slots__ = ()


class Unbind(_OfBinding):
    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseConnection:
    """A connection is gone, and with it what was its alone."""

    connection: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseLastConsumer:
    """The last consumer of a queue is gone. ``key`` as in ``DeleteQueue``."""

    vhost: str
    queue: str
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A virtual host, policy, user, permission or parameter, as an administrator wants it."""

    fact: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAll:
    """Many such things, and exchanges, queues and bindings, in order: what a file of definitions holds."""

    facts: tuple[Fact, ...]


Command: TypeAlias = (
    DeclareExchange
    | DeleteExchange
    | DeclareQueue
    | DeleteQueue
    | Bind
    | Unbind
    | LoseConnection
    | LoseLastConsumer
    | Store
    | StoreAll
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Facts to be written, in order, and the queue that was asked for, if one was."""

    facts: tuple[Fact, ...] = ()
    queue: Queue | None = None
