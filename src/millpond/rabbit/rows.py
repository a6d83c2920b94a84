"""What is declared, as RabbitMQ writes it in JSON: in files of definitions and in answers of its HTTP API."""

from typing import Any

from millpond.base.fields import Table
from millpond.rabbit.records import (
    Binding,
    Exchange,
    Parameter,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    User,
    VirtualHost,
)


def user_row(user: User) -> dict[str, Any]:
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": user.limits,
    }


def permission_row(one: Permission) -> dict[str, Any]:
    return {
        "user": one.user,
        "vhost": one.vhost,
        "configure": one.configure,
        "write": one.write,
        "read": one.read,
    }


def topic_permission_row(one: TopicPermission) -> dict[str, Any]:
    return {
        "user": one.user,
        "vhost": one.vhost,
        "exchange": one.exchange,
        "write": one.write,
        "read": one.read,
    }


def limits_of(vhost: VirtualHost) -> dict[str, int]:
    """By RabbitMQ's names; what has no limit is not there."""
    limits = (("max-connections", vhost.connections_max), ("max-queues", vhost.queues_max))
    return {name: value for name, value in limits if value is not None}


def vhost_row(vhost: VirtualHost) -> dict[str, Any]:
    return {
        "name": vhost.name,
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type,
        "limits": [{"name": name, "value": value} for name, value in limits_of(vhost).items()],
        "metadata": {
            "description": vhost.description,
            "tags": list(vhost.tags),
            "default_queue_type": vhost.default_queue_type,
        },
    }


def policy_row(policy: Policy) -> dict[str, Any]:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def parameter_row(parameter: Parameter) -> dict[str, Any]:
    return {
        "component": parameter.component,
        "vhost": parameter.vhost,
        "name": parameter.name,
        "value": given(parameter.value),
    }


def kept(value: Any) -> Table:
    """The value of a parameter as a table: what is none, or looks like what is none, is wrapped in one."""
    is_table = isinstance(value, dict) and set(value) != {"value"}
    return value if is_table else {"value": value}


def given(table: Table) -> Any:
    """The value that a table was made of by ``kept``."""
    return table["value"] if set(table) == {"value"} else table


def queue_row(queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": queue.arguments,
    }


def exchange_row(exchange: Exchange) -> dict[str, Any]:
    return {
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": exchange.arguments,
    }


def binding_row(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": "queue" if binding.to_queue else "exchange",
        "routing_key": binding.routing_key,
        "arguments": binding.arguments,
    }
