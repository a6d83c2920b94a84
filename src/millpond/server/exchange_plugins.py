"""Exchange types of plugins: found by a setting or by entry points, and kept from doing harm.

A mistake in a type of the broker's own is found by tests. A mistake in a plugin's type must not end a
connection: a binding table that fails routes that message nowhere, and the log says so.
"""

import importlib
import logging
from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import Final

from millpond.base.errors import BrokerRefusal, InvalidBinding, InvalidQueueArgument
from millpond.base.fields import Table
from millpond.rabbit.exchange_types import (
    EXCHANGE_TYPES,
    BindingTable,
    ExchangeType,
    Registry,
    Routed,
)
from millpond.rabbit.names import Resource
from millpond.rabbit.records import Binding
from millpond.server.failures import ExitCode, StartFailed

log = logging.getLogger(__name__)

ENTRY_POINTS: Final = "millpond.exchange_types"
_PARTS = ("check_arguments", "check_binding", "make_table")


def load_exchange_types(names: Iterable[str], registry: Registry = EXCHANGE_TYPES) -> None:
    """Make these known, and those of installed packages. Raises ``StartFailed``.

    Called again with the same names it changes nothing.
    """
    installed = [point.value for point in entry_points(group=ENTRY_POINTS)]
    for name in dict.fromkeys([*installed, *names]):
        loaded = _load(name)
        known = registry.find(loaded.name) if loaded.name in registry else None
        if isinstance(known, Guarded) and known.place == name:
            continue
        if known is not None:
            raise _failed(
                name, f"there is an exchange type {loaded.name} already", "call it otherwise"
            )
        registry.register(Guarded(loaded, name))
        log.info("exchange type %s: from %s", loaded.name, name)


def _load(place: str) -> ExchangeType:
    module, colon, attribute = place.partition(":")
    if not colon or not module or not attribute:
        raise _failed(place, "it is not of the form package.module:Name", "write it so")
    try:
        found = getattr(importlib.import_module(module), attribute)
        loaded: ExchangeType = found() if isinstance(found, type) else found
    except Exception as error:
        log.debug("exchange type %s", place, exc_info=True)
        raise _failed(
            place,
            f"{type(error).__name__}: {error}",
            "install it where Millpond is installed, or add its directory to PYTHONPATH",
        ) from error
    name = getattr(loaded, "name", None)
    missing = [part for part in _PARTS if not callable(getattr(loaded, part, None))]
    if not isinstance(name, str) or not name or missing:
        lacking = ", ".join(missing) or "a name"
        raise _failed(place, f"it is no exchange type: it lacks {lacking}", "see docs/amqp.md")
    return loaded


def _failed(place: str, why: str, advice: str) -> StartFailed:
    return StartFailed(
        f"Cannot load the exchange type {place}: {why}.", advice, code=ExitCode.SETTINGS
    )


class Guarded:
    """An exchange type of a plugin."""

    def __init__(self, inner: ExchangeType, place: str) -> None:
        self.name = inner.name
        self.by_key_only: bool = getattr(inner, "by_key_only", False)
        self.place = place
        self._inner = inner

    def check_arguments(self, arguments: Table) -> None:
        try:
            self._inner.check_arguments(arguments)
        except BrokerRefusal:
            raise
        except Exception as error:
            log.exception("exchange type %s: check_arguments", self.name)
            raise InvalidQueueArgument(f"exchange type {self.name}: {error}") from error

    def check_binding(self, routing_key: str, arguments: Table, exchange_arguments: Table) -> None:
        try:
            self._inner.check_binding(routing_key, arguments, exchange_arguments)
        except BrokerRefusal:
            raise
        except Exception as error:
            log.exception("exchange type %s: check_binding", self.name)
            raise InvalidBinding(f"exchange type {self.name}: {error}") from error

    def make_table(self, arguments: Table) -> BindingTable:
        return GuardedTable(self._inner, arguments)


class GuardedTable:
    """The bindings of an exchange of that type. A failure for one binding does not affect the others."""

    def __init__(self, kind: ExchangeType, arguments: Table) -> None:
        self._name = kind.name
        self._failures = 0
        self._table: BindingTable | None = None
        try:
            self._table = kind.make_table(arguments)
        except Exception as error:  # noqa: BLE001 - a plugin's code
            self._say("make_table", error)

    def add(self, binding: Binding) -> None:
        if self._table is not None:
            try:
                self._table.add(binding)
            except Exception as error:  # noqa: BLE001 - a plugin's code
                self._say("add", error)

    def remove(self, binding: Binding) -> None:
        if self._table is not None:
            try:
                self._table.remove(binding)
            except Exception as error:  # noqa: BLE001 - a plugin's code
                self._say("remove", error)

    def match(self, message: Routed) -> Iterable[Resource]:
        if self._table is None:
            return ()
        try:
            return list(self._table.match(message))
        except Exception as error:  # noqa: BLE001 - a plugin's code
            self._say("match", error)
            return ()

    def _say(self, what: str, error: Exception) -> None:
        """One line for each doubling."""
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:
            log.error(
                "exchange type %s: %s failed, %d so far",
                self._name,
                what,
                self._failures,
                exc_info=error,
            )
