"""Settings as users write them: ``linger_ms=5`` or ``{"linger.ms": 5}``, numbers also as text.

A settings class is a frozen dataclass whose fields are made by the functions below; a field's Kafka name is
its own with dots for underscores. An unknown name is an error that suggests the nearest known one, because a
misspelt setting that is ignored is found in production.
"""

import difflib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

from millpond.client.errors import BadConfig

_log = logging.getLogger("millpond.client")

C = TypeVar("C")

# Kafka's settings that have no effect here: sockets, metrics and caches that this client does not have.
_WITHOUT_EFFECT = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
    }
)


def number(default: int, *, low: int = 0, high: int = 2**63 - 1) -> Any:
    """Declare a whole number within bounds."""

    def parse(name: str, value: object) -> int:
        try:
            if isinstance(value, bool):
                raise ValueError
            parsed = int(value)  # type: ignore[call-overload]
            if isinstance(value, float) and parsed != value:
                raise ValueError
        except (TypeError, ValueError):
            raise BadConfig(f"{name} is a whole number, not {value!r}") from None
        if not low <= parsed <= high:
            raise BadConfig(f"{name} is from {low} to {high}, not {parsed}")
        return int(parsed)

    return field(default=default, metadata={"parse": parse})


def flag(default: bool) -> Any:
    """Declare a boolean."""

    def parse(name: str, value: object) -> bool:
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text not in {"true", "false"}:
            raise BadConfig(f"{name} is true or false, not {value!r}")
        return text == "true"

    return field(default=default, metadata={"parse": parse})


def choice(default: str, allowed: Collection[str]) -> Any:
    """Declare a choice of words."""

    def parse(name: str, value: object) -> str:
        text = str(getattr(value, "name", value)).strip().lower()
        if text not in allowed:
            raise BadConfig(f"{name} is one of {', '.join(sorted(allowed))}, not {value!r}")
        return text

    return field(default=default, metadata={"parse": parse})


def text(default: str | None) -> Any:
    """Declare a text, or None."""

    def parse(name: str, value: object) -> str | None:
        if value is None or isinstance(value, str):
            return value
        raise BadConfig(f"{name} is text, not {value!r}")

    return field(default=default, metadata={"parse": parse})


def anything(default: Any = None, *, parse: Callable[[str, Any], Any] | None = None) -> Any:
    """Declare an object, a class or a callable; its user checks it."""
    return field(default=default, metadata={"parse": parse or (lambda name, value: value)})


def listing() -> Any:
    """Declare a list; a single value becomes a list of one."""

    def parse(name: str, value: object) -> tuple[Any, ...]:
        if value is None:
            return ()
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return tuple(value) if isinstance(value, (list, tuple)) else (value,)

    return field(default=(), metadata={"parse": parse})


def parse_options(
    kind: type[C],
    given: Mapping[str, Any] | None,
    keywords: Mapping[str, Any],
    *,
    aliases: Mapping[str, str] | None = None,
    elsewhere: Collection[str] = (),
) -> C:
    """Return settings from Kafka's names and Python's keywords together. Raises ``BadConfig``.

    ``elsewhere`` are settings of another kind of client; they are ignored silently, so that one dictionary
    can serve several.
    """
    known: dict[str, Any] = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for source in (given or {}, keywords):
        for written, value in source.items():
            dotted = str(written).replace("_", ".")
            name = (aliases or {}).get(dotted, dotted).replace(".", "_")
            if name not in known:
                _refuse_unknown(dotted, known, elsewhere)
                continue
            parsed = known[name].metadata["parse"](dotted, value)
            if name in values and values[name] != parsed:
                raise BadConfig(f"{dotted} is given twice: {values[name]!r} and {parsed!r}")
            values[name] = parsed
    return kind(**values)


def _refuse_unknown(dotted: str, known: Collection[str], elsewhere: Collection[str]) -> None:
    if dotted in elsewhere:
        return
    if dotted in _WITHOUT_EFFECT:
        _log.info("setting %s has no effect in this client", dotted)
        return
    if dotted.startswith(("ssl.", "sasl.")):
        raise BadConfig(
            f"{dotted}: this client speaks plain text only; leave ssl and sasl settings out"
        )
    names = [name.replace("_", ".") for name in known]
    near = difflib.get_close_matches(dotted, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise BadConfig(f"there is no setting {dotted}{hint}")
