"""What was decided about exchanges, queues, bindings and users: facts, and their bytes.

A fact sets or removes one thing; the last fact about a thing is its state. Bytes are the number of the kind
of fact, a version, and a table of typed values by name (``base/fields.py``): arguments keep their types, a
reader ignores names that it does not know, and what is missing has its default. All nodes must know the
same declarations to route alike, so facts belong into the metadata log, each kind as a record of its own.
"""

from dataclasses import MISSING, dataclass, field, fields
from struct import Struct
from typing import Any, TypeAlias

from millpond.base.errors import MalformedData
from millpond.base.fields import Table, decode_table, encode_table
from millpond.rabbit.names import Kind, Resource

_START = Struct(">HH")
_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualHost:
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = "classic"
    connections_max: int | None = None
    queues_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    vhost: str
    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = field(default_factory=dict)
    home: str = ""

    @property
    def resource(self) -> Resource:
        return Resource(Kind.EXCHANGE, self.vhost, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """``owner`` is the connection that an exclusive queue belongs to, and lives as long as.

    ``topic`` is where its messages are. ``home`` is the life of a node that it does not outlast, if it is
    not to last; an exchange has several lives there.
    """

    vhost: str
    name: str
    type: str = "classic"
    durable: bool = True
    auto_delete: bool = False
    owner: str = ""
    arguments: Table = field(default_factory=dict)
    topic: str = ""
    home: str = ""

    @property
    def resource(self) -> Resource:
        return Resource(Kind.QUEUE, self.vhost, self.name)

    @property
    def is_exclusive(self) -> bool:
        return self.owner != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfBinding:
    vhost: str
    source: str
    destination: str
    to_queue: bool = True
    routing_key: str = ""
    arguments: Table = field(default_factory=dict)


class Binding(_OfBinding):
    __slots__ = ()

    @property
    def target(self) -> Resource:
        kind = Kind.QUEUE if self.to_queue else Kind.EXCHANGE
        return Resource(kind, self.vhost, self.destination)

    @property
    def identity(self) -> tuple[str, str, str, bool, str, bytes]:
        """What makes two bindings the same."""
        arguments = encode_table(dict(sorted(self.arguments.items())))
        return (
            self.vhost,
            self.source,
            self.destination,
            self.to_queue,
            self.routing_key,
            arguments,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Settings for all queues or exchanges whose names match. Operators' policies have the last word."""

    vhost: str
    name: str
    pattern: str
    definition: Table
    priority: int = 0
    apply_to: str = "all"
    is_operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user as RabbitMQ keeps it: the hash has its salt in front of it."""

    name: str
    password_hash: str = ""
    hashing_algorithm: str = "rabbit_password_hashing_sha256"
    tags: tuple[str, ...] = ()
    limits: Table = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    user: str
    vhost: str
    configure: str = ""
    write: str = ""
    read: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPermission:
    user: str
    vhost: str
    exchange: str
    write: str = ""
    read: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A setting of some plug-in, kept so that definitions survive; without a vhost it is global."""

    component: str
    name: str
    value: Table
    vhost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualHostDeleted:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeDeleted:
    vhost: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeleted:
    vhost: str
    name: str


class BindingDeleted(_OfBinding):
    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDeleted:
    vhost: str
    name: str
    is_operator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDeleted:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDeleted:
    user: str
    vhost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPermissionDeleted:
    user: str
    vhost: str
    exchange: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterDeleted:
    component: str
    name: str
    vhost: str = ""


Fact: TypeAlias = (
    VirtualHost
    | Exchange
    | Queue
    | Binding
    | Policy
    | User
    | Permission
    | TopicPermission
    | Parameter
    | VirtualHostDeleted
    | ExchangeDeleted
    | QueueDeleted
    | BindingDeleted
    | PolicyDeleted
    | UserDeleted
    | PermissionDeleted
    | TopicPermissionDeleted
    | ParameterDeleted
)

# The numbers are stored: they may be added to, never changed.
KINDS: dict[int, type[Any]] = {
    1: VirtualHost,
    2: Exchange,
    3: Queue,
    4: Binding,
    5: Policy,
    6: User,
    7: Permission,
    8: TopicPermission,
    9: Parameter,
    101: VirtualHostDeleted,
    102: ExchangeDeleted,
    103: QueueDeleted,
    104: BindingDeleted,
    105: PolicyDeleted,
    106: UserDeleted,
    107: PermissionDeleted,
    108: TopicPermissionDeleted,
    109: ParameterDeleted,
}
_NUMBERS = {kind: number for number, kind in KINDS.items()}


def encode_fact(fact: Fact) -> bytes:
    """A fact's bytes; what has its default is left out."""
    values = {
        one.name: getattr(fact, one.name)
        for one in fields(fact)
        if one.default is MISSING or getattr(fact, one.name) != one.default
    }
    return _START.pack(_NUMBERS[type(fact)], _VERSION) + encode_table(values)


def decode_fact(data: bytes) -> Fact:
    """Reads what ``encode_fact`` wrote. Raises ``MalformedData``."""
    if len(data) < _START.size:
        raise MalformedData("a fact of a broker ends within its start")
    number, _version = _START.unpack_from(data)
    kind = KINDS.get(number)
    if kind is None:
        raise MalformedData(f"no fact of a broker has the number {number}")
    table = decode_table(data[_START.size :])
    known = {one.name for one in fields(kind)}
    values: dict[str, Any] = {name: value for name, value in table.items() if name in known}
    if isinstance(values.get("tags"), list):
        values["tags"] = tuple(values["tags"])
    try:
        fact: Fact = kind(**values)
    except TypeError as error:
        raise MalformedData(f"a fact of a broker lacks something: {error}") from None
    return fact
