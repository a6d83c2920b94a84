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


def _row(declared: object, *names: str) -> dict[str, Any]:
    """Return these attributes by name, in this order; a tuple becomes a list, as JSON has it."""
    values = ((name, getattr(declared, name)) for name in names)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def user_row(user: User) -> dict[str, Any]:
    return _row(user, "name", "password_hash", "hashing_algorithm", "tags", "limits")


def permission_row(one: Permission) -> dict[str, Any]:
    return _row(one, "user", "vhost", "configure", "write", "read")


def topic_permission_row(one: TopicPermission) -> dict[str, Any]:
    return _row(one, "user", "vhost", "exchange", "write", "read")


def limits_of(vhost: VirtualHost) -> dict[str, int]:
    """Return the limits of a virtual host by RabbitMQ's names, without those that are not set."""
    limits = (("max-connections", vhost.connections_max), ("max-queues", vhost.queues_max))
    return {name: value for name, value in limits if value is not None}


def vhost_row(vhost: VirtualHost) -> dict[str, Any]:
    metadata = _row(vhost, "description", "tags", "default_queue_type")
    return {
        "name": vhost.name,
        **metadata,
        "limits": [{"name": name, "value": value} for name, value in limits_of(vhost).items()],
        "metadata": metadata,
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
    return _row(queue, "name", "vhost", "type", "durable", "auto_delete", "arguments")


def exchange_row(exchange: Exchange) -> dict[str, Any]:
    return _row(
        exchange, "name", "vhost", "type", "durable", "auto_delete", "internal", "arguments"
    )


def binding_row(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": "queue" if binding.to_queue else "exchange",
        "routing_key": binding.routing_key,
        "arguments": binding.arguments,
    }
