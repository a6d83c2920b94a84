"""What is declared of exchanges, queues, bindings, policies and users, as a part of the cluster's image.

Each fact of ``rabbit/records.py`` is a metadata record of its own type, above all types that Kafka has. The
image keeps the last fact about each thing, in the order in which things came to be, so that applying them one
after the other gives the same declarations again. What goes takes with it what hangs on it, as in
``rabbit/broker.py``. A declaration costs the same among many things as among few; so does the end of a thing
on which nothing hangs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from millpond.base.kafka_encoding import NO_TAGS, Reader, compact_bytes
from millpond.base.layers import Layers
from millpond.rabbit.records import (
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


class LatestRecords:
    """The last fact about each thing. Never changes; ``after`` gives the next version."""

    __slots__ = ("_hanging", "facts")

    def __init__(
        self,
        facts: Layers[Thing, Fact] | None = None,
        hanging: Layers[Thing, int] | None = None,
    ) -> None:
        self.facts: Layers[Thing, Fact] = facts or Layers()
        # How many things hang on each, where some do.
        self._hanging: Layers[Thing, int] = hanging or Layers()

    def __len__(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[Fact]:
        return (fact for _thing, fact in self.facts.pairs())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatestRecords) and self.facts == other.facts

    __hash__ = None  # type: ignore[assignment]

    def after(self, fact: Fact) -> "LatestRecords":
        """What is so when this fact is true."""
        thing = _thing_of(fact)
        changes: dict[Thing, Fact | None] = {thing: None if _is_end(fact) else fact}
        if _is_end(fact):
            if thing not in self.facts:
                return self
            hangs_on = _hangs_on(fact) if thing in self._hanging else None
            if hangs_on is not None:
                changes |= {key: None for key, one in self.facts.pairs() if hangs_on(one)}
        hanging = self._hanging.changed(self._recounted(changes))
        return LatestRecords(self.facts.changed(changes), hanging)

    def between(self, after: "LatestRecords") -> Iterator[Fact]:
        """Facts that lead from this to that: first what goes, the latest first, then what comes."""
        before, now = self.facts, after.facts
        keys = list(before.differing(now))
        for key in reversed(keys):
            if key in before and key not in now:
                yield _end_of(before[key])
        for key in keys:
            if key in now and before.get(key) != now[key]:
                yield now[key]

    def _recounted(self, changes: dict[Thing, Fact | None]) -> dict[Thing, int | None]:
        counts: dict[Thing, int | None] = {}
        for key, fact in changes.items():
            known = self.facts.get(key)
            if (known is None) == (fact is None):
                continue
            for place in _places(fact or known):
                count = counts[place] if place in counts else self._hanging.get(place)
                counts[place] = ((count or 0) + (1 if known is None else -1)) or None
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFactRecord:
    """Something was declared, or is gone (types 20001 to 20109)."""

    fact: Fact

    @property
    def type(self) -> int:
        return FIRST_TYPE + _NUMBERS[type(self.fact)]


TYPES = tuple(FIRST_TYPE + number for number in KINDS)


def put_queue_fact(out: bytearray, record: QueueFactRecord) -> None:
    out += compact_bytes(encode_fact(record.fact))
    out += NO_TAGS


def get_queue_fact(reader: Reader, _version: int) -> QueueFactRecord:
    return QueueFactRecord(fact=decode_fact(reader.compact_bytes()))


def facts_between(before: LatestRecords, after: LatestRecords) -> Iterator[Fact]:
    """Facts that lead from one to the other: first what goes, the latest first, then what comes."""
    return iter(()) if before is after else before.between(after)


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


def _places(fact: Fact | None) -> list[Thing]:
    """What a thing hangs on."""
    match fact:
        case Binding():
            kind = "queue" if fact.to_queue else "exchange"
            target: Thing = (kind, fact.vhost, fact.destination)
            source: Thing = ("exchange", fact.vhost, fact.source)
            return [("vhost", fact.vhost), source, *([target] if target != source else [])]
        case Permission() | TopicPermission():
            return [("vhost", fact.vhost), ("user", fact.user)]
        case Exchange() | Queue() | Policy() | Parameter():
            return [("vhost", fact.vhost)]
        case _:
            return []


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
