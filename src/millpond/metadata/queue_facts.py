"""What is declared of exchanges, queues, bindings, policies and users, as a part of the cluster's image.

Each fact of ``queue/facts.py`` is a metadata record of its own type, above all types that Kafka has. The
image keeps the last fact about each thing, in the order in which things came to be, so that applying them one
after the other gives the same furniture again. What goes takes with it what hangs on it, as in
``queue/broker.py``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from millpond.base.flexible import Reader, put_bytes, put_tags
from millpond.queue.facts import (
    KINDS,
    Binding,
    BindingDeleted,
    Exchange,
    ExchangeDeleted,
    Fact,
    Parameter,
    ParameterDeleted,
    Permission,
    PermissionDeleted,
    Policy,
    PolicyDeleted,
    Queue,
    QueueDeleted,
    TopicPermission,
    TopicPermissionDeleted,
    User,
    UserDeleted,
    VirtualHost,
    VirtualHostDeleted,
    decode_fact,
    encode_fact,
)

# The type of a record is this and the number of its kind of fact.
FIRST_TYPE = 20_000

_NUMBERS = {kind: number for number, kind in KINDS.items()}

Thing: TypeAlias = tuple[object, ...]
Things: TypeAlias = Mapping[Thing, Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFactRecord:
    """Something was declared, or is gone (types 20001 to 20109)."""

    fact: Fact

    @property
    def type(self) -> int:
        return FIRST_TYPE + _NUMBERS[type(self.fact)]


TYPES = tuple(FIRST_TYPE + number for number in KINDS)


def put_queue_fact(out: bytearray, record: QueueFactRecord) -> None:
    put_bytes(out, encode_fact(record.fact))
    put_tags(out)


def get_queue_fact(reader: Reader, _version: int) -> QueueFactRecord:
    return QueueFactRecord(fact=decode_fact(reader.data()))


def fold(things: dict[Thing, Fact], fact: Fact) -> None:
    """Make a fact true."""
    thing = _thing_of(fact)
    if not _is_end(fact):
        things[thing] = fact
        return
    things.pop(thing, None)
    hangs_on = _hangs_on(fact)
    if hangs_on is not None:
        for other in [key for key, one in things.items() if hangs_on(one)]:
            del things[other]


def facts_between(before: Things, after: Things) -> Iterator[Fact]:
    """Facts that lead from one to the other: first what goes, the latest first, then what comes."""
    if before is after:
        return
    for thing, fact in reversed(list(before.items())):
        if thing not in after:
            yield _end_of(fact)
    for thing, fact in after.items():
        if before.get(thing) is not fact and before.get(thing) != fact:
            yield fact


def _is_end(fact: Fact) -> bool:
    return _NUMBERS[type(fact)] > 100


def _thing_of(fact: Fact) -> Thing:
    match fact:
        case VirtualHost() | VirtualHostDeleted():
            return "vhost", fact.name
        case Exchange() | ExchangeDeleted():
            return "exchange", fact.vhost, fact.name
        case Queue() | QueueDeleted():
            return "queue", fact.vhost, fact.name
        case Binding():
            return "binding", *fact.identity
        case BindingDeleted():
            return "binding", *_binding(fact).identity
        case Policy() | PolicyDeleted():
            return "policy", fact.vhost, fact.name, fact.is_operator
        case User() | UserDeleted():
            return "user", fact.name
        case Permission() | PermissionDeleted():
            return "permission", fact.user, fact.vhost
        case TopicPermission() | TopicPermissionDeleted():
            return "topic permission", fact.user, fact.vhost, fact.exchange
        case Parameter() | ParameterDeleted():
            return "parameter", fact.vhost, fact.component, fact.name


def _hangs_on(fact: Fact) -> Callable[[Fact], bool] | None:
    match fact:
        case VirtualHostDeleted(name=name):
            return lambda one: getattr(one, "vhost", None) == name
        case ExchangeDeleted(vhost=vhost, name=name):
            return lambda one: (
                isinstance(one, Binding)
                and one.vhost == vhost
                and (one.source == name or (not one.to_queue and one.destination == name))
            )
        case QueueDeleted(vhost=vhost, name=name):
            return lambda one: (
                isinstance(one, Binding)
                and (one.vhost, one.to_queue, one.destination) == (vhost, True, name)
            )
        case UserDeleted(name=name):
            return lambda one: isinstance(one, (Permission, TopicPermission)) and one.user == name
        case _:
            return None


def _end_of(fact: Fact) -> Fact:
    match fact:
        case VirtualHost():
            return VirtualHostDeleted(name=fact.name)
        case Exchange():
            return ExchangeDeleted(vhost=fact.vhost, name=fact.name)
        case Queue():
            return QueueDeleted(vhost=fact.vhost, name=fact.name)
        case Binding():
            return BindingDeleted(
                vhost=fact.vhost,
                source=fact.source,
                destination=fact.destination,
                to_queue=fact.to_queue,
                routing_key=fact.routing_key,
                arguments=fact.arguments,
            )
        case Policy():
            return PolicyDeleted(vhost=fact.vhost, name=fact.name, is_operator=fact.is_operator)
        case User():
            return UserDeleted(name=fact.name)
        case Permission():
            return PermissionDeleted(user=fact.user, vhost=fact.vhost)
        case TopicPermission():
            return TopicPermissionDeleted(user=fact.user, vhost=fact.vhost, exchange=fact.exchange)
        case Parameter():
            return ParameterDeleted(component=fact.component, name=fact.name, vhost=fact.vhost)
        case _:
            raise AssertionError(f"{type(fact).__name__} is an end itself")


def _binding(fact: BindingDeleted) -> Binding:
    return Binding(
        vhost=fact.vhost,
        source=fact.source,
        destination=fact.destination,
        to_queue=fact.to_queue,
        routing_key=fact.routing_key,
        arguments=fact.arguments,
    )
