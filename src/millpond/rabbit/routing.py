"""Where a message goes: exchanges, bindings between them, alternate exchanges, each queue once.

The router is the model's index: ``add`` and ``remove`` follow the facts, ``route`` only looks. What depends
on the routing key alone is remembered by exchange and key until a binding changes, so publishing again and
again to the same place costs one look-up.
"""

from collections import deque

from millpond.base import limits
from millpond.rabbit.exchange_types import BindingTable, Delayed, Registry, Routed, delay_ms_of
from millpond.rabbit.names import (
    DEFAULT_EXCHANGE,
    Kind,
    Resource,
    delayed_queue,
    is_hidden,
    queue_of,
)
from millpond.rabbit.records import Binding, Exchange

ALTERNATE = "alternate-exchange"


class Router:
    """The routes of one virtual host."""

    def __init__(self, vhost: str, types: Registry) -> None:
        self.vhost = vhost
        self._types = types
        self._exchanges: dict[str, Exchange] = {}
        self._tables: dict[str, BindingTable] = {}
        self._alternates: dict[str, str] = {}
        self._queues: set[str] = set()
        self._remembered: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}

    # --- changes -------------------------------------------------------------------------------------

    def add_exchange(self, exchange: Exchange) -> None:
        self._exchanges[exchange.name] = exchange
        if exchange.name not in self._tables:
            table = self._types.find(exchange.type).make_table(exchange.arguments)
            self._tables[exchange.name] = table
        self._remembered.clear()

    def remove_exchange(self, name: str) -> None:
        del self._exchanges[name]
        del self._tables[name]
        self._alternates.pop(name, None)
        self._remembered.clear()

    def set_alternate(self, name: str, alternate: str | None) -> None:
        """Where an exchange sends what it does not know what to do with."""
        if self._alternates.get(name) == alternate:
            return
        if alternate is None:
            del self._alternates[name]
        else:
            self._alternates[name] = alternate
        self._remembered.clear()

    def add_queue(self, name: str) -> None:
        self._queues.add(name)
        self._remembered.clear()

    def remove_queue(self, name: str) -> None:
        self._queues.discard(name)
        self._remembered.clear()

    def add_binding(self, binding: Binding) -> None:
        self._tables[binding.source].add(binding)
        self._remembered.clear()

    def remove_binding(self, binding: Binding) -> None:
        self._tables[binding.source].remove(binding)
        self._remembered.clear()

    # --- looking -------------------------------------------------------------------------------------

    def route(self, exchange: str, message: Routed) -> tuple[str, ...]:
        """The names of the queues that get the message, in an order that is always the same.

        The exchange must exist; a binding or an alternate that leads to one that does not is ignored.
        """
        place = exchange, message.routing_keys
        known = self._remembered.get(place)
        if known is not None:
            return known
        queues, by_key_only = self._follow(exchange, message)
        if by_key_only:
            if len(self._remembered) >= limits.ROUTES_REMEMBERED:
                self._remembered.clear()
            self._remembered[place] = queues
        return queues

    def is_by_key(self, exchange: str, routing_keys: tuple[str, ...]) -> bool:
        """Whether what was just routed goes where all with these keys go."""
        return (exchange, routing_keys) in self._remembered

    def _follow(self, exchange: str, message: Routed) -> tuple[tuple[str, ...], bool]:
        queues: dict[str, None] = {}
        seen = {exchange}
        pending = deque([exchange])
        by_key_only = True
        while pending:
            name = pending.popleft()
            found = self._exchanges.get(name)
            if name != DEFAULT_EXCHANGE and found is None:
                continue
            by_key_only &= found is None or self._types.find(found.type).by_key_only
            any_target = False
            for target in self._targets(name, message):
                any_target = True
                if target.kind is Kind.QUEUE:
                    if target.name in self._queues:
                        queues[target.name] = None
                elif target.name not in seen:
                    seen.add(target.name)
                    pending.append(target.name)
            alternate = self._alternates.get(name)
            if not any_target and alternate is not None and alternate not in seen:
                seen.add(alternate)
                pending.append(alternate)
        return tuple(queues), by_key_only

    def _targets(self, name: str, message: Routed) -> list[Resource]:
        if name == DEFAULT_EXCHANGE:
            return [queue_of(self.vhost, key) for key in message.routing_keys if not is_hidden(key)]
        if self._exchanges[name].type == Delayed.name and delay_ms_of(message.headers):
            return [queue_of(self.vhost, delayed_queue(name))]
        return list(self._tables[name].match(message))
