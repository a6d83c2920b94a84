"""The optional arguments of queues and consumers: which there are, what they may be, what redeclaring
compares.

The texts are RabbitMQ's, word for word, in Erlang's notation: clients and people search for them.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from millpond.base.errors import Inequivalent, InvalidQueueArgument
from millpond.base.fields import ScaledNumber, Table, type_name
from millpond.rabbit.names import Resource

CLASSIC, QUORUM, STREAM = "classic", "quorum", "stream"
QUEUE_TYPES: Final = (CLASSIC, QUORUM, STREAM)

QUEUE_TYPE = "x-queue-type"
MESSAGE_TTL = "x-message-ttl"
EXPIRES = "x-expires"
MAX_LENGTH = "x-max-length"
MAX_LENGTH_BYTES = "x-max-length-bytes"
OVERFLOW = "x-overflow"
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
DEAD_LETTER_ROUTING_KEY = "x-dead-letter-routing-key"
DEAD_LETTER_STRATEGY = "x-dead-letter-strategy"
MAX_PRIORITY = "x-max-priority"
SINGLE_ACTIVE_CONSUMER = "x-single-active-consumer"
DELIVERY_LIMIT = "x-delivery-limit"
CONSUMER_TIMEOUT = "x-consumer-timeout"
PRIORITY = "x-priority"
STREAM_OFFSET = "x-stream-offset"
MAX_AGE = "x-max-age"
SEGMENT_BYTES = "x-stream-max-segment-size-bytes"
# Which topic a stream reads, if it is not one of its own.
STREAM_TOPIC = "x-millpond-topic"

OVERFLOWS: Final = ("drop-head", "reject-publish", "reject-publish-dlx")
_STRATEGIES: Final = ("at-most-once", "at-least-once")
_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders", "min-masters")
_RETRY_TYPES: Final = ("disabled", "all", "failed", "returned")
_TEN_YEARS_MS = 315_360_000_000
_INTEGERS = frozenset(
    ("byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint")
)
# RabbitMQ counts a decimal among the whole numbers where it compares, and only there.
_CLASSES = dict.fromkeys((*_INTEGERS, "decimal"), "int") | {"float": "float", "double": "float"}
_AGE = re.compile(r"([0-9]+)(.*)", re.DOTALL)
_AGE_UNITS_MS: Final = {
    "Y": 365 * 86_400_000,
    "M": 30 * 86_400_000,
    "D": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
}

# A check gives what is wrong, as RabbitMQ says it, or None.
_Check = Callable[[object, Mapping[str, object]], str | None]


def _integer(value: object, _all: Mapping[str, object]) -> str | None:
    name = type_name(value)
    return None if name in _INTEGERS else f'"expected integer, got {name}"'


def _not_negative(value: object, others: Mapping[str, object]) -> str | None:
    wrong = _integer(value, others)
    return wrong or (f"{{value_negative,{value}}}" if _number(value) < 0 else None)


def _positive(value: object, others: Mapping[str, object]) -> str | None:
    wrong = _not_negative(value, others)
    return wrong or (f"{{value_zero,{value}}}" if _number(value) == 0 else None)


def _ttl(value: object, others: Mapping[str, object]) -> str | None:
    wrong = _not_negative(value, others)
    return wrong or (f"{{value_too_large,{value}}}" if _number(value) > _TEN_YEARS_MS else None)


def _expires(value: object, others: Mapping[str, object]) -> str | None:
    wrong = _integer(value, others)
    if wrong is None and _number(value) == 0:
        return f"{{value_zero,{value}}}"
    return wrong or _ttl(value, others)


def _max_priority(value: object, others: Mapping[str, object]) -> str | None:
    wrong = _not_negative(value, others)
    return wrong or (f"{{max_value_exceeded,{value}}}" if _number(value) > 255 else None)


def _boolean(value: object, _all: Mapping[str, object]) -> str | None:
    return None if isinstance(value, bool) else _unacceptable(value)


def _string(value: object, _all: Mapping[str, object]) -> str | None:
    return None if type_name(value) == "longstr" else _unacceptable(value)


def _one_of(allowed: tuple[str, ...], complaint: str) -> _Check:
    def check(value: object, others: Mapping[str, object]) -> str | None:
        return _string(value, others) or (None if value in allowed else complaint)

    return check


def _dead_letter_key(value: object, others: Mapping[str, object]) -> str | None:
    wrong = _string(value, others)
    if wrong is None and DEAD_LETTER_EXCHANGE not in others:
        return "routing_key_but_no_dlx_defined"
    return wrong


def _queue_mode(value: object, others: Mapping[str, object]) -> str | None:
    wrong = _string(value, others)
    known = value in {"default", "lazy"}
    return wrong or (None if known else f"\"unsupported queue mode '{value}'\"")


def _queue_type(value: object, others: Mapping[str, object]) -> str | None:
    wrong = _string(value, others)
    return wrong or (None if value in QUEUE_TYPES else f"\"unsupported queue type '{value}'\"")


def _age(value: object, others: Mapping[str, object]) -> str | None:
    wrong = _string(value, others)
    if wrong is None and age_ms(str(value)) is None:
        return "invalid_max_age"
    return wrong


def age_ms(text: str) -> int | None:
    """How long an age like ``7D`` is; None if it is none."""
    match = _AGE.fullmatch(text)
    if match is None or match[2] not in _AGE_UNITS_MS or int(match[1]) == 0:
        return None
    return int(match[1]) * _AGE_UNITS_MS[match[2]]


def _anything(_value: object, _all: Mapping[str, object]) -> str | None:
    return None


def _unacceptable(value: object) -> str:
    return f"{{unacceptable_type,{type_name(value)}}}"


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


# In RabbitMQ's order: of several mistakes the first is named.
_DECLARED: Final[dict[str, _Check]] = {
    EXPIRES: _expires,
    MESSAGE_TTL: _ttl,
    DEAD_LETTER_EXCHANGE: _string,
    DEAD_LETTER_ROUTING_KEY: _dead_letter_key,
    DEAD_LETTER_STRATEGY: _one_of(_STRATEGIES, "invalid_dlx_strategy"),
    MAX_LENGTH: _not_negative,
    MAX_LENGTH_BYTES: _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    MAX_PRIORITY: _max_priority,
    OVERFLOW: _one_of(OVERFLOWS, "invalid_overflow"),
    "x-queue-mode": _queue_mode,
    "x-queue-version": _not_negative,
    SINGLE_ACTIVE_CONSUMER: _boolean,
    CONSUMER_TIMEOUT: _not_negative,
    "x-consumer-disconnected-timeout": _not_negative,
    QUEUE_TYPE: _queue_type,
    "x-quorum-initial-group-size": _positive,
    MAX_AGE: _age,
    SEGMENT_BYTES: _not_negative,
    "x-stream-filter-size-bytes": _not_negative,
    STREAM_TOPIC: _string,
    "x-initial-cluster-size": _positive,
    "x-queue-leader-locator": _one_of(_LOCATORS, "invalid_queue_locator_arg"),
    "x-queue-master-locator": _anything,
    "x-member-placement-tag": _string,
    # RabbitMQ takes any value here and ignores one that it cannot use.
    DELIVERY_LIMIT: _anything,
    "x-delayed-retry-type": _one_of(_RETRY_TYPES, "invalid_delayed_retry_type"),
    "x-delayed-retry-min": _not_negative,
    "x-delayed-retry-max": _not_negative,
}
_CLASSIC_ONLY = frozenset(
    (MAX_PRIORITY, "x-queue-mode", "x-queue-version", "x-queue-master-locator")
)
_QUORUM_ONLY = frozenset(
    (
        DEAD_LETTER_STRATEGY,
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-quorum-initial-group-size",
        "x-member-placement-tag",
        DELIVERY_LIMIT,
        "x-consumer-disconnected-timeout",
        CONSUMER_TIMEOUT,
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
    )
)
_STREAM_ONLY = frozenset(
    (
        MAX_AGE,
        SEGMENT_BYTES,
        "x-stream-filter-size-bytes",
        STREAM_TOPIC,
        "x-initial-cluster-size",
    )
)
_ALLOWED: Final[dict[str, frozenset[str]]] = {
    CLASSIC: frozenset(_DECLARED) - _QUORUM_ONLY - _STREAM_ONLY,
    QUORUM: frozenset(_DECLARED) - _CLASSIC_ONLY - _STREAM_ONLY,
    STREAM: _STREAM_ONLY | {MAX_LENGTH_BYTES, QUEUE_TYPE, "x-queue-leader-locator"},
}
_CONSUMED: Final[dict[str, _Check]] = {
    PRIORITY: _integer,
    CONSUMER_TIMEOUT: _not_negative,
}


def check_declared(resource: Resource, arguments: Table, default_type: str = CLASSIC) -> str:
    """The queue's type. Raises ``InvalidQueueArgument`` for what it cannot have."""
    _check(resource, arguments, {QUEUE_TYPE: _queue_type})
    queue_type = str(arguments.get(QUEUE_TYPE, default_type))
    allowed = _ALLOWED.get(queue_type)
    if allowed is None:
        raise InvalidQueueArgument(f"unsupported queue type '{queue_type}' for {resource}")
    _check(resource, arguments, {name: _DECLARED[name] for name in _DECLARED if name in allowed})
    for name in arguments:
        if name in _DECLARED and name not in allowed:
            raise InvalidQueueArgument(
                f"invalid arg '{name}' for {resource} of queue type rabbit_{queue_type}_queue"
            )
    return queue_type


def check_consumed(resource: Resource, arguments: Table) -> None:
    """Raises ``InvalidQueueArgument`` for what no consumer can ask for."""
    _check(resource, arguments, _CONSUMED)


def _check(resource: Resource, arguments: Table, checks: Mapping[str, _Check]) -> None:
    for name, check in checks.items():
        if name not in arguments:
            continue
        wrong = check(arguments[name], arguments)
        if wrong is not None:
            raise InvalidQueueArgument(f"invalid arg '{name}' for {resource}: {wrong}")


# --- redeclaring ------------------------------------------------------------------------------------------

# What must be the same when a queue is declared again; anything else may differ.
COMPARED: Final = tuple(_DECLARED)


def check_equal(resource: Resource, name: str, *, current: object, received: object) -> None:
    """Of a property. Raises ``Inequivalent``."""
    if current != received:
        raise Inequivalent(
            f"inequivalent arg '{name}' for {resource}: "
            f"received '{_shown(received)}' but current is '{_shown(current)}'"
        )


def check_equivalent(
    resource: Resource, names: Iterable[str], *, current: Table, received: Table
) -> None:
    """Of arguments: values must be equal, numbers whatever their size. Raises ``Inequivalent``."""
    for name in names:
        has, gets = name in current, name in received
        if not has and not gets:
            continue
        if has and gets:
            if _class(current[name]) != _class(received[name]) or current[name] != received[name]:
                check_unequal(resource, name, current[name], received[name])
            continue
        if name == QUEUE_TYPE and (current.get(name) or received.get(name)) == CLASSIC:
            continue  # a queue is classic unless said otherwise
        raise Inequivalent(
            f"inequivalent arg '{name}' for {resource}: received {_said(received, name)} "
            f"but current is {_said(current, name)}"
        )


def check_unequal(resource: Resource, name: str, current: object, received: object) -> None:
    raise Inequivalent(
        f"inequivalent arg '{name}' for {resource}: "
        f"received '{_shown(received)}' but current is '{_shown(current)}'"
    )


def _class(value: object) -> str:
    name = type_name(value)
    return _CLASSES.get(name, name)


def _said(arguments: Table, name: str) -> str:
    if name not in arguments:
        return "none"
    value = arguments[name]
    return f"the value '{_shown(value)}' of type '{type_name(value)}'"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, ScaledNumber):
        return f"{{{value[0]},{value[1]}}}"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
