"""Exchanges, queues, bindings, policies, users and permissions as a family of the cluster's metadata.

Each fact of ``records.py`` is a metadata record of its own type. The slice of the image keeps the last fact
about each thing, in the order in which things were declared, so that applying them one after the other gives
the same declarations again. Deleting a thing deletes what depends on it, as in ``broker.py``. A declaration
costs the same among many things as among few; so does the deletion of a thing on which nothing depends.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from millpond.base.errors import MalformedData
from millpond.base.layers import Layers
from millpond.metadata.families import FIRST_TYPE, RecordFamily
from millpond.metadata.levels import QUEUES
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

_NUMBERS = {kind: number for number, kind in KINDS.items()}

Thing: TypeAlias = tuple[object, ...]


class LatestRecords:
    """The last fact about each thing. Never changes; ``after`` gives the next version."""

    __slots__ = ("_dependents", "facts")

    def __init__(
        self,
        facts: Layers[Thing, Fact] | None = None,
        dependents: Layers[Thing, int] | None = None,
    ) -> None:
        self.facts: Layers[Thing, Fact] = facts or Layers()
        # How many things depend on each, where some do.
        self._dependents: Layers[Thing, int] = dependents or Layers()

    def __len__(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[Fact]:
        return (fact for _thing, fact in self.facts.pairs())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatestRecords) and self.facts == other.facts

    __hash__ = None  # type: ignore[assignment]

    def after(self, fact: Fact) -> "LatestRecords":
        """Return the latest facts when this one has been added."""
        thing = _thing_of(fact)
        changes: dict[Thing, Fact | None] = {thing: None if _is_end(fact) else fact}
        if _is_end(fact):
            if thing not in self.facts:
                return self
            depends_on = _depends_on(fact) if thing in self._dependents else None
            if depends_on is not None:
                changes |= {key: None for key, one in self.facts.pairs() if depends_on(one)}
        dependents = self._dependents.changed(self._recounted(changes))
        return LatestRecords(self.facts.changed(changes), dependents)

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
            for place in _dependencies(fact or known):
                count = counts[place] if place in counts else self._dependents.get(place)
                counts[place] = ((count or 0) + (1 if known is None else -1)) or None
        return counts


def type_of(fact: Fact) -> int:
    """Return the type of a fact's record: the first of all families, and the number of its kind."""
    return FIRST_TYPE + _NUMBERS[type(fact)]


def _decode(kind: int, data: bytes) -> Fact:
    fact = decode_fact(data)
    if type_of(fact) != kind:
        raise MalformedData(f"a record of type {kind} contains a {type(fact).__name__}")
    return fact


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


def _dependencies(fact: Fact | None) -> list[Thing]:
    """Return the things that a thing depends on."""
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


def _depends_on(fact: Fact) -> Callable[[Fact], bool] | None:
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


DECLARATIONS: Final[RecordFamily[Fact, LatestRecords]] = RecordFamily(
    name="queues",
    types=frozenset(FIRST_TYPE + number for number in KINDS),
    level=QUEUES,
    empty=LatestRecords(),
    type_of=type_of,
    encode=encode_fact,
    decode=_decode,
    apply=LatestRecords.after,
    diff=facts_between,
)
