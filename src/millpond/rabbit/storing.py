"""What administrators want to be so, one thing at a time or a whole file of definitions."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from millpond.auth.permissions import check_permission, check_topic_permission, check_user
from millpond.base.errors import AccessRefused, BrokerRefusal, InvalidDefinition
from millpond.base.fields import Table
from millpond.rabbit.arguments import check_declared
from millpond.rabbit.broker import SYSTEM_EXCHANGES, Broker
from millpond.rabbit.names import check_length
from millpond.rabbit.policies import check_policy
from millpond.rabbit.records import (
    Binding,
    Exchange,
    Fact,
    Parameter,
    Permission,
    PermissionDeleted,
    Policy,
    Queue,
    QueueDeleted,
    TopicPermission,
    User,
    UserDeleted,
    VirtualHost,
    VirtualHostDeleted,
)

# RabbitMQ keeps the limits of a virtual host as a parameter of this component.
VHOST_LIMITS: Final = "vhost-limits"


def store(broker: Broker, fact: Fact) -> Iterable[Fact]:
    """The facts that make one true. Raises a ``BrokerRefusal``."""
    _check(broker, fact)
    if isinstance(fact, VirtualHostDeleted):
        # A virtual host takes its queues with it, and what is in them.
        for queue in broker.rooms(fact.name).queues.values():
            yield QueueDeleted(vhost=queue.vhost, name=queue.name)
    yield fact


def store_all(broker: Broker, facts: Iterable[Fact]) -> list[Fact]:
    """The facts that make all of these true, each checked as if those before it were.

    A queue or an exchange that is there already is left as it is, as RabbitMQ does. Raises a
    ``BrokerRefusal`` for the first that cannot be; then none of them shall be.
    """
    trial = _copy(broker)
    stored = []
    for said in facts:
        if _is_there(trial, said):
            continue
        fact = said
        try:
            if isinstance(said, Parameter) and said.component == VHOST_LIMITS:
                fact = _limited(trial.rooms(said.vhost).vhost, said.value)
            _check(trial, fact)
            _check_thing(trial, fact)
        except BrokerRefusal as error:
            raise InvalidDefinition(f"{_named(said)}: {error}") from None
        trial.apply(fact)
        stored.append(fact)
    return stored


def _copy(broker: Broker) -> Broker:
    """As far as a thing that is stored may depend on it."""
    trial = Broker(broker.types)
    for known in broker.vhosts.values():
        trial.apply(known.vhost)
        for exchange in known.exchanges.values():
            trial.apply(exchange)
        for queue in known.queues.values():
            trial.apply(queue)
        for binding in known.bindings:
            trial.apply(binding)
    for user in broker.users.values():
        trial.apply(user)
    return trial


def _limited(vhost: VirtualHost, limits: Table) -> VirtualHost:
    def limit(name: str) -> int | None:
        value = limits.get(name)
        return value if isinstance(value, int) and value >= 0 else None

    return replace(vhost, connections_max=limit("max-connections"), queues_max=limit("max-queues"))


def _is_there(broker: Broker, fact: Fact) -> bool:
    rooms = broker.vhosts.get(getattr(fact, "vhost", ""))
    match fact:
        case Queue():
            return rooms is not None and fact.name in rooms.queues
        case Exchange():
            return rooms is not None and fact.name in rooms.exchanges
        case Binding():
            # Every queue is bound to the default exchange by its name; that is not stored.
            return not fact.source or (rooms is not None and rooms.has_binding(fact))
        case _:
            return False


def _named(fact: Fact) -> str:
    name = getattr(fact, "name", None) or getattr(fact, "user", None)
    return f"{type(fact).__name__} {name or ''}".strip()


# --- checks -------------------------------------------------------------------------------------------------


def _check(broker: Broker, fact: Fact) -> None:
    match fact:
        case Policy():
            broker.rooms(fact.vhost)
            check_policy(fact)
        case User():
            check_user(fact)
        case Permission():
            broker.rooms(fact.vhost)
            _check_user_exists(broker, fact.user)
            check_permission(fact)
        case TopicPermission():
            broker.rooms(fact.vhost)
            _check_user_exists(broker, fact.user)
            check_topic_permission(fact)
        case VirtualHost() if not fact.name:
            raise InvalidDefinition("a virtual host must have a name")
        case VirtualHostDeleted():
            broker.rooms(fact.name)
        case UserDeleted():
            _check_user_exists(broker, fact.name)
        case PermissionDeleted():
            _check_user_exists(broker, fact.user)
        case Exchange() if fact.name in SYSTEM_EXCHANGES:
            raise AccessRefused(f"{fact.resource} is the broker's own")
        case _:
            pass


def _check_thing(broker: Broker, fact: Fact) -> None:
    match fact:
        case Exchange():
            broker.rooms(fact.vhost)
            check_length(fact.resource)
            broker.types[fact.type].check_arguments(fact.arguments)
        case Queue():
            broker.rooms(fact.vhost)
            check_length(fact.resource)
            check_declared(fact.resource, fact.arguments, fact.type)
        case Binding():
            rooms = broker.rooms(fact.vhost)
            source = rooms.exchange(fact.source)
            if fact.to_queue:
                rooms.queue(fact.destination)
            else:
                rooms.exchange(fact.destination)
            kind = broker.types[source.type]
            kind.check_binding(fact.routing_key, fact.arguments, source.arguments)
        case _:
            pass


def _check_user_exists(broker: Broker, name: str) -> None:
    if name not in broker.users:
        raise InvalidDefinition(f"there is no user '{name}'")
