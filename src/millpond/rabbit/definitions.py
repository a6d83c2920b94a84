"""Definitions in RabbitMQ's JSON form, both ways: what one broker exports, another imports.

JSON has fewer types than tables have; whole numbers become the smallest that holds them. What lives only as
long as a connection, and what every broker has anyway, is not part of it. Importing adds and replaces; it
removes nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from millpond.base.errors import InvalidDefinition
from millpond.base.fields import Table, Value
from millpond.rabbit.broker import SYSTEM_EXCHANGES, Broker, VirtualHostState
from millpond.rabbit.names import is_hidden
from millpond.rabbit.records import (
    Binding,
    Exchange,
    Fact,
    Parameter,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    User,
    VirtualHost,
)
from millpond.rabbit.rows import (
    binding_row,
    exchange_row,
    kept,
    limits_of,
    parameter_row,
    permission_row,
    policy_row,
    queue_row,
    topic_permission_row,
    user_row,
    vhost_row,
)
from millpond.rabbit.storing import VHOST_LIMITS, store_all

_OPERATOR_POLICY = "operator_policy"


# --- export -----------------------------------------------------------------------------------------------


def export_definitions(broker: Broker, version: str) -> dict[str, Any]:
    """Everything that outlives connections, in an order that does not change."""
    rooms = [broker.vhosts[name] for name in sorted(broker.vhosts)]
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "product_name": "Millpond",
        "users": [user_row(broker.users[name]) for name in sorted(broker.users)],
        "vhosts": [vhost_row(one.vhost) for one in rooms],
        "permissions": [permission_row(one) for _key, one in sorted(broker.permissions.items())],
        "topic_permissions": [
            topic_permission_row(one) for _key, one in sorted(broker.topic_permissions.items())
        ],
        "parameters": [
            *(_limits_of(one.vhost) for one in rooms if limits_of(one.vhost)),
            *(_operator(policy) for one in rooms for policy in _policies(one, operators=True)),
            *(parameter_row(one) for one in broker.parameters.values() if one.vhost),
        ],
        "global_parameters": [
            {"name": one.name, "value": one.value["value"]}
            for one in broker.parameters.values()
            if not one.vhost
        ],
        "policies": [
            policy_row(policy) for one in rooms for policy in _policies(one, operators=False)
        ],
        "queues": [queue_row(queue) for one in rooms for queue in _kept_queues(one)],
        "exchanges": [exchange_row(exchange) for one in rooms for exchange in _kept_exchanges(one)],
        "bindings": [binding_row(binding) for one in rooms for binding in _kept_bindings(one)],
    }


def _limits_of(vhost: VirtualHost) -> dict[str, Any]:
    """RabbitMQ keeps limits of virtual hosts as parameters."""
    return {
        "component": VHOST_LIMITS,
        "vhost": vhost.name,
        "name": "limits",
        "value": limits_of(vhost),
    }


def _policies(rooms: VirtualHostState, *, operators: bool) -> Iterator[Policy]:
    for (is_operator, _name), policy in sorted(rooms.policies.items()):
        if is_operator == operators:
            yield policy


def _operator(policy: Policy) -> dict[str, Any]:
    value = policy_row(policy)
    del value["vhost"], value["name"]
    return {
        "component": _OPERATOR_POLICY,
        "vhost": policy.vhost,
        "name": policy.name,
        "value": value,
    }


def _kept_queues(rooms: VirtualHostState) -> Iterator[Queue]:
    return (
        one
        for name, one in sorted(rooms.queues.items())
        if not one.is_exclusive and not is_hidden(name)
    )


def _kept_exchanges(rooms: VirtualHostState) -> Iterator[Exchange]:
    return (one for name, one in sorted(rooms.exchanges.items()) if name not in SYSTEM_EXCHANGES)


def _kept_bindings(rooms: VirtualHostState) -> Iterator[Binding]:
    for binding in sorted(rooms.bindings, key=lambda one: one.identity):
        queue = rooms.queues.get(binding.destination) if binding.to_queue else None
        if queue is None or not queue.is_exclusive:
            yield binding


# --- import -----------------------------------------------------------------------------------------------


def import_definitions(
    broker: Broker, document: Mapping[str, Any], vhost: str | None = None
) -> list[Fact]:
    """The facts that make these definitions true where a broker is as this one is (``storing.store_all``)."""
    return store_all(broker, read_definitions(document, vhost))


def read_definitions(document: Mapping[str, Any], vhost: str | None = None) -> list[Fact]:
    """What a file says. With ``vhost`` it is one virtual host's, whose things do not name it.

    Raises ``InvalidDefinition`` for what is no such file.
    """
    return list(_facts(document, vhost))


def _facts(document: Mapping[str, Any], vhost: str | None) -> Iterator[Fact]:
    """In the order in which each finds what it needs."""

    def listed(name: str) -> list[Mapping[str, Any]]:
        value = document.get(name, [])
        if not isinstance(value, list):
            raise InvalidDefinition(f"'{name}' must be a list")
        return value

    try:
        for one in listed("users"):
            yield _read_user(one)
        for one in listed("vhosts"):
            yield _read_vhost(one)
        for one in listed("permissions"):
            yield Permission(**{name: str(one[name]) for name in _PERMISSION})
        for one in listed("topic_permissions"):
            yield TopicPermission(**{name: str(one[name]) for name in _TOPIC_PERMISSION})
        for one in listed("parameters"):
            yield _read_parameter(one, vhost)
        for one in listed("global_parameters"):
            yield Parameter(
                component="global", name=str(one["name"]), value={"value": one["value"]}
            )
        for one in listed("policies"):
            yield _read_policy(one, _vhost_of(one, vhost), str(one["name"]), is_operator=False)
        yield from _read_things(listed("queues"), listed("exchanges"), listed("bindings"), vhost)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidDefinition(f"something is missing or of a wrong type: {error}") from None


_PERMISSION = ("user", "vhost", "configure", "write", "read")
_TOPIC_PERMISSION = ("user", "vhost", "exchange", "write", "read")


def _read_things(
    queues: list[Mapping[str, Any]],
    exchanges: list[Mapping[str, Any]],
    bindings: list[Mapping[str, Any]],
    vhost: str | None,
) -> Iterator[Fact]:
    for one in queues:
        arguments = _table(one.get("arguments"))
        yield Queue(
            vhost=_vhost_of(one, vhost),
            name=str(one["name"]),
            type=str(one.get("type") or arguments.get("x-queue-type") or "classic"),
            durable=bool(one.get("durable", True)),
            auto_delete=bool(one.get("auto_delete", False)),
            arguments=arguments,
        )
    for one in exchanges:
        yield Exchange(
            vhost=_vhost_of(one, vhost),
            name=str(one["name"]),
            type=str(one["type"]),
            durable=bool(one.get("durable", True)),
            auto_delete=bool(one.get("auto_delete", False)),
            internal=bool(one.get("internal", False)),
            arguments=_table(one.get("arguments")),
        )
    for one in bindings:
        yield Binding(
            vhost=_vhost_of(one, vhost),
            source=str(one["source"]),
            destination=str(one["destination"]),
            to_queue=one.get("destination_type", "queue") == "queue",
            routing_key=str(one.get("routing_key", "")),
            arguments=_table(one.get("arguments")),
        )


def _vhost_of(one: Mapping[str, Any], vhost: str | None) -> str:
    return str(one.get("vhost", vhost)) if vhost is not None else str(one["vhost"])


def _read_user(one: Mapping[str, Any]) -> User:
    return User(
        name=str(one["name"]),
        password_hash=str(one.get("password_hash", "")),
        hashing_algorithm=str(one.get("hashing_algorithm", "rabbit_password_hashing_sha256")),
        tags=_tags(one.get("tags")),
        limits=_table(one.get("limits")),
    )


def _read_vhost(one: Mapping[str, Any]) -> VirtualHost:
    metadata = one.get("metadata") or {}
    limits = one.get("limits") or []
    said = limits if isinstance(limits, dict) else {each["name"]: each["value"] for each in limits}
    default = metadata.get("default_queue_type") or one.get("default_queue_type")
    return VirtualHost(
        name=str(one["name"]),
        description=str(metadata.get("description") or one.get("description") or ""),
        tags=_tags(metadata.get("tags") or one.get("tags")),
        # RabbitMQ writes this word where nothing was said.
        default_queue_type="classic" if default in (None, "", "undefined") else str(default),
        connections_max=said.get("max-connections"),
        queues_max=said.get("max-queues"),
    )


def _read_parameter(one: Mapping[str, Any], vhost: str | None) -> Fact:
    where, name = _vhost_of(one, vhost), str(one["name"])
    if one["component"] == _OPERATOR_POLICY:
        return _read_policy(one["value"], where, name, is_operator=True)
    value = one["value"]
    if isinstance(value, list) and all(_is_pair(each) for each in value):
        value = _table(value)
    return Parameter(component=str(one["component"]), vhost=where, name=name, value=kept(value))


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def _read_policy(one: Mapping[str, Any], vhost: str, name: str, *, is_operator: bool) -> Policy:
    return Policy(
        vhost=vhost,
        name=name,
        pattern=str(one["pattern"]),
        definition=_table(one["definition"]),
        priority=int(one.get("priority", 0)),
        apply_to=str(one.get("apply-to", "all")),
        is_operator=is_operator,
    )


def _tags(value: object) -> tuple[str, ...]:
    """A list, or words with commas between them; RabbitMQ has written both."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _table(value: object) -> Table:
    """An object, or a list of pairs; RabbitMQ has written both."""
    if value is None:
        return {}
    if isinstance(value, list):
        value = dict(value)
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no table")
    table: dict[str, Value] = value
    return table
