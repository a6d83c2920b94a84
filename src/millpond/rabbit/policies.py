"""What policies make of queues and exchanges: which one counts, and how it meets arguments and operators.

Of the policies that match a name the one with the highest priority counts, alone. An operator's policy is
laid over it: of limits the lower one holds. An argument of the queue itself is laid over both: of limits
the lower again, of everything else the argument.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from millpond.base.errors import InvalidDefinition
from millpond.base.fields import Table, Value
from millpond.queue.settings import QueueSettings
from millpond.rabbit.arguments import CLASSIC, OVERFLOWS, QUORUM, STREAM, age_ms
from millpond.rabbit.names import is_hidden
from millpond.rabbit.patterns import compiled, matches
from millpond.rabbit.records import Exchange, Policy, Queue

APPLY_TO: Final = ("all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams")
_QUEUE_TYPES: Final = {"classic_queues": CLASSIC, "quorum_queues": QUORUM, "streams": STREAM}
# Where two say something of a limit, the lower one holds.
_LIMITS: Final = frozenset(
    (
        "message-ttl",
        "expires",
        "max-length",
        "max-length-bytes",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "delivery-limit",
    )
)
_OPERATORS_MAY: Final = _LIMITS | {
    "overflow",
    "queue-version",
    "target-group-size",
    "ha-mode",
    "ha-params",
    "ha-sync-mode",
}
_NUMBERS: Final = _LIMITS | {
    "consumer-timeout",
    "consumer-disconnected-timeout",
    "stream-max-segment-size-bytes",
    "stream-filter-size-bytes",
    "initial-cluster-size",
    "target-group-size",
    "queue-version",
    "delayed-retry-min",
    "delayed-retry-max",
    "ha-sync-batch-size",
}
_STRINGS: Final = frozenset(
    (
        "alternate-exchange",
        "dead-letter-exchange",
        "dead-letter-routing-key",
        "dead-letter-strategy",
        "queue-mode",
        "overflow",
        "max-age",
        "queue-leader-locator",
        "queue-master-locator",
        "delayed-retry-type",
        "ha-mode",
        "ha-sync-mode",
        "ha-promote-on-shutdown",
        "ha-promote-on-failure",
        "federation-upstream",
        "federation-upstream-set",
        "federation-upstream-pattern",
    )
)
_HA_MODES: Final = ("all", "exactly", "nodes")


def check_policy(policy: Policy) -> None:
    """Raises ``InvalidDefinition``."""
    if policy.apply_to not in APPLY_TO:
        raise InvalidDefinition(
            f"apply-to '{policy.apply_to}' unrecognised; should be one of: {', '.join(APPLY_TO)}"
        )
    compiled(policy.pattern)
    if not policy.definition:
        raise InvalidDefinition("no policy: the definition is empty")
    for name, value in policy.definition.items():
        _check_setting(name, value, is_operator=policy.is_operator)
    if wrong := _wrong_mirrors(policy.definition):
        raise InvalidDefinition(wrong)


def _wrong_mirrors(definition: Table) -> str:
    """What is wrong with how many copies there should be; empty if nothing is."""
    mode, params = definition.get("ha-mode"), definition.get("ha-params")
    match mode:
        case None if params is not None:
            return "ha-mode must be specified to specify ha-params"
        case "exactly" if isinstance(params, bool) or not isinstance(params, int) or params < 1:
            return f'ha-mode="exactly" takes an integer: ha-params={params!r} is none above 0'
        case "nodes" if not isinstance(params, list) or not params:
            return f'ha-mode="nodes" takes a list of names: ha-params={params!r} is none'
    return ""


def _check_setting(name: str, value: Value, *, is_operator: bool) -> None:
    if is_operator and name not in _OPERATORS_MAY:
        raise InvalidDefinition(f"'{name}' is not recognised in operator policies")
    if name in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidDefinition(
                f"'{value!s}' is not a valid value for {name}: expected a number"
            )
        if value < 0 and name != "delivery-limit":
            raise InvalidDefinition(f"'{value!s}' is not a valid value for {name}: it is negative")
    elif name in _STRINGS:
        if not isinstance(value, str):
            raise InvalidDefinition(
                f"'{value!s}' is not a valid value for {name}: expected a string"
            )
        _check_word(name, value)
    elif name not in {"ha-params", "delivery-annotations"}:
        raise InvalidDefinition(f"'{name}' is not a recognised policy setting")


def _check_word(name: str, value: str) -> None:
    allowed: tuple[str, ...] | None = {
        "overflow": OVERFLOWS,
        "ha-mode": _HA_MODES,
        "queue-mode": ("default", "lazy"),
        "dead-letter-strategy": ("at-most-once", "at-least-once"),
    }.get(name)
    if (allowed is not None and value not in allowed) or (
        name == "max-age" and age_ms(value) is None
    ):
        raise InvalidDefinition(f"'{value}' is not a valid {name} value")


def matching(thing: Queue | Exchange, policies: Iterable[Policy]) -> Policy | None:
    """The policy that counts. Of several with the highest priority it is the first by name."""
    found = [policy for policy in policies if _matches(thing, policy)]
    return min(found, key=lambda policy: (-policy.priority, policy.name), default=None)


def _matches(thing: Queue | Exchange, policy: Policy) -> bool:
    if policy.vhost != thing.vhost or not matches(policy.pattern, thing.name):
        return False
    if policy.apply_to == "all":
        return True
    if isinstance(thing, Exchange):
        return policy.apply_to == "exchanges"
    return policy.apply_to == "queues" or _QUEUE_TYPES.get(policy.apply_to) == thing.type


def effective(thing: Queue | Exchange, policies: Iterable[Policy]) -> Table:
    """What the policies say of a queue or an exchange, operators' included."""
    all_policies = list(policies)
    of_users = matching(thing, (one for one in all_policies if not one.is_operator))
    of_operators = matching(thing, (one for one in all_policies if one.is_operator))
    merged: Table = dict(of_users.definition) if of_users is not None else {}
    if of_operators is not None:
        for name, value in of_operators.definition.items():
            merged[name] = _lower(name, merged[name], value) if name in merged else value
    return merged


def _lower(name: str, value: Value, other: Value) -> Value:
    """Of a limit the lower; of anything else the second."""
    if name not in _LIMITS or not isinstance(value, int) or not isinstance(other, int):
        return other
    if name == "delivery-limit" and (value < 0 or other < 0):
        return max(value, other)  # less than none is no limit
    return min(value, other)


class DeadLetterTarget(NamedTuple):
    """Where RabbitMQ's dead letters go. Without a routing key they keep their own."""

    exchange: str
    routing_key: str | None


# RabbitMQ 4's default for quorum queues.
_DELIVERY_LIMIT_DEFAULT = 20


def settings_of(queue: Queue, policies: Iterable[Policy]) -> QueueSettings:
    """Arguments and policies of a queue, joined."""
    if is_hidden(queue.name):
        return QueueSettings(is_delayed=True, keeps_all=queue.type == QUORUM)
    policy = effective(queue, policies)
    arguments = queue.arguments

    def limit(name: str) -> int | None:
        said = [
            table[key] for table, key in ((arguments, f"x-{name}"), (policy, name)) if key in table
        ]
        numbers = [one for one in said if isinstance(one, int) and not isinstance(one, bool)]
        return min(numbers, default=None)

    def word(name: str) -> str | None:
        value = arguments.get(f"x-{name}", policy.get(name))
        return value if isinstance(value, str) else None

    exchange = word("dead-letter-exchange")
    retry_min_ms = limit("delayed-retry-min") or 0
    # As in RabbitMQ: without a type or a least delay there is none.
    retries_later = queue.type == QUORUM and retry_min_ms > 0
    priority = arguments.get("x-max-priority")
    delivery_limit = limit("delivery-limit") if queue.type == QUORUM else None
    if queue.type == QUORUM and delivery_limit is None:
        delivery_limit = _DELIVERY_LIMIT_DEFAULT
    return QueueSettings(
        message_ttl_ms=limit("message-ttl"),
        expires_ms=limit("expires"),
        max_length=limit("max-length"),
        max_length_bytes=limit("max-length-bytes"),
        overflow=word("overflow") or "drop-head",
        dead_letter_target=None
        if exchange is None
        else DeadLetterTarget(exchange, word("dead-letter-routing-key")),
        dead_letter_strategy=_strategy(queue, word("dead-letter-strategy"), word("overflow")),
        max_priority=int(priority) if isinstance(priority, int) else 0,
        single_active_consumer=arguments.get("x-single-active-consumer") is True,
        delivery_limit=None
        if delivery_limit is not None and delivery_limit < 0
        else delivery_limit,
        consumer_timeout_ms=limit("consumer-timeout"),
        delayed_retry=(word("delayed-retry-type") or "disabled") if retries_later else "disabled",
        delayed_retry_min_ms=retry_min_ms,
        delayed_retry_max_ms=limit("delayed-retry-max") or retry_min_ms,
        keeps_all=queue.type == QUORUM,
    )


def _strategy(queue: Queue, strategy: str | None, overflow: str | None) -> str:
    """As in RabbitMQ dead letters are certain only of a quorum queue that refuses what it has no room for."""
    is_certain = queue.type == QUORUM and overflow == "reject-publish"
    return strategy if strategy is not None and is_certain else "at-most-once"
